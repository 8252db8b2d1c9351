/**
 * From a verdict to what is done about it: reserve, act, record. Every function that takes pods down goes through here.
 *
 * One reconcile: read the ledger or use the copy of our own last write, take a view at least that new, settle, decide, write the
 * reservations conditionally, act by uid, say why (`../ledger/README.md`).
 */

import type { Context } from "../contract/context.ts";
import type { ReconcileResult } from "../contract/definition.ts";
import type { GroupMemory } from "../contract/memory.ts";
import { contendedRequeueMs, failingGuards, type Take, type Verdict, type Wait, wait } from "../contract/verdict.ts";
import { type ClaimContent, changeClaim, countRanges, type KnownClaim, makeClaim } from "../ledger/claim.ts";
import {
  actWithinMs,
  finishAfterMs,
  type Ledger,
  type LedgerChange,
  maxConflicts,
  maxReservations,
  type RecordedVerdict,
  type Reservation,
} from "../ledger/reservation.ts";
import { refuseNewLedger } from "../transaction/ledger-age.ts";
import {
  Conflict,
  forgetLedger,
  knownLedger,
  loadLedger,
  waitForLedger,
  withoutRefused,
  writeChange,
} from "../transaction/ledger-copy.ts";
import { type GroupObservation, type Notes, observeGroup } from "../transaction/observe-group.ts";
import { podNameOf } from "../workloads/pods.ts";
import type { GroupKey } from "../workloads/statefulsets.ts";
import { type Act, carryOutAll, fittingInto, isOfPod, isOther, whileTooNew } from "./act.ts";
import {
  changeToRecord,
  type EventSource,
  recordOf,
  recordVerdictEvent,
  reportMalformed,
  reportVerdict,
  writeAloneInMs,
} from "./record.ts";

/** A function's own part of a reconcile: what it makes of an observation, what it decides, and what is done about that. */
export interface GroupReconciler<Snapshot, Target> extends EventSource {
  /** May read more than what was observed. Throws ClusterError. */
  observe(observed: GroupObservation, context: Context): Snapshot | Promise<Snapshot>;
  decide(snapshot: Snapshot): Verdict<Target>;
  /** Asks pods what a verdict rests on (rule R22): the snapshot with their answers; undefined where no pod is to be asked. */
  ask?(context: Context, observed: GroupObservation, snapshot: Snapshot): Promise<Snapshot> | undefined;
  /** What is done to a target of a verdict on this observation. */
  actOn(target: Target, observed: GroupObservation): Act;
  /** What each write of the ledger says of times besides. */
  notesOn?(snapshot: Snapshot): Notes | undefined;
}

/**
 * One reconcile of a group by a function. Throws ClusterError where the API server is at fault: nothing is lost, and the same
 * reconcile can be run again.
 */
export async function reconcileGroup<Snapshot, Target>(
  context: Context,
  reconciler: GroupReconciler<Snapshot, Target>,
  key: GroupKey,
  trigger: { readonly sweep: boolean },
): Promise<ReconcileResult> {
  if (trigger.sweep) forgetForSweep(context.memoryOf(key));
  return reconcileByKnown(context, reconciler, key, trigger);
}

/** A sweep reads the ledger, and tries a write again that was refused for good. */
export function forgetForSweep(memory: GroupMemory): void {
  forgetLedger(memory);
  memory.ledgerRefused = undefined;
}

/** The same of a reconcile that has begun already: a ledger that it has read serves, in a sweep as well. */
export async function reconcileByKnown<Snapshot, Target>(
  context: Context,
  reconciler: GroupReconciler<Snapshot, Target>,
  key: GroupKey,
  trigger: { readonly sweep: boolean },
): Promise<ReconcileResult> {
  const memory = context.memoryOf(key);
  const waiting = memory.waiting;
  for (let conflicts = 0; conflicts < maxConflicts; conflicts++) {
    let loaded = knownLedger(context, memory);
    try {
      loaded ??= await loadLedger(context, key, memory);
      if (loaded === undefined) return { requeueAfterMs: undefined, pendingActs: undefined, isGone: true };
      return await attempt(context, reconciler, withoutRefused(memory, loaded), trigger.sweep);
    } catch (error) {
      forgetLedger(memory, loaded);
      const unusable = waitForLedger(error);
      if (unusable !== undefined) {
        // The ledger holds no record of this wait, and its guard may have held before: what this attempt decided is void.
        memory.waiting = waiting;
        reportVerdict(context, reconciler.name, key, unusable);
        return { requeueAfterMs: unusable.requeueAfterMs, pendingActs: undefined };
      }
      if (!(error instanceof Conflict)) throw error;
      context.reporter.conflict(key, reconciler.name);
    }
  }
  return { requeueAfterMs: contendedRequeueMs, pendingActs: undefined };
}

