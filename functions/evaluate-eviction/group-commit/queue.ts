/**
 * The lines of those who ask, one for each group, in their order: who is looked at next, who waits for what time may cure and is
 * looked at again, and who is answered.
 */

import { tooLate } from "../../shared/admission/answers.ts";
import type { AdmissionAnswer } from "../../shared/admission/definition.ts";
import { BoundedMap } from "../../shared/base/bounded-map.ts";
import type { GroupCache } from "../../shared/cache/cache.ts";
import { Deadlines, type HasDeadline } from "../../shared/clock/deadlines.ts";
import type { Reporter } from "../../shared/contract/reporter.ts";
import type { Cluster } from "../../shared/kubernetes/cluster.ts";
import { type GroupKey, groupPathOf } from "../../shared/workloads/statefulsets.ts";
import type { ReviewedEviction } from "../decide.ts";
import type { Made } from "./granted.ts";
import { type HeldLine, type HeldOutcome, HeldReviews, type MayWait } from "./parked-reviews.ts";
import { RateEstimate } from "./rate-estimate.ts";

/** What is asked for, and how. A dry run is decided like any other review, and leaves no trace (rule R16). */
export interface EvictionReview extends ReviewedEviction, MayWait {
  /** No answer is of use after this moment of the monotonic clock. */
  readonly deadlineMs: number;
}

/** A review that waits for its answer. */
export interface WaitingReview extends EvictionReview, HasDeadline {
  readonly line: ReviewQueue;
  deadlineMs: number;
  /** What `deadlineMs` was when it came: an attempt to let it go brings that forward. */
  readonly latestMs: number;
  isAnswered: boolean;
  resolve(answer: AdmissionAnswer): void;
  reject(error: unknown): void;
}

/** Those of one group who were not looked at yet, those who wait, and what was written for some who were then refused. */
export interface ReviewQueue {
  readonly key: GroupKey;
  readonly queue: WaitingReview[];
  /** Reviews that wait their turn. Each batch has them first, and those of `queue` after them. */
  readonly held: HeldLine<WaitingReview>;
  /**
   * Reservations that stand in the ledger though their petition was refused: the next write undoes them. What they renewed
   * stands again, for an earlier allowance may still be under way.
   */
  withdrawn: readonly Made[];
  isServed: boolean;
  /** Monotonic time of the first change that no look has taken up yet; undefined if there is none. */
  changedMs: number | undefined;
  /** When those who wait are looked at again; when it is though nothing changes; from when on a change brings it forward. */
  readonly again: HasDeadline & { deadlineMs: number };
  restUntilMs: number;
  quietUntilMs: number;
}

export interface LineContext {
  readonly cluster: Pick<Cluster, "monotonicMs" | "sleep">;
  readonly cache: Pick<GroupCache, "onChange">;
  readonly reporter: Pick<Reporter, "held">;
}

/** How many are looked at together: one write may carry all that a storm of drains has under way. */
const largestBatch = 500;
/**
 * What changes is gathered for so long: pods that went together come back one after the other, and those who wait for them are
 * let go together. Who is let go a moment later pays for it: for each eviction the API server lists PodDisruptionBudgets, and
 * waits up to 100 ms for its memory to catch up with etcd.
 */
const gatherMs = 25;
/** A ledger that others write is left alone for longer, but not for the second of a reconcile: a client waits. */
const contendedGatherMs = 250;
/** No event tells that a time has passed, and one may be lost: so often those who wait are looked at in any case. */
const lookAgainMs = 1_000;
/** Of groups that had evictions lately; one that is forgotten is learnt again. */
const rememberedPaces = 1_000;

export class ReviewQueues {
  readonly deadlines: Deadlines;
  readonly #context: LineContext;
  readonly #serve: (line: ReviewQueue, batch: readonly WaitingReview[]) => Promise<void>;
  readonly #lines = new Map<string, ReviewQueue>();
  readonly #held: HeldReviews<WaitingReview>;
  /** A line may be empty while those who were sent away are on their way back. */
  readonly #paces = new BoundedMap<string, RateEstimate>(rememberedPaces);

