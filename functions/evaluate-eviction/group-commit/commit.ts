/**
 * Group commit: the reviews of one group that arrive while others are being decided are decided together, on one view and with
 * one conditional write. What a storm costs is per batch, not per review; a refusal writes nothing.
 */

import { askAgain, isFinal, notYet, tooLate } from "../../shared/admission/answers.ts";
import type { AdmissionAnswer, Denied } from "../../shared/admission/definition.ts";
import { refuseFailure } from "../../shared/admission/failures.ts";
import type { Deadlines } from "../../shared/clock/deadlines.ts";
import type { Context } from "../../shared/contract/context.ts";
import type { ParkedEviction } from "../../shared/contract/definition.ts";
import type { GroupMemory } from "../../shared/contract/memory.ts";
import { renewalOf } from "../../shared/ledger/renewals.ts";
import { actWithinMs, type Ledger, maxConflicts, type Reservation } from "../../shared/ledger/reservation.ts";
import { changeOf } from "../../shared/transaction/claims.ts";
import { refuseNewLedger } from "../../shared/transaction/ledger-age.ts";
import {
  Conflict,
  forgetLedger,
  knownLedger,
  loadLedger,
  waitForLedger,
  writeChange,
} from "../../shared/transaction/ledger-copy.ts";
import { type GroupObservation, observeGroup } from "../../shared/transaction/observe-group.ts";
import { podNameOf } from "../../shared/workloads/pods.ts";
import type { GroupKey } from "../../shared/workloads/statefulsets.ts";
import { type GrantedReservation, without } from "./granted.ts";
import { type EvictionReview, type ReviewQueue, ReviewQueues, type WaitingReview } from "./queue.ts";
import { type Decision, type Eviction, type ReviewedEviction, sortDecisions } from "./sort-decisions.ts";

/** The basis of a batch's decisions, and one decision for each review, in their order. */
export interface BatchDecider<Snapshot> {
  readonly name: string;
  observe(context: Context, observed: GroupObservation, asked: readonly ReviewedEviction[]): Promise<Snapshot>;
  decide(snapshot: Snapshot): readonly Decision[];
  /** Asks pods what the decisions rest on (rule R22): the snapshot with their answers; undefined if no pod is asked. */
  ask?(context: Context, observed: GroupObservation, snapshot: Snapshot): Promise<Snapshot> | undefined;
  /**
   * Reads a pod that is let go once more, after the write that reserves it: resolves to the refusal of a pod that is another one
   * by now, whose reservation is then undone. Undefined where the answer itself pins the pod.
   */
  confirm?(context: Context, key: GroupKey, eviction: Eviction): Promise<Denied | undefined> | undefined;
}

interface Granted extends GrantedReservation {
  readonly waiting: WaitingReview;
  readonly answer: AdmissionAnswer;
}

/**
 * The refusal if the ledger cannot be used, or the API server fails, during the decision of `what`; undefined for other errors.
 */
export function refuseUnusable(error: unknown, what: string): Denied | undefined {
  const unusable = waitForLedger(error);
  return unusable === undefined ? refuseFailure(error, what) : askAgain(unusable.guard, unusable.message);
}

export class GroupCommit<Snapshot> {
  readonly #context: Context;
  readonly #decider: BatchDecider<Snapshot>;
  readonly #queues: ReviewQueues;

  constructor(context: Context, decider: BatchDecider<Snapshot>) {
    this.#context = context;
    this.#decider = decider;
    this.#queues = new ReviewQueues(context, decider.name, (queue, batch) => this.#serve(queue, batch));
  }

  /** The deadlines of all reviews. At its own deadline a review is refused, so that it waits no longer than its client would. */
  get deadlines(): Deadlines {
    return this.#queues.deadlines;
  }

