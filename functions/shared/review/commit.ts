/**
 * Group commit: the reviews of one group that arrive while others are being decided are decided together, on one view and with
 * one conditional write. What a storm costs is per batch, not per review; a refusal writes nothing.
 */

import { ClusterError, hasCode, isTransient, wordsOf } from "../kubernetes/cluster.ts";
import { renewalOf } from "../ledger/renewals.ts";
import { actWithinMs, type Ledger, maxConflicts, type Reservation } from "../ledger/reservation.ts";
import { podNameOf } from "../objects/pods.ts";
import { type GroupKey, groupPathOf } from "../objects/statefulsets.ts";
import type { AdmissionAnswer, Context, Denied, GroupMemory } from "../pass/definition.ts";
import {
  Conflict,
  forgetLedger,
  knownLedger,
  loadLedger,
  refuseNewLedger,
  waitForLedger,
  writeChange,
} from "../pass/ledger-access.ts";
import { type Observed, observeGroup } from "../pass/observation.ts";
import { keptRefusals } from "../pass/verdict-record.ts";
import { TooManyLookUps } from "../views/look-ups.ts";
import { askAgain, isFinal, tooLate } from "./answers.ts";
import { Deadlines, type HasDeadline } from "./deadlines.ts";
import { type Made, without } from "./made.ts";

/** What is asked for, and how. */
export interface Petition<Subject> {
  readonly subject: Subject;
  /** Judged like any other, and leaves no trace (rule R16). */
  readonly dryRun: boolean;
  /** No answer is of use after this moment of the monotonic clock. */
  readonly deadlineMs: number;
}

/** What a decision says of one petition. */
export interface Ruling {
  readonly answer: AdmissionAnswer;
  /** What an allowance rests on: it is given only once this stands in the ledger (rules R8, R12). */
  readonly reserve?: Pick<Reservation, "statefulSet" | "ordinal" | "uid">;
}

/** A function's own part: what it makes of an observation, and its rulings, one for each petition, in their order. */
export interface ReviewGate<Subject, Snapshot> {
  readonly name: string;
  observe(context: Context, observed: Observed, petitions: readonly Petition<Subject>[]): Promise<Snapshot>;
  decide(snapshot: Snapshot): readonly Ruling[];
  /** Asks pods what the rulings rest on (rule R22): the snapshot with their answers; undefined where nobody is to be asked. */
  ask?(context: Context, observed: Observed, snapshot: Snapshot): Promise<Snapshot> | undefined;
}

/** The refusal that a failing API server, or a look-up without a turn, makes of a decision about `what`; else undefined. */
export function refuseFailure(error: unknown, what: string): Denied | undefined {
  if (error instanceof TooManyLookUps)
    return askAgain("look-ups-busy", `${what} must be looked up, but ${error.message}`);
  if (!(error instanceof ClusterError)) return undefined;
  const { verb, resource } = error;
  const sentence = `to judge ${what}, Sluice has to ${verb} ${resource}, and that failed: ${wordsOf(error)}`;
  if (hasCode(error, 401)) return askAgain("credentials-refused", sentence);
  const guard = isTransient(error) ? "api-server-away" : "right-missing";
  return askAgain(guard, sentence);
}

interface PendingPetition<Subject> extends Petition<Subject>, HasDeadline {
  deadlineMs: number;
  isAnswered: boolean;
  resolve(answer: AdmissionAnswer): void;
  reject(error: unknown): void;
}

interface Granted<Subject> extends Made {
  readonly waiting: PendingPetition<Subject>;
  readonly answer: AdmissionAnswer;
}

/** Those of one group who were not looked at yet, and what was written for some who were then refused. */
interface Line<Subject> {
  readonly queue: PendingPetition<Subject>[];
  /**
   * Reservations that stand in the ledger though their petition was refused: the next write undoes them. What they renewed
   * stands again, for an earlier allowance may still be under way.
   */
  withdrawn: readonly Made[];
  isServed: boolean;
}

/** How many petitions one write may carry: all that a storm of drains has under way. */
const largestBatch = 500;

export class GroupCommit<Subject, Snapshot> {
  readonly #context: Context;
  readonly #gate: ReviewGate<Subject, Snapshot>;
  readonly #lines = new Map<string, Line<Subject>>();
  /** Nobody waits longer than a client would: whatever goes on, at the deadline the answer is a refusal. */
  readonly deadlines: Deadlines;