  /** `serve` answers, or holds, everybody of a batch; it never rejects, and runs once at a time for each line. */
  constructor(
    context: LineContext,
    by: string,
    serve: (line: ReviewQueue, batch: readonly WaitingReview[]) => Promise<void>,
  ) {
    const { cluster, cache, reporter } = context;
    this.#context = context;
    this.#serve = serve;
    this.deadlines = new Deadlines(cluster);
    this.#held = new HeldReviews({
      by,
      deadlines: this.deadlines,
      monotonicMs: () => cluster.monotonicMs(),
      report: (report) => reporter.held(report),
      onEnd: (review, outcome) => this.#endHold(review, outcome),
    });
    // Without a watch each look is a LIST: that costs the API server more than a client that asks again.
    if (cache.onChange === undefined) this.#held.close();
    cache.onChange?.((namespace, group) => this.#changed(namespace, group));
  }

  /** One more in the line of a group. */
  join(key: GroupKey, make: (line: ReviewQueue) => WaitingReview): void {
    const line = this.#lineOf(key);
    const review = make(line);
    line.queue.push(review);
    if (!line.isServed && !this.#isGathering(line)) void this.#serveLine(line);
    if (!review.isAnswered) this.deadlines.add(review);
  }

  /** Answers all reviews that wait their turn. No review waits from now on. */
  stop(): void {
    this.#held.close();
    for (const line of this.#lines.values()) {
      // A line that is being served answers its reviews when that is done.
      if (!line.isServed) for (const [review, { refusal }] of [...line.held]) this.answer(review, refusal, "stopped");
    }
  }

  /** Others have written the ledger: a change in the next moments is no reason to look at once. */
  leaveAlone(line: ReviewQueue): void {
    line.quietUntilMs = this.#context.cluster.monotonicMs() + contendedGatherMs;
  }

  mayWait(review: WaitingReview, answer: AdmissionAnswer): boolean {
    return !answer.allowed && !review.isAnswered && this.#held.mayWait(review, answer);
  }

  /** Keeps the reviews that may wait, in the order of arrival and as far as there is room; answers the others. */
  holdOrRefuse(
    line: ReviewQueue,
    asked: Iterable<WaitingReview>,
    answerOf: (review: WaitingReview) => AdmissionAnswer | undefined,
  ): void {
    const nowMs = this.#context.cluster.monotonicMs();
    let [waiting, unheld] = [0, 0];
    for (const review of asked) {
      const answer = review.isAnswered ? undefined : answerOf(review);
      if (answer === undefined) continue;
      if (answer.allowed || !this.mayWait(review, answer)) {
        this.answer(review, answer);
        continue;
      }
      // An attempt to let it go has brought its deadline forward, and came to nothing.
      review.deadlineMs = review.latestMs;
      const waitMs = this.#paceOf(line).waitMs(waiting, nowMs);
      const behind = this.#held.hold(line.held, review, answer, { waiting, unheld, waitMs });
      if (behind === undefined) waiting++;
      else {
        unheld++;
        this.answer(review, behind);
      }
    }
  }

  /** Answers reviews whose client has gone, or whose time ran out while the process was stopped: they reserve nothing. */
  dismiss(batch: readonly WaitingReview[]): void {
    const nowMs = this.#context.cluster.monotonicMs();
    for (const review of batch) {
      if (review.isAnswered) continue;
      if (review.signal?.aborted) this.answer(review, tooLate(), "gone");
      else if (review.deadlineMs <= nowMs) this.answer(review, tooLate());
    }
  }

  answer(review: WaitingReview, said: AdmissionAnswer, outcome?: HeldOutcome): void {
    const nowMs = this.#context.cluster.monotonicMs();
    const isOver = (review.holdUntilMs ?? 0) <= nowMs;
    const { line } = review;
    if (said.allowed && said.reserved === true) this.#paceOf(line).letGo(nowMs, line.held.size > 0);
    this.close(review, outcome ?? (said.allowed ? "allowed" : isOver ? "over" : "refused"));
    review.resolve(said);
  }

  /** Its answer is of no use after that moment, if it was of any until then. */
  hasten(review: WaitingReview, deadlineMs: number): void {
    if (deadlineMs >= review.deadlineMs) return;
    review.deadlineMs = deadlineMs;
    if (!review.isAnswered) this.deadlines.add(review);
  }

  /** Marks a review as answered, and takes it out of its line. A promise keeps to the first answer that it is given. */
  close(review: WaitingReview, outcome: HeldOutcome): void {
    const { line } = review;
    review.isAnswered = true;
    this.deadlines.delete(review);
    this.#held.leave(line.held, review, outcome);
    if (line.held.size === 0 && !line.isServed) this.#restOf(line);
  }

  /** Ends the wait of a review. While its line is served only `gone` ends it, because the batch may be about to let it go. */
  #endHold(review: WaitingReview, outcome: "over" | "gone"): void {
    const { line } = review;
    const held = line.held.get(review);
    if (held !== undefined && (outcome === "gone" || !line.isServed)) this.answer(review, held.refusal, outcome);
  }

  #paceOf({ key }: ReviewQueue): RateEstimate {
    const path = groupPathOf(key);
    const pace = this.#paces.get(path) ?? new RateEstimate();
    this.#paces.set(path, pace);
    return pace;
  }

  #lineOf(key: GroupKey): ReviewQueue {
    const path = groupPathOf(key);
    const known = this.#lines.get(path);
    if (known !== undefined) return known;
    const again = { deadlineMs: Number.POSITIVE_INFINITY, late: () => void this.#lookAgain(line) };
    const line: ReviewQueue = {
      ...{ key, queue: [], held: new Map(), withdrawn: [], isServed: false, changedMs: undefined },
      ...{ again, restUntilMs: Number.POSITIVE_INFINITY, quietUntilMs: Number.NEGATIVE_INFINITY },
    };
    this.#lines.set(path, line);
    return line;
  }

  async #serveLine(line: ReviewQueue): Promise<void> {
    const { held, queue } = line;
    line.isServed = true;
    line.changedMs = undefined;
    do await this.#serve(line, [...held.keys(), ...queue.splice(0, largestBatch)]);
    while (queue.length > 0);
    line.isServed = false;
    this.#restOf(line);
  }

  /** Plans the next look at the reviews that wait; forgets a line that has neither reviews nor withdrawn reservations. */
  #restOf(line: ReviewQueue): void {
    const { key, held, queue, withdrawn } = line;
    if (held.size > 0) {
      const nowMs = this.#context.cluster.monotonicMs();
      const curedInMs = [...held.values()].map(({ refusal }) => refusal.curedInMs || lookAgainMs);
      line.restUntilMs = nowMs + Math.min(lookAgainMs, ...curedInMs);
      // Between two looks there is always a moment, for others who write the ledger.
      if (line.changedMs !== undefined) line.changedMs = nowMs;
      this.#lookInTime(line);
    } else if (queue.length + withdrawn.length === 0) {
      // Who is late may have been in a line that was forgotten: the one that there is now may be about to be served.
      if (this.#lines.get(groupPathOf(key)) === line) this.#lines.delete(groupPathOf(key));
    }
  }

  #changed(namespace: string, group: string | undefined): void {
    if (this.#held.isEmpty) return;
    for (const line of this.#lines.values()) {
      const isConcerned = line.key.namespace === namespace && (group === undefined || group === line.key.group);
      if (!isConcerned || line.held.size === 0) continue;
      line.changedMs ??= this.#context.cluster.monotonicMs();
      if (!line.isServed) this.#lookInTime(line);
    }
  }

  /** Something has just changed: in a moment all of them are looked at together. */
  #isGathering({ again, changedMs }: ReviewQueue): boolean {
    return changedMs !== undefined && again.deadlineMs <= this.#context.cluster.monotonicMs() + gatherMs;
  }

  /** Plans the next look: a moment after the first change that no look has taken up, or after the rest. */
  #lookInTime({ again, changedMs, restUntilMs, quietUntilMs }: ReviewQueue): void {
    const soonMs = changedMs === undefined ? Number.POSITIVE_INFINITY : Math.max(quietUntilMs, changedMs + gatherMs);
    const isSooner = Math.min(restUntilMs, soonMs) < again.deadlineMs;
    again.deadlineMs = Math.min(restUntilMs, soonMs);
    if (isSooner) this.deadlines.add(again);
  }

  async #lookAgain(line: ReviewQueue): Promise<void> {
    line.again.deadlineMs = Number.POSITIVE_INFINITY;
    // The caller that tells of a change finishes its own work first.
    await undefined;
    // The call that serves the line now plans the next look when it is done.
    if (line.isServed || line.held.size + line.queue.length === 0) return;
    await this.#serveLine(line);
  }
}
