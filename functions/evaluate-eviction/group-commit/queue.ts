/**
 * One queue of reviews per group. It decides which reviews it checks next, parks those whose refusal time alone may cure, and
 * answers the rest.
 */

import { tooLate } from "../../shared/admission/answers.ts";
import type { AdmissionAnswer } from "../../shared/admission/definition.ts";
import { BoundedMap } from "../../shared/base/bounded-map.ts";
import type { GroupCache } from "../../shared/cache/cache.ts";
import { Deadlines, type HasDeadline } from "../../shared/clock/deadlines.ts";
import type { ParkedEviction } from "../../shared/contract/definition.ts";
import type { Reporter } from "../../shared/contract/reporter.ts";
import type { Cluster } from "../../shared/kubernetes/cluster.ts";
import { type GroupKey, groupPathOf } from "../../shared/workloads/statefulsets.ts";
import type { GrantedReservation } from "./granted.ts";
import { type Parkable, type ParkedInQueue, type ParkedOutcome, ParkedReviews } from "./parked-reviews.ts";
import { RateEstimate } from "./rate-estimate.ts";
import type { ReviewedEviction } from "./sort-decisions.ts";

/** A request, and how it is decided. A dry run is decided like any other review, and leaves no trace (rule R16). */
export interface EvictionReview extends ReviewedEviction, Parkable {
  /** No answer is of use after this moment of the monotonic clock. */
  readonly deadlineMs: number;
}

/** A review that waits for its answer. */
export interface WaitingReview extends EvictionReview, HasDeadline {
  readonly queue: ReviewQueue;
  deadlineMs: number;
  /** What `deadlineMs` was when it came: an attempt to let it go brings that forward. */
  readonly latestMs: number;
  isAnswered: boolean;
  resolve(answer: AdmissionAnswer): void;
  reject(error: unknown): void;
}

/** The reviews of one group: the new ones, the parked ones, and reservations of reviews that were then refused. */
export interface ReviewQueue {
  readonly key: GroupKey;
  readonly waiting: WaitingReview[];
  /** Reviews that wait their turn. Each batch has them first, and those of `queue` after them. */
  readonly parked: ParkedInQueue<WaitingReview>;
  /**
   * Reservations that stand in the ledger although their review was refused: the next write undoes them. What they renewed
   * stands again, because an earlier allowance may still be under way.
   */
  withdrawn: readonly GrantedReservation[];
  isServed: boolean;
  /** Monotonic time of the first change that no attempt has seen yet; undefined if there is none. */
  changedMs: number | undefined;
  /** Next time the parked reviews are decided. */
  readonly again: HasDeadline & { deadlineMs: number };
  /** Latest time of that, even if nothing changes. */
  restUntilMs: number;
  /** Until then a change does not bring it forward, because other processes are writing the ledger. */
  quietUntilMs: number;
}

export interface QueueContext {
  readonly cluster: Pick<Cluster, "monotonicMs" | "sleep">;
  readonly cache: Pick<GroupCache, "onChange">;
  readonly reporter: Pick<Reporter, "parked">;
}

/** Most new reviews in one batch. One write can serve all evictions that a storm of drains has under way. */
const largestBatch = 500;
/**
 * Changes are gathered for this long, because pods that went together come back one after the other, and the reviews that wait
 * for them are to be allowed together. One that is allowed a moment later pays for it: for each eviction the API server lists
 * PodDisruptionBudgets, and waits up to 100 ms for its cache to catch up with etcd.
 */
const gatherMs = 25;
/**
 * A ledger that other processes write is left alone for longer, but for less than the second of a reconcile, because a client
 * waits.
 */
const contendedGatherMs = 250;
/** The parked reviews are decided at least this often: no event reports that a time is over, and an event may be lost. */
const decideAgainMs = 1_000;
/** Most rates of groups that had evictions lately; a rate that is forgotten is learnt again. */
const rememberedRates = 1_000;

export class ReviewQueues {
  readonly deadlines: Deadlines;
  readonly #context: QueueContext;
  readonly #serve: (queue: ReviewQueue, batch: readonly WaitingReview[]) => Promise<void>;
  readonly #queues = new Map<string, ReviewQueue>();
  readonly #parkedReviews: ParkedReviews<WaitingReview>;
  /** A queue may be empty although refused clients are about to try again. */
  readonly #rates = new BoundedMap<string, RateEstimate>(rememberedRates);