  constructor(context: Context, gate: ReviewGate<Subject, Snapshot>) {
    this.#context = context;
    this.deadlines = new Deadlines(context.cluster);
    this.#gate = gate;
  }

  /**
   * Resolves to the answer, before the petition's deadline and no later than 5 s after a write that reserves for it (rule R9).
   * Rejects only where the decision itself breaks; whatever the API server does is a refusal that says so.
   */
  submit(key: GroupKey, petition: Petition<Subject>): Promise<AdmissionAnswer> {
    const line = this.#lineOf(key);
    const { promise, resolve, reject } = Promise.withResolvers<AdmissionAnswer>();
    const late = () => this.#answer(waiting, tooLate());
    const waiting: PendingPetition<Subject> = { ...petition, isAnswered: false, resolve, reject, late };
    line.queue.push(waiting);
    if (!line.isServed) void this.#serve(key, line);
    if (!waiting.isAnswered) this.deadlines.add(waiting);
    return promise;
  }

  #lineOf(key: GroupKey): Line<Subject> {
    const path = groupPathOf(key);
    let line = this.#lines.get(path);
    if (line === undefined) {
      line = { queue: [], withdrawn: [], isServed: false };
      this.#lines.set(path, line);
    }
    return line;
  }

  async #serve(key: GroupKey, line: Line<Subject>): Promise<void> {
    line.isServed = true;
    while (line.queue.length > 0) {
      const batch = line.queue.splice(0, largestBatch);
      try {
        await this.#decideTogether(key, line, batch);
      } catch (error) {
        for (const one of batch) this.#fail(one, key, error);
      }
    }
    line.isServed = false;
    if (line.withdrawn.length === 0) this.#lines.delete(groupPathOf(key));
  }

  async #decideTogether(key: GroupKey, line: Line<Subject>, batch: readonly PendingPetition<Subject>[]): Promise<void> {
    const context = this.#context;
    const memory = context.memoryOf(key);
    for (let conflicts = 0; conflicts < maxConflicts; conflicts++) {
      const present = batch.filter((one) => !one.isAnswered);
      if (present.length === 0) return;
      let loaded = knownLedger(context, memory);
      try {
        loaded ??= await loadLedger(context, key, memory, this.#isTraceless(present));
        await this.#attempt(key, line, loaded, present);
        return;
      } catch (error) {
        forgetLedger(memory, loaded);
        if (!(error instanceof Conflict)) throw error;
        context.reporter.conflict(key, this.#gate.name);
      }
    }
    const sentence = `the ledger of ${key.group} was written by others ${maxConflicts} times while this was decided: try again`;
    for (const one of batch) this.#answer(one, askAgain("ledger-contended", sentence));
  }

  /** Rule R16: nothing may be left behind by these. */
  #isTraceless(present: readonly PendingPetition<Subject>[]): boolean {
    return this.#context.mode === "shadow" || present.every(({ dryRun }) => dryRun);
  }

  async #attempt(
    key: GroupKey,
    line: Line<Subject>,
    loaded: Ledger | undefined,
    present: readonly PendingPetition<Subject>[],
  ): Promise<void> {
    const context = this.#context;
    if (loaded === undefined) {
      const sentence = `no StatefulSet of ${key.group} is left that the pod could belong to: try again`;
      for (const one of present) this.#answer(one, askAgain("pod-unseen", sentence));
      return;
    }
    const ledger = without(loaded, line.withdrawn);
    const memory = context.memoryOf(key);
    let { observed, rulings } = await this.#judge(ledger, memory, present, false);
    if (rulings.some(({ answer }) => isFinal(answer))) {
      ({ observed, rulings } = await this.#judge(ledger, memory, present, true));
    }
    const young = refuseNewLedger(context, observed);
    const granted: Granted<Subject>[] = [];
    for (const [index, waiting] of present.entries()) {
      const ruling = rulings[index] as Ruling;
      if (ruling.reserve === undefined) this.#answer(waiting, ruling.answer);
      else if (young !== undefined) this.#answer(waiting, askAgain(young.guard, young.sentence));
      else if (waiting.dryRun) this.#answer(waiting, ruling.answer);
      else if (context.mode === "shadow") this.#answer(waiting, unreserved(ruling.answer));
      else granted.push({ waiting, answer: ruling.answer, ...this.#make(observed, ruling.reserve) });
    }
    // What a clock that was ahead has written ages only once it is written anew: nobody is made to wait for an allowance for it.
    const mends = observed.isMended && young === undefined && !this.#isTraceless(present);
    if (granted.length > 0 || mends) await this.#grant(line, observed, granted);
  }

  async #judge(ledger: Ledger, memory: GroupMemory, present: readonly PendingPetition<Subject>[], consistent: boolean) {
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
  #make({ ledger, open }: Observed, reserve: NonNullable<Ruling["reserve"]>): Made {
    const isAt = ({ statefulSet, ordinal }: Reservation) =>
      statefulSet === reserve.statefulSet && ordinal === reserve.ordinal;
    const before = ledger.reservations.find(isAt);
    const stampMs = Math.max(this.#context.cluster.serverTimeMs(), (before?.stampMs ?? 0) + 1);
    const by = this.#gate.name;
    const renewal = renewalOf(open.find(isAt), reserve.uid, by);
    return { reservation: { ...reserve, by, stampMs, ...renewal }, before };
  }

  /** Rules R3, R8 and R12: new and renewed reservations in one conditional write, minus the settled; then the answers. */
  async #grant(line: Line<Subject>, observed: Observed, granted: readonly Granted<Subject>[]): Promise<void> {
    const { cluster } = this.#context;
    const sentMs = Math.min(cluster.monotonicMs(), observed.view.statefulSetsReadMs ?? Number.POSITIVE_INFINITY);
    // Rule R9: whoever hears of an allowance later than this could act on a reservation that others have dropped.
    for (const { waiting } of granted) waiting.deadlineMs = Math.min(waiting.deadlineMs, sentMs + actWithinMs);
    // Two may ask for the same pod: it is reserved once for both.
    const made = new Map(granted.map(({ reservation }) => [podNameOf(reservation), reservation]));
    const kept = observed.open.filter((reservation) => !made.has(podNameOf(reservation)));
    try {
      await writeChange(this.#context, observed, {
        reservations: [...kept, ...made.values()],
        seenThrough: observed.view.seenThrough,
        membersThrough: observed.view.membersThrough,
        members: observed.joining.members,
        refusals: keptRefusals(observed),
        verdicts: observed.ledger.verdicts,
      });
    } catch (error) {
      // No answer came. What this write reserved, or undid, is not known; and another process may reserve the same pod at the
      // same moment. So nothing is undone: what stands counts until its pod is asked for again, or for two minutes (rule R10).
      if (!(error instanceof Conflict)) line.withdrawn = [];
      throw error;
    }
    const nowMs = cluster.monotonicMs();
    const inTime = granted.filter(({ waiting }) => !waiting.isAnswered && waiting.deadlineMs > nowMs);
    // Two may have asked for one pod: it stays reserved when either of them is told so.
    const told = new Set(inTime.map(({ reservation }) => reservation.uid));
    // Everything that was withdrawn before is undone with this write.
    line.withdrawn = granted.filter(({ reservation }) => !told.has(reservation.uid));
    for (const one of inTime)
      this.#answer(one.waiting, one.answer.allowed ? { ...one.answer, reserved: true } : one.answer);
  }

  #fail(waiting: PendingPetition<Subject>, key: GroupKey, error: unknown): void {
    const refusal = refuseFailure(error, `pods of ${key.group}`);
    const unusable = waitForLedger(error);
    if (unusable !== undefined) this.#answer(waiting, askAgain(unusable.guard, unusable.sentence));
    else if (refusal !== undefined) this.#answer(waiting, refusal);
    else {
      this.#close(waiting);
      waiting.reject(error);
    }
  }

  #answer(waiting: PendingPetition<Subject>, said: AdmissionAnswer): void {
    this.#close(waiting);
    waiting.resolve(said);
  }

  /** Nobody waits for this one any more. A promise keeps to the first answer that it is given. */
  #close(waiting: PendingPetition<Subject>): void {
    waiting.isAnswered = true;
    this.deadlines.delete(waiting);
  }
}

/** An allowance in shadow mode, which says that it would have been reserved. */
function unreserved(said: AdmissionAnswer): AdmissionAnswer {
  return said.allowed ? { ...said, otherwise: "reserved" } : said;
}
