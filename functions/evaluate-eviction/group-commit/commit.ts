/**
 * Group commit: the reviews of one group that arrive while others are being decided are decided together, on one view and with
 * one conditional write. What a storm costs is per batch, not per review; a refusal writes nothing.
 */

import { askAgain, isFinal, notYet, tooLate } from "../../shared/admission/answers.ts";
import type { AdmissionAnswer, Denied } from "../../shared/admission/definition.ts";
import { refuseFailure } from "../../shared/admission/failures.ts";
import type { Deadlines } from "../../shared/clock/deadlines.ts";
import type { Context } from "../../shared/contract/context.ts";
import type { GroupMemory } from "../../shared/contract/memory.ts";
import { renewalOf } from "../../shared/ledger/renewals.ts";
import { actWithinMs, type Ledger, maxConflicts, type Reservation } from "../../shared/ledger/reservation.ts";
import { changeOf } from "../../shared/transaction/claims.ts";
import {
  Conflict,
  forgetLedger,
  knownLedger,
  loadLedger,
  refuseNewLedger,
  waitForLedger,
  writeChange,
} from "../../shared/transaction/ledger-copy.ts";
import { type GroupObservation, observeGroup } from "../../shared/transaction/observe-group.ts";
import { podNameOf } from "../../shared/workloads/pods.ts";
import type { GroupKey } from "../../shared/workloads/statefulsets.ts";
import type { EvictionSnapshot, ReviewedEviction } from "../decide.ts";
import type { Eviction } from "../decide-alone.ts";
import { type Made, without } from "./granted.ts";
import { type EvictionReview, type ReviewQueue, ReviewQueues, type WaitingReview } from "./queue.ts";
import { type Decision, sortRulings } from "./rulings.ts";

/** What a batch is decided by, and its decisions, one for each review, in their order. */
export interface BatchDecider {
  readonly name: string;
  observe(
    context: Context,
    observed: GroupObservation,
    reviews: readonly ReviewedEviction[],
  ): Promise<EvictionSnapshot>;
  decide(snapshot: EvictionSnapshot): readonly Decision[];
  /** Asks pods what the decisions rest on (rule R22): the snapshot with their answers; undefined if no pod is asked. */
  ask?(context: Context, observed: GroupObservation, snapshot: EvictionSnapshot): Promise<EvictionSnapshot> | undefined;
  /**
   * Looks at what is let go once more, after the write that reserves it: resolves to the refusal of what is another thing by now,
   * whose reservation is then undone. Undefined where the answer itself sees to that.
   */
  confirm?(context: Context, key: GroupKey, eviction: Eviction): Promise<Denied | undefined> | undefined;
}

interface Granted extends Made {
  readonly waiting: WaitingReview;
  readonly answer: AdmissionAnswer;
}

/** The refusal where the ledger cannot be used, or the API server fails, while `what` is decided; undefined for other errors. */
export function refuseUnusable(error: unknown, what: string): Denied | undefined {
  const unusable = waitForLedger(error);
  return unusable === undefined ? refuseFailure(error, what) : askAgain(unusable.guard, unusable.sentence);
}

export class GroupCommit {
  readonly #context: Context;
  readonly #gate: BatchDecider;
  readonly #lines: ReviewQueues;

  constructor(context: Context, gate: BatchDecider) {
    this.#context = context;
    this.#gate = gate;
    this.#lines = new ReviewQueues(context, gate.name, (line, batch) => this.#serve(line, batch));
  }

  /** The deadlines of all reviews: at its own a review is refused, so that it waits no longer than its client would. */
  get deadlines(): Deadlines {
    return this.#lines.deadlines;
  }