  /** `serve` answers or holds every review of a batch. It never rejects, and runs once at a time for each line. */
  constructor(
    context: QueueContext,
    by: string,
    serve: (queue: ReviewQueue, batch: readonly WaitingReview[]) => Promise<void>,
  ) {
    const { cluster, cache, reporter } = context;
    this.#context = context;
    this.#serve = serve;
    this.deadlines = new Deadlines(cluster);
    this.#parkedReviews = new ParkedReviews({
      by,
      deadlines: this.deadlines,
      monotonicMs: () => cluster.monotonicMs(),
      report: (report) => reporter.parked(report),
      onEnd: (review, outcome) => this.#endParking(review, outcome),
    });
    // Without a watch each attempt is a LIST, which costs the API server more than a client's next try.
    if (cache.onChange === undefined) this.#parkedReviews.close();
    cache.onChange?.((namespace, group) => this.#changed(namespace, group));
  }

  /** Adds one review to the queue of a group. */
  join(key: GroupKey, make: (queue: ReviewQueue) => WaitingReview): void {
    const queue = this.#queueOf(key);
    const review = make(queue);
    queue.waiting.push(review);
    if (!queue.isServed && !this.#isGathering(queue)) void this.#serveQueue(queue);
    if (!review.isAnswered) this.deadlines.add(review);
  }

  /** Answers all reviews that wait for their turn. No review waits from now on. */
  stop(): void {
    this.#parkedReviews.close();
    for (const queue of this.#queues.values()) {
      // A queue that is being served answers its reviews when that is done.
      if (!queue.isServed)
        for (const [review, { refusal }] of [...queue.parked]) this.answer(review, refusal, "stopped");
    }
  }

  /** Other processes have written the ledger, so that a change in the next moments causes no attempt at once. */
  leaveAlone(queue: ReviewQueue): void {
    queue.quietUntilMs = this.#context.cluster.monotonicMs() + contendedGatherMs;
  }

  /** The parked reviews of all groups, by group and place. */
  parked(): readonly ParkedEviction[] {
    return [...this.#queues.values()].flatMap(({ key, parked }) =>
      [...parked].map(([{ eviction }, { sinceMs, refusal }], index) => {
        const { guard, message } = refusal;
        return { key, pod: eviction.name, uid: eviction.uid, place: index + 1, sinceMs, guard, message };
      }),
    );
  }

  canPark(review: WaitingReview, answer: AdmissionAnswer): boolean {
    return !answer.allowed && !review.isAnswered && this.#parkedReviews.canPark(review, answer);
  }

  /** Keeps the reviews that may wait, in the order of arrival and as far as there is room; answers the others. */
  parkOrDeny(
    queue: ReviewQueue,
    asked: Iterable<WaitingReview>,
    answerOf: (review: WaitingReview) => AdmissionAnswer | undefined,
  ): void {
    const nowMs = this.#context.cluster.monotonicMs();
    let [waiting, unparked] = [0, 0];
    for (const review of asked) {
      const answer = review.isAnswered ? undefined : answerOf(review);
      if (answer === undefined) continue;
      if (answer.allowed || !this.canPark(review, answer)) {
        this.answer(review, answer);
        continue;
      }
      // An attempt to let it go has brought its deadline forward, and has failed.
      review.deadlineMs = review.latestMs;
      const waitMs = this.#rateOf(queue).waitMs(waiting, nowMs);
      const behind = this.#parkedReviews.park(queue.parked, review, answer, { waiting, unparked, waitMs });
      if (behind === undefined) waiting++;
      else {
        unparked++;
        this.answer(review, behind);
      }
    }
  }

  /** Answers reviews whose client has disconnected, or whose time ran out while the process was stopped. They reserve nothing. */
  dismiss(batch: readonly WaitingReview[]): void {
    const nowMs = this.#context.cluster.monotonicMs();
    for (const review of batch) {
      if (review.isAnswered) continue;
      if (review.signal?.aborted) this.answer(review, tooLate(), "gone");
      else if (review.deadlineMs <= nowMs) this.answer(review, tooLate());
    }
  }

  answer(review: WaitingReview, answer: AdmissionAnswer, outcome?: ParkedOutcome): void {
    const nowMs = this.#context.cluster.monotonicMs();
    const isOver = (review.parkUntilMs ?? 0) <= nowMs;
    const { queue } = review;
    if (answer.allowed && answer.reserved === true) this.#rateOf(queue).letGo(nowMs, queue.parked.size > 0);
    this.close(review, outcome ?? (answer.allowed ? "allowed" : isOver ? "over" : "refused"));
    review.resolve(answer);
  }

  /** Brings a review's deadline forward: after that moment its answer is of no use. */
  hasten(review: WaitingReview, deadlineMs: number): void {
    if (deadlineMs >= review.deadlineMs) return;
    review.deadlineMs = deadlineMs;
    if (!review.isAnswered) this.deadlines.add(review);
  }

  /** Marks a review as answered, and removes it from its queue. A promise keeps the first answer that it gets. */
  close(review: WaitingReview, outcome: ParkedOutcome): void {
    const { queue } = review;
    review.isAnswered = true;
    this.deadlines.delete(review);
    this.#parkedReviews.leave(queue.parked, review, outcome);
    if (queue.parked.size === 0 && !queue.isServed) this.#restOf(queue);
  }

  /** Ends the wait of a review. While its queue is served only `gone` ends it, because the batch may be about to let it go. */
  #endParking(review: WaitingReview, outcome: "over" | "gone"): void {
    const { queue } = review;
    const parked = queue.parked.get(review);
    if (parked !== undefined && (outcome === "gone" || !queue.isServed)) this.answer(review, parked.refusal, outcome);
  }

  #rateOf({ key }: ReviewQueue): RateEstimate {
    const path = groupPathOf(key);
    const rate = this.#rates.get(path) ?? new RateEstimate();
    this.#rates.set(path, rate);
    return rate;
  }

  #queueOf(key: GroupKey): ReviewQueue {
    const path = groupPathOf(key);
    const known = this.#queues.get(path);
    if (known !== undefined) return known;
    const again = { deadlineMs: Number.POSITIVE_INFINITY, late: () => void this.#decideAgain(queue) };
    const queue: ReviewQueue = {
      ...{ key, waiting: [], parked: new Map(), withdrawn: [], isServed: false, changedMs: undefined },
      ...{ again, restUntilMs: Number.POSITIVE_INFINITY, quietUntilMs: Number.NEGATIVE_INFINITY },
    };
    this.#queues.set(path, queue);
    return queue;
  }

  async #serveQueue(queue: ReviewQueue): Promise<void> {
    const { parked, waiting } = queue;
    queue.isServed = true;
    queue.changedMs = undefined;
    do await this.#serve(queue, [...parked.keys(), ...waiting.splice(0, largestBatch)]);
    while (waiting.length > 0);
    queue.isServed = false;
    this.#restOf(queue);
  }

  /** Plans the next attempt for parked reviews. Forgets a queue that has neither reviews nor withdrawn reservations. */
  #restOf(queue: ReviewQueue): void {
    const { key, parked, waiting, withdrawn } = queue;
    if (parked.size > 0) {
      const nowMs = this.#context.cluster.monotonicMs();
      const curedInMs = [...parked.values()].map(({ refusal }) => refusal.curedInMs || decideAgainMs);
      queue.restUntilMs = nowMs + Math.min(decideAgainMs, ...curedInMs);
      // Between two attempts other writers of the ledger always get a moment.
      if (queue.changedMs !== undefined) queue.changedMs = nowMs;
      this.#scheduleDecision(queue);
    } else if (waiting.length + withdrawn.length === 0) {
      // A late review may belong to a forgotten queue, and the present one may be about to be served.
      if (this.#queues.get(groupPathOf(key)) === queue) this.#queues.delete(groupPathOf(key));
    }
  }

  #changed(namespace: string, group: string | undefined): void {
    if (this.#parkedReviews.isEmpty) return;
    for (const queue of this.#queues.values()) {
      const isConcerned = queue.key.namespace === namespace && (group === undefined || group === queue.key.group);
      if (!isConcerned || queue.parked.size === 0) continue;
      queue.changedMs ??= this.#context.cluster.monotonicMs();
      if (!queue.isServed) this.#scheduleDecision(queue);
    }
  }

  /** True if something has just changed, so that in a moment all reviews are decided together. */
  #isGathering({ again, changedMs }: ReviewQueue): boolean {
    return changedMs !== undefined && again.deadlineMs <= this.#context.cluster.monotonicMs() + gatherMs;
  }

  /** Plans the next attempt: a moment after the first change that no attempt has seen, or at `restUntilMs`. */
  #scheduleDecision({ again, changedMs, restUntilMs, quietUntilMs }: ReviewQueue): void {
    const soonMs = changedMs === undefined ? Number.POSITIVE_INFINITY : Math.max(quietUntilMs, changedMs + gatherMs);
    const isSooner = Math.min(restUntilMs, soonMs) < again.deadlineMs;
    again.deadlineMs = Math.min(restUntilMs, soonMs);
    if (isSooner) this.deadlines.add(again);
  }

  async #decideAgain(queue: ReviewQueue): Promise<void> {
    queue.again.deadlineMs = Number.POSITIVE_INFINITY;
    // The caller that reports a change finishes its own work first.
    await undefined;
    // The call that serves the queue now plans the next attempt when it is done.
    if (queue.isServed || queue.parked.size + queue.waiting.length === 0) return;
    await this.#serveQueue(queue);
  }
}