async function attempt<Snapshot, Target>(
  context: Context,
  reconciler: GroupReconciler<Snapshot, Target>,
  ledger: Ledger,
  sweep: boolean,
): Promise<ReconcileResult> {
  const { key } = ledger;
  const current = await observeToPermit(context, reconciler, ledger, sweep);
  const { observed, snapshot, tooNew } = current;
  const asking = mayPermit(current) ? reconciler.ask?.(context, observed, snapshot) : undefined;
  const decided = asking === undefined ? current.verdict : verdictBy(reconciler, observed, await asking);
  const verdict = limitedBy(current, decided);
  reportMalformed(context, reconciler.name, observed);
  const record = recordOf(context.memoryOf(key), reconciler, observed, verdict);
  const notes = tooNew === undefined ? reconciler.notesOn?.(snapshot) : undefined;
  const outcome = await conclude(context, reconciler, { ...observed, notes }, verdict, record, tooNew);
  const { guard } = record;
  const { zone, message } = verdict;
  const wouldTake = isPermit(verdict) && verdict.targets.map(({ name: action, object }) => ({ action, object }));
  reportVerdict(context, reconciler.name, key, { guard, zone, message, ...(wouldTake && { wouldTake }) });
  const isGone = observed.view.statefulSets.length === 0;
  return { ...outcome, isGone, ...(failingGuards.has(guard) ? { failure: message } : {}) };
}

/** What a reconciler decides on one observation. `tooNew`: why nothing may be permitted yet (rule R4). */
interface GroupAttempt<Snapshot> {
  readonly observed: GroupObservation;
  readonly snapshot: Snapshot;
  readonly verdict: Verdict<Act>;
  readonly tooNew: Wait | undefined;
}

/**
 * Rule R5: what a watch remembers of StatefulSets will do to wait; to permit, they are read, and those who joined are listed.
 * Until a ledger's first decision every observation is a consistent LIST (rule R4): one that may permit saves a second one.
 */
async function observeToPermit<Snapshot, Target>(
  context: Context,
  reconciler: GroupReconciler<Snapshot, Target>,
  ledger: Ledger,
  consistent: boolean,
): Promise<GroupAttempt<Snapshot>> {
  const memory = context.memoryOf(ledger.key);
  const decideOn = async (permitSinceMs: number | undefined): Promise<GroupAttempt<Snapshot>> => {
    const observed = await observeGroup(context, ledger, { permitSinceMs, consistent });
    const snapshot = await reconciler.observe(observed, context);
    const verdict = verdictBy(reconciler, observed, snapshot);
    return { observed, snapshot, verdict, tooNew: refuseNewLedger(context, observed) };
  };
  const first = await decideOn(ledger.settledThrough === undefined ? memory.ledgerReadMs : undefined);
  const { view, joining } = first.observed;
  const isRead = view.statefulSetsReadMs !== undefined && !joining.needsList;
  return mayPermit(first) && !isRead ? decideOn(memory.ledgerReadMs) : first;
}

function mayPermit({ verdict, tooNew }: Pick<GroupAttempt<unknown>, "verdict" | "tooNew">): boolean {
  return isPermit(verdict) && tooNew === undefined;
}

/** What is left of a verdict under a ledger that is new (rule R4), or full (rule R2). */
function limitedBy({ observed, tooNew }: GroupAttempt<unknown>, decided: Verdict<Act>): Verdict<Act> {
  const verdict = tooNew !== undefined && isPermit(decided) ? whileTooNew(decided, tooNew) : decided;
  if (!isPermit(verdict)) return verdict;
  const room = roomIn(observed);
  const isBlockedByRoom =
    verdict.targets.every(({ claims }) => claims.length > 0) && fittingInto(room, verdict.targets).length === 0;
  if (!isBlockedByRoom) return verdict;
  return wait("ledger-full", `the ledger holds ${maxReservations - room} reservations, and no more are made`);
}

/** Rule R2: how many more reservations the ledger takes. */
function roomIn({ open, ledger }: GroupObservation): number {
  return maxReservations - open.length - countRanges(ledger.claims);
}

/** The verdict of a reconciler, whose targets are the acts that are done to them. */
function verdictBy<Snapshot, Target>(
  reconciler: GroupReconciler<Snapshot, Target>,
  observed: GroupObservation,
  snapshot: Snapshot,
): Verdict<Act> {
  const verdict = reconciler.decide(snapshot);
  if (verdict.kind === "wait") return verdict;
  return { ...verdict, targets: verdict.targets.map((target) => reconciler.actOn(target, observed)) };
}

/** What is done about a verdict: nothing in shadow mode (rule R16) or under a new ledger, acts, or a record of the wait. */
function conclude(
  context: Context,
  source: EventSource,
  observed: GroupObservation,
  verdict: Verdict<Act>,
  record: RecordedVerdict,
  tooNew: Wait | undefined,
): ReconcileResult | Promise<ReconcileResult> {
  if (context.mode === "shadow") return { requeueAfterMs: verdict.requeueAfterMs, pendingActs: undefined };
  // Rule R4: a new ledger is not written either, or its first decision would not begin with a consistent LIST. What takes nothing
  // writes none.
  if (tooNew !== undefined && !isPermit(verdict))
    return { requeueAfterMs: tooNew.requeueAfterMs, pendingActs: undefined };
  if (isPermit(verdict)) return takeTargets(context, source, observed, verdict, record);
  return recordAlone(context, source, observed, verdict, record);
}