  /**
   * Resolves to the answer, before the review's deadline and no later than 5 s after a write that reserves for it (rule R9).
   * Rejects only where the decision itself breaks; whatever the API server does is a refusal that says so.
   */
  submit(key: GroupKey, review: EvictionReview): Promise<AdmissionAnswer> {
    const { promise, resolve, reject } = Promise.withResolvers<AdmissionAnswer>();
    this.#lines.join(key, (line) => {
      const late = () => this.#lines.answer(waiting, tooLate());
      const state = { line, latestMs: review.deadlineMs, isAnswered: false, resolve, reject, late };
      const waiting: WaitingReview = { ...review, ...state };
      return waiting;
    });
    return promise;
  }

  /** Answers all reviews that wait their turn. No review waits from now on. */
  stop(): void {
    this.#lines.stop();
  }

  async #serve(line: ReviewQueue, batch: readonly WaitingReview[]): Promise<void> {
    try {
      await this.#decideTogether(line, batch);
    } catch (error) {
      this.#lines.holdOrRefuse(line, batch, (waiting) => this.#failureOf(waiting, error));
    }
  }

  async #decideTogether(line: ReviewQueue, batch: readonly WaitingReview[]): Promise<void> {
    const context = this.#context;
    const { key } = line;
    const memory = context.memoryOf(key);
    for (let conflicts = 0; conflicts < maxConflicts; conflicts++) {
      this.#lines.dismiss(batch);
      const present = batch.filter((one) => !one.isAnswered);
      if (present.length === 0) return;
      let loaded = knownLedger(context, memory);
      try {
        loaded ??= await loadLedger(context, key, memory, this.#isTraceless(present));
        await this.#attempt(line, loaded, present);
        return;
      } catch (error) {
        forgetLedger(memory, loaded);
        if (!(error instanceof Conflict)) throw error;
        context.reporter.conflict(key, this.#gate.name);
      }
    }
    const sentence = `the ledger of ${key.group} was written by others ${maxConflicts} times while this was decided: try again`;
    this.#lines.leaveAlone(line);
    this.#lines.holdOrRefuse(line, batch, () => notYet("ledger-contended", sentence));
  }

  /** Rule R16: nothing may be left behind by these. */
  #isTraceless(present: readonly WaitingReview[]): boolean {
    return this.#context.mode === "shadow" || present.every(({ dryRun }) => dryRun);
  }

  async #attempt(line: ReviewQueue, loaded: Ledger | undefined, present: readonly WaitingReview[]): Promise<void> {
    const context = this.#context;
    if (loaded === undefined) {
      const sentence = `no StatefulSet of ${line.key.group} is left that the pod could belong to: try again`;
      for (const one of present) this.#lines.answer(one, askAgain("pod-unseen", sentence));
      return;
    }
    const ledger = without(loaded, line.withdrawn);
    const memory = context.memoryOf(line.key);
    let { observed, rulings } = await this.#judge(ledger, memory, present, false);
    if (rulings.some(({ answer }) => isFinal(answer))) {
      ({ observed, rulings } = await this.#judge(ledger, memory, present, true));
    }
    const young = refuseNewLedger(context, observed);
    const { granted, traceless, unreserved } = sortRulings(present, rulings, { mode: context.mode, young });
    for (const [waiting, answer] of traceless) this.#lines.answer(waiting, answer);
    // What a clock that was ahead has written ages only once it is written anew: that write waits for no allowance.
    const mends = observed.isMended && young === undefined && !this.#isTraceless(present);
    // A review that can wait gets no answer before that write: after a conflict all of this is decided again.
    for (const [waiting, answer] of unreserved)
      if (!this.#lines.mayWait(waiting, answer)) this.#lines.answer(waiting, answer);
    const made = granted.map(({ reserve, ...one }) => ({ ...one, ...this.#make(observed, reserve) }));
    if (made.length > 0 || mends) await this.#grant(line, observed, made);
    this.#lines.holdOrRefuse(line, unreserved.keys(), (waiting) => unreserved.get(waiting));
  }

  async #judge(ledger: Ledger, memory: GroupMemory, present: readonly WaitingReview[], consistent: boolean) {
    const context = this.#context;
    const observed = await observeGroup(context, ledger, { permitSinceMs: memory.ledgerReadMs, consistent });
    const snapshot = await this.#gate.observe(context, observed, present);
    const asking = this.#gate.ask?.(context, observed, snapshot);
    return { observed, rulings: this.#gate.decide(asking === undefined ? snapshot : await asking) };
  }

  /**
   * A stamp is never used twice for one ordinal: what was withdrawn must not be taken for what was renewed. What is renewed has
   * stood since it was first made (rule R12); what is dropped with this write has not.
   */
  #make({ ledger, open }: GroupObservation, reserve: NonNullable<Decision["reserve"]>): Made {
    const isAt = ({ statefulSet, ordinal }: Reservation) =>
      statefulSet === reserve.statefulSet && ordinal === reserve.ordinal;
    const before = ledger.reservations.find(isAt);
    const stampMs = Math.max(this.#context.cluster.serverTimeMs(), (before?.stampMs ?? 0) + 1);
    const by = this.#gate.name;
    const renewal = renewalOf(open.find(isAt), reserve.uid, by);
    return { reservation: { ...reserve, by, stampMs, ...renewal }, before };
  }

  /** Rules R3, R8 and R12: new and renewed reservations in one conditional write, minus the settled; then the answers. */
  async #grant(line: ReviewQueue, observed: GroupObservation, granted: readonly Granted[]): Promise<void> {
    const { cluster } = this.#context;
    const sentMs = Math.min(cluster.monotonicMs(), observed.view.statefulSetsReadMs ?? Number.POSITIVE_INFINITY);
    // Rule R9: a client that hears of an allowance later than this could act on a reservation that others have dropped.
    for (const { waiting } of granted) this.#lines.hasten(waiting, sentMs + actWithinMs);
    // Two may ask for the same pod: it is reserved once for both.
    const made = new Map(granted.map(({ reservation }) => [podNameOf(reservation), reservation]));
    const kept = observed.open.filter((reservation) => !made.has(podNameOf(reservation)));
    try {
      await writeChange(this.#context, observed, changeOf(observed, { reservations: [...kept, ...made.values()] }));
    } catch (error) {
      // No answer came. What this write reserved, or undid, is not known; and another process may reserve the same pod at the
      // same moment. So nothing is undone: what stands counts until its pod is asked for again, or for two minutes (rule R10).
      if (!(error instanceof Conflict)) line.withdrawn = [];
      throw error;
    }
    const said = await this.#confirm(
      line.key,
      granted.filter((one) => this.#isInTime(one)),
    );
    const inTime = said.filter((one) => one.answer.allowed && this.#isInTime(one));
    // Two may have asked for one pod: it stays reserved when either of them is told so.
    const told = new Set(inTime.map(({ reservation }) => reservation.uid));
    // Everything that was withdrawn before is undone with this write.
    line.withdrawn = granted.filter(({ reservation }) => !told.has(reservation.uid));
    for (const { waiting, answer } of said)
      if (!answer.allowed && !waiting.isAnswered) this.#lines.answer(waiting, answer);
    for (const one of inTime)
      this.#lines.answer(one.waiting, one.answer.allowed ? { ...one.answer, reserved: true } : one.answer);
  }

  #isInTime({ waiting }: Granted): boolean {
    const { isAnswered, signal, deadlineMs } = waiting;
    return !isAnswered && !signal?.aborted && deadlineMs > this.#context.cluster.monotonicMs();
  }

  /** What was granted, with the refusals of what is another thing by now. */
  async #confirm(key: GroupKey, granted: readonly Granted[]): Promise<readonly Granted[]> {
    const confirmed = granted.map(({ waiting }) => this.#gate.confirm?.(this.#context, key, waiting.eviction));
    const refusals = await Promise.all(confirmed);
    return granted.map((one, index) => ({ ...one, answer: refusals[index] ?? one.answer }));
  }

  /** The refusal where a decision has failed; undefined for a fault of ours, with which the caller's promise is rejected. */
  #failureOf(waiting: WaitingReview, error: unknown): Denied | undefined {
    const refusal = refuseUnusable(error, `pods of ${waiting.line.key.group}`);
    if (refusal !== undefined) return refusal;
    this.#lines.close(waiting, "refused");
    waiting.reject(error);
    return undefined;
  }
}
