/** The consequence of a verdict: nothing, a record of it, or reservations and then acts under them. */

import type { Context } from "../contract/context.ts";
import type { ReconcileResult } from "../contract/definition.ts";
import { failingGuards, type Take, type Verdict, type Wait, wait } from "../contract/verdict.ts";
import { type ClaimContent, changeClaim, countRanges, type KnownClaim, makeClaim } from "../ledger/claim.ts";
import {
  actWithinMs,
  finishAfterMs,
  type Ledger,
  type LedgerChange,
  maxReservations,
  type Reservation,
} from "../ledger/reservation.ts";
import { Conflict, waitForLedger, writeChange } from "../transaction/ledger-copy.ts";
import type { GroupObservation } from "../transaction/observe-group.ts";
import { podNameOf } from "../workloads/pods.ts";
import { type Act, carryOutAll, type OtherClaim, type PodClaim } from "./act.ts";
import {
  type EventSource,
  recordAlone,
  recordVerdict,
  recordVerdictEvent,
  reportVerdict,
  type VerdictRecord,
} from "./record.ts";

/**
 * Carries a verdict out, and reports why. `tooNew`: why nothing may be permitted yet (rule R4). Throws ClusterError, Conflict,
 * and what `waitForLedger` explains.
 */
export async function conclude(
  context: Context,
  source: EventSource,
  observed: GroupObservation,
  decided: Verdict<Act>,
  tooNew: Wait | undefined,
): Promise<ReconcileResult> {
  const verdict = limitedBy(observed, tooNew, decided);
  const recorded = recordVerdict(context, source, observed, verdict);
  const outcome = await carryOut(context, source, observed, verdict, recorded, tooNew);
  const { guard } = recorded.record;
  const { zone, message } = verdict;
  const wouldTake = isPermit(verdict) && verdict.targets.map(({ name: action, object }) => ({ action, object }));
  reportVerdict(context, source.name, observed.key, { guard, zone, message, ...(wouldTake && { wouldTake }) });
  return { ...outcome, ...(failingGuards.has(guard) ? { failure: message } : {}) };
}

function isPermit(verdict: Verdict<Act>): verdict is Take<Act> {
  return verdict.kind === "take" && verdict.targets.length > 0;
}

/** The verdict that remains under a ledger that is new (rule R4), or full (rule R2). */
function limitedBy(observed: GroupObservation, tooNew: Wait | undefined, decided: Verdict<Act>): Verdict<Act> {
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

/** Rule R4: the verdict that remains if the ledger permits nothing yet. */
function whileTooNew(verdict: Take<Act>, tooNew: Wait): Verdict<Act> {
  const targets = verdict.targets.filter(({ takesNothing }) => takesNothing === true);
  return targets.length === 0 ? tooNew : { ...verdict, targets, requeueAfterMs: tooNew.requeueAfterMs };
}

/** The acts that need a reservation, in order, as long as the ledger has room for all entries of an act. */
function fittingInto(room: number, acts: readonly Act[]): readonly Act[] {
  let left = room;
  return acts.filter(({ claims }) => {
    const size = claims.reduce((sum, claim) => sum + (isOfPod(claim) ? 1 : claim.members.length), 0);
    if (claims.length === 0 || size > left) return false;
    left -= size;
    return true;
  });
}

function isOfPod(claim: PodClaim | OtherClaim): claim is PodClaim {
  return !isOther(claim);
}

function isOther(claim: PodClaim | OtherClaim): claim is OtherClaim {
  return "kind" in claim;
}

/** The consequence of a verdict: nothing in shadow mode (rule R16) or under a new ledger, acts, or a record of the wait. */
function carryOut(
  context: Context,
  source: EventSource,
  observed: GroupObservation,
  verdict: Verdict<Act>,
  recorded: VerdictRecord,
  tooNew: Wait | undefined,
): ReconcileResult | Promise<ReconcileResult> {
  if (context.mode === "shadow") return { requeueAfterMs: verdict.requeueAfterMs, pendingActs: undefined };
  // Rule R4: a new ledger is not written either, or its first decision would not begin with a consistent LIST. What takes nothing
  // writes none.
  if (tooNew !== undefined && !isPermit(verdict))
    return { requeueAfterMs: tooNew.requeueAfterMs, pendingActs: undefined };
  if (isPermit(verdict)) return takeTargets(context, source, observed, verdict, recorded);
  return recordAlone(context, source, observed, verdict, recorded);
}

async function takeTargets(
  context: Context,
  source: EventSource,
  observed: GroupObservation,
  verdict: Take<Act>,
  { record, change }: VerdictRecord,
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
    // Rules R8 and R18: all of it is reserved, by one write, before any act.
    await writeChange(context, observed, { ...change, reservations, ...adding(observed, claims) });
    const renewed = new Set(observed.open.map(({ uid }) => uid));
    for (const reservation of added) if (!renewed.has(reservation.uid)) sole.set(reservation.uid, reservation);
  } else if (observed.notes?.isDue) await writeChange(context, observed, change);
  else if (others.some(({ confirmsLedger }) => confirmsLedger)) {
    // Rules R13 and R18: no write comes before it that could fail, and an old copy of the ledger does not show the claims of
    // now.
    const now = await context.protocol.readLedger(cluster, observed.key);
    if (now?.resourceVersion !== observed.ledger.resourceVersion) throw new Conflict();
  }
  // Rule R9, and invariant Z3: no later than 5 s after the write, nor after the reads on which it rests.
  const deadlineMs = Math.min(sentMs, observed.view.statefulSetsReadMs ?? sentMs) + actWithinMs;
  const acts = carryOutAll({ context, by, key: observed.key, deadlineMs, sole, isOfLedger }, [...others, ...reserved]);
  const recording = reserved.length > 0 ? recordVerdictEvent(context, source, observed, record) : Promise.resolve();
  const pendingActs = Promise.all([acts, recording]).then(([requeueAfterMs]) => requeueAfterMs);
  return { requeueAfterMs: verdict.requeueAfterMs ?? finishAfterMs, pendingActs };
}

function isOfLedger(error: unknown): boolean {
  return error instanceof Conflict || waitForLedger(error) !== undefined;
}

/** A claim as it is written now. An existing one is renewed, and keeps its age. Throws Error for another function's. */
function claimNow({ claims }: Ledger, { id, kind, zone, ...content }: ClaimContent): KnownClaim {
  const standing = claims.find((one) => one.id === id);
  if (standing === undefined) return makeClaim({ id, kind, zone, ...content });
  if (!standing.isKnown || standing.by !== content.by || standing.kind !== kind || standing.zone !== zone)
    throw new Error(`the claim ${id} stands for something else, and is not ${content.by}'s to replace`);
  return changeClaim(standing, { ...content, sinceMs: standing.sinceMs ?? standing.stampMs });
}

/** The claims of the ledger with these, each in place of the one with its id; undefined if there are none. */
function adding({ ledger }: GroupObservation, claims: readonly KnownClaim[]): Pick<LedgerChange, "claims"> {
  if (claims.length === 0) return {};
  const ids = new Set(claims.map(({ id }) => id));
  return { claims: [...ledger.claims.filter(({ id }) => !ids.has(id)), ...claims] };
}