  /**
   * Resolves to the answer, before the review's deadline and no later than 5 s after a write that reserves for it (rule R9).
   * Rejects only if the decision itself fails; any failure of the API server is a refusal that says so.
   */
  submit(key: GroupKey, review: EvictionReview): Promise<AdmissionAnswer> {
    const { promise, resolve, reject } = Promise.withResolvers<AdmissionAnswer>();
    this.#queues.join(key, (queue) => {
      const late = () => this.#queues.answer(waiting, tooLate());
      const state = { queue, latestMs: review.deadlineMs, isAnswered: false, resolve, reject, late };
      const waiting: WaitingReview = { ...review, ...state };
      return waiting;
    });
    return promise;
  }

  /** The reviews that wait for their turn, by group and place. */
  parked(): readonly ParkedEviction[] {
    return this.#queues.parked();
  }

  /** Answers all reviews that wait for their turn. No review waits from now on. */
  stop(): void {
    this.#queues.stop();
  }

  async #serve(queue: ReviewQueue, batch: readonly WaitingReview[]): Promise<void> {
    try {
      await this.#decideTogether(queue, batch);
    } catch (error) {
      this.#queues.parkOrDeny(queue, batch, (waiting) => this.#failureOf(waiting, error));
    }
  }

  async #decideTogether(queue: ReviewQueue, batch: readonly WaitingReview[]): Promise<void> {
    const context = this.#context;
    const { key } = queue;
    const memory = context.memoryOf(key);
    for (let conflicts = 0; conflicts < maxConflicts; conflicts++) {
      this.#queues.dismiss(batch);
      const present = batch.filter((one) => !one.isAnswered);
      if (present.length === 0) return;
      let loaded = knownLedger(context, memory);
      try {
        loaded ??= await loadLedger(context, key, memory, this.#isTraceless(present));
        await this.#attempt(queue, loaded, present);
        return;
      } catch (error) {
        forgetLedger(memory, loaded);
        if (!(error instanceof Conflict)) throw error;
        context.reporter.conflict(key, this.#decider.name);
      }
    }
    const message = `the ledger of ${key.group} was written by others ${maxConflicts} times while this was decided: try again`;
    this.#queues.leaveAlone(queue);
    this.#queues.parkOrDeny(queue, batch, () => notYet("ledger-contended", message));
  }

  /** Rule R16: these reviews must leave no trace. */
  #isTraceless(present: readonly WaitingReview[]): boolean {
    return this.#context.mode === "shadow" || present.every(({ dryRun }) => dryRun);
  }

  async #attempt(queue: ReviewQueue, loaded: Ledger | undefined, present: readonly WaitingReview[]): Promise<void> {
    const context = this.#context;
    if (loaded === undefined) {
      const message = `no StatefulSet of ${queue.key.group} is left that the pod could belong to: try again`;
      for (const one of present) this.#queues.answer(one, askAgain("pod-unseen", message));
      return;
    }
    const ledger = without(loaded, queue.withdrawn);
    const memory = context.memoryOf(queue.key);
    let { observed, decisions } = await this.#decide(ledger, memory, present, false);
    if (decisions.some(({ answer }) => isFinal(answer))) {
      ({ observed, decisions } = await this.#decide(ledger, memory, present, true));
    }
    const tooNew = refuseNewLedger(context, observed);
    const { granted, traceless, unreserved } = sortDecisions(present, decisions, { mode: context.mode, tooNew });
    for (const [waiting, answer] of traceless) this.#queues.answer(waiting, answer);
    // Stamps of a clock that was ahead age only once they are corrected, and that write does not wait for an allowance.
    const mends = observed.isMended && tooNew === undefined && !this.#isTraceless(present);
    // A review that can wait gets no answer before that write, because after a conflict everything is decided again.
    for (const [waiting, answer] of unreserved)
      if (!this.#queues.canPark(waiting, answer)) this.#queues.answer(waiting, answer);
    const reserved = granted.map(({ reserve, ...one }) => ({ ...one, ...this.#make(observed, reserve) }));
    if (reserved.length > 0 || mends) await this.#grant(queue, observed, reserved);
    this.#queues.parkOrDeny(queue, unreserved.keys(), (waiting) => unreserved.get(waiting));
  }

  async #decide(ledger: Ledger, memory: GroupMemory, present: readonly WaitingReview[], consistent: boolean) {
    const context = this.#context;
    const observed = await observeGroup(context, ledger, { permitSinceMs: memory.ledgerReadMs, consistent });
    const snapshot = await this.#decider.observe(context, observed, present);
    const asking = this.#decider.ask?.(context, observed, snapshot);
    return { observed, decisions: this.#decider.decide(asking === undefined ? snapshot : await asking) };
  }

  /**
   * A stamp is never used twice for one ordinal: what was withdrawn must not be taken for what was renewed. What is renewed has
   * stood since it was first made (rule R12); what is dropped with this write has not.
   */
  #make({ ledger, open }: GroupObservation, reserve: NonNullable<Decision["reserve"]>): GrantedReservation {
    const isAt = ({ statefulSet, ordinal }: Reservation) =>
      statefulSet === reserve.statefulSet && ordinal === reserve.ordinal;
    const before = ledger.reservations.find(isAt);
    const stampMs = Math.max(this.#context.cluster.serverTimeMs(), (before?.stampMs ?? 0) + 1);
    const by = this.#decider.name;
    const renewal = renewalOf(open.find(isAt), reserve.uid, by);
    return { reservation: { ...reserve, by, stampMs, ...renewal }, before };
  }

  /** Rules R3, R8 and R12: new and renewed reservations in one conditional write, minus the settled; then the answers. */
  async #grant(queue: ReviewQueue, observed: GroupObservation, granted: readonly Granted[]): Promise<void> {
    const { cluster } = this.#context;
    const sentMs = Math.min(cluster.monotonicMs(), observed.view.statefulSetsReadMs ?? Number.POSITIVE_INFINITY);
    // Rule R9: a client that receives an allowance later than this could act on a reservation that other processes have
    // dropped.
    for (const { waiting } of granted) this.#queues.hasten(waiting, sentMs + actWithinMs);
    // Two reviews may be about one pod, which is reserved once for both.
    const byPod = new Map(granted.map(({ reservation }) => [podNameOf(reservation), reservation]));
    const kept = observed.open.filter((reservation) => !byPod.has(podNameOf(reservation)));
    try {
      await writeChange(this.#context, observed, changeOf(observed, { reservations: [...kept, ...byPod.values()] }));
    } catch (error) {
      // No answer came. What this write reserved, or undid, is not known; and another process may reserve the same pod at the
      // same moment. So nothing is undone: what stands counts until its pod is asked for again, or for two minutes (rule R10).
      if (!(error instanceof Conflict)) queue.withdrawn = [];
      throw error;
    }
    const confirmed = await this.#confirm(
      queue.key,
      granted.filter((one) => this.#isInTime(one)),
    );
    const inTime = confirmed.filter((one) => one.answer.allowed && this.#isInTime(one));
    // Two reviews may be about one pod, which stays reserved if either of them is allowed.
    const confirmedUids = new Set(inTime.map(({ reservation }) => reservation.uid));
    // This write removes everything that was withdrawn before.
    queue.withdrawn = granted.filter(({ reservation }) => !confirmedUids.has(reservation.uid));
    for (const { waiting, answer } of confirmed)
      if (!answer.allowed && !waiting.isAnswered) this.#queues.answer(waiting, answer);
    for (const one of inTime)
      this.#queues.answer(one.waiting, one.answer.allowed ? { ...one.answer, reserved: true } : one.answer);
  }

  #isInTime({ waiting }: Granted): boolean {
    const { isAnswered, signal, deadlineMs } = waiting;
    return !isAnswered && !signal?.aborted && deadlineMs > this.#context.cluster.monotonicMs();
  }

  /** The granted reviews, and the refusals of pods that have been replaced by now. */
  async #confirm(key: GroupKey, granted: readonly Granted[]): Promise<readonly Granted[]> {
    const confirmed = granted.map(({ waiting }) => this.#decider.confirm?.(this.#context, key, waiting.eviction));
    const refusals = await Promise.all(confirmed);
    return granted.map((one, index) => ({ ...one, answer: refusals[index] ?? one.answer }));
  }

  /** The refusal if a decision has failed; undefined for a bug of ours, with which the caller's promise is rejected. */
  #failureOf(waiting: WaitingReview, error: unknown): Denied | undefined {
    const refusal = refuseUnusable(error, `pods of ${waiting.queue.key.group}`);
    if (refusal !== undefined) return refusal;
    this.#queues.close(waiting, "refused");
    waiting.reject(error);
    return undefined;
  }
}