function isPermit(verdict: Verdict<Act>): verdict is Take<Act> {
  return verdict.kind === "take" && verdict.targets.length > 0;
}

async function takeTargets(
  context: Context,
  source: EventSource,
  observed: GroupObservation,
  verdict: Take<Act>,
  record: RecordedVerdict,
): Promise<ReconcileResult> {
  const [{ cluster }, { name: by }] = [context, source];
  const room = roomIn(observed);
  const reserved = fittingInto(room, verdict.targets);
  const others = verdict.targets.filter(({ claims }) => claims.length === 0);
  const sentMs = cluster.monotonicMs();
  const sole = new Map<string, Reservation>();
  if (reserved.length > 0) {
    const stampMs = cluster.serverTimeMs();
    const claimed = reserved.flatMap(({ claims }) => claims);
    const added = claimed.filter(isOfPod).map((claim): Reservation => ({ ...claim, by, stampMs }));
    const taken = new Set(added.map(podNameOf));
    const kept = observed.open.filter((reservation) => !taken.has(podNameOf(reservation)));
    const claims = claimed.filter(isOther).map((claim) => claimNow(observed.ledger, { ...claim, by, stampMs }));
    const reservations = [...kept, ...added];
    // Rules R8 and R18: all of it is reserved, by one write, before anything is done.
    await writeChange(context, observed, {
      ...changeToRecord(observed, by, record),
      reservations,
      ...adding(observed, claims),
    });
    const renewed = new Set(observed.open.map(({ uid }) => uid));
    for (const reservation of added) if (!renewed.has(reservation.uid)) sole.set(reservation.uid, reservation);
  } else if (observed.notes?.isDue) await writeChange(context, observed, changeToRecord(observed, by, record));
  else if (others.some(({ confirmsLedger }) => confirmsLedger)) {
    // Rules R13 and R18: nothing is written that could fail, and a ledger of long ago says nothing of the claims of now.
    const now = await context.protocol.readLedger(cluster, observed.key);
    if (now?.resourceVersion !== observed.ledger.resourceVersion) throw new Conflict();
  }
  // Rule R9, and invariant Z3: no later than 5 s after the write, nor after the reads that it rests on.
  const deadlineMs = Math.min(sentMs, observed.view.statefulSetsReadMs ?? sentMs) + actWithinMs;
  const acts = carryOutAll({ context, by, key: observed.key, deadlineMs, sole, isOfLedger }, [...others, ...reserved]);
  const recording = reserved.length > 0 ? recordVerdictEvent(context, source, observed, record) : Promise.resolve();
  const pendingActs = Promise.all([acts, recording]).then(([requeueAfterMs]) => requeueAfterMs);
  return { requeueAfterMs: verdict.requeueAfterMs ?? finishAfterMs, pendingActs };
}

function isOfLedger(error: unknown): boolean {
  return error instanceof Conflict || waitForLedger(error) !== undefined;
}

/** A claim as it is written now. One that stands is renewed: it has stood since it was made. Throws Error for another's. */
function claimNow({ claims }: Ledger, { id, kind, zone, ...content }: ClaimContent): KnownClaim {
  const standing = claims.find((one) => one.id === id);
  if (standing === undefined) return makeClaim({ id, kind, zone, ...content });
  if (!standing.isKnown || standing.by !== content.by || standing.kind !== kind || standing.zone !== zone)
    throw new Error(`the claim ${id} stands for something else, and is not ${content.by}'s to replace`);
  return changeClaim(standing, { ...content, sinceMs: standing.sinceMs ?? standing.stampMs });
}

/** The claims of the ledger with these, each in place of the one of its id; nothing where there are none. */
function adding({ ledger }: GroupObservation, claims: readonly KnownClaim[]): Pick<LedgerChange, "claims"> {
  if (claims.length === 0) return {};
  const ids = new Set(claims.map(({ id }) => id));
  return { claims: [...ledger.claims.filter(({ id }) => !ids.has(id)), ...claims] };
}

/** A verdict that takes nothing: written to the ledger when it has changed, and at most every 5 s. */
async function recordAlone(
  context: Context,
  source: EventSource,
  observed: GroupObservation,
  verdict: Verdict<Act>,
  record: RecordedVerdict,
): Promise<ReconcileResult> {
  const memory = context.memoryOf(observed.key);
  const inMs = writeAloneInMs(context, memory, source.name, observed, record);
  let recording: Promise<undefined> | undefined;
  if (inMs === 0) await writeChange(context, observed, changeToRecord(observed, source.name, record));
  if (inMs === 0 || inMs === undefined)
    recording = recordVerdictEvent(context, source, observed, record).then(() => undefined);
  const requeues = [verdict.requeueAfterMs, inMs].filter((ms) => ms !== undefined && ms > 0) as number[];
  return { requeueAfterMs: requeues.length > 0 ? Math.min(...requeues) : undefined, pendingActs: recording };
}
