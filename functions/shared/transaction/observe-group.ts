/** One observation of a group: its ledger, a view that is new enough for it, and the conclusions from both. */

import type { GroupView, ViewNeed } from "../cache/cache.ts";
import type { Context } from "../contract/context.ts";
import type { Departed } from "../groups/refuse-claim.ts";
import { surveyZone, type Zone } from "../groups/zones.ts";
import type { Claim } from "../ledger/claim.ts";
import { isGivenUp, refusalOfRenewals } from "../ledger/renewals.ts";
import { dropAfterMs, type Ledger, type LedgerTimes, type Refusal, type Reservation } from "../ledger/reservation.ts";
import { noteKnown, type ReservedPodState } from "../ledger/settling.ts";
import { isOverdueSeenLongAgo, mendStamp, mendStamps, noteOverdue } from "../ledger/stamps.ts";
import type { GroupKey, ZoneWorkload } from "../workloads/statefulsets.ts";
import { findLeft, findReserved, readView } from "./claimed-objects.ts";
import { findJoining, type JoiningZones } from "./joining.ts";

export interface GroupObservation {
  readonly key: GroupKey;
  /** The API server's clock, in milliseconds since the epoch. */
  readonly nowMs: number;
  readonly ledger: Ledger;
  readonly view: GroupView;
  /** The zones of the group by name, byte-wise ascending. */
  readonly zones: readonly Zone<ZoneWorkload>[];
  /** Where the pod of each of the ledger's reservations is. */
  readonly reserved: ReadonlyMap<Reservation, ReservedPodState>;
  /** The reservations that are neither settled (rule R6) nor abandoned (rule R10). */
  readonly open: readonly Reservation[];
  /** Those of them whose StatefulSet has left the group; and what is down of pods whose StatefulSet is gone. */
  readonly departed: readonly Departed[];
  /** The claims on zones that are none of the group's: gone, or of another group by now. Those of members are in `zones`. */
  readonly strayClaims: readonly Claim[];
  readonly abandoned: number;
  readonly joining: JoiningZones;
  /** True if the next write mends stamps of a clock that was ahead, notes what was overdue, or forgets a zone that is gone. */
  readonly isMended: boolean;
  /** Deletions that were refused for good, by pod uid. */
  readonly refusals: ReadonlyMap<string, Refusal>;
  /** Pods whose reservations a function renewed for too long and gave up, by pod uid; those of open ones are not among them. */
  readonly givenUp: ReadonlyMap<string, Refusal>;
  /** What each write of this reconcile says of times besides; absent: nothing. */
  readonly notes?: Notes | undefined;
}

/** Times that go with a write of the ledger, and whether they are worth a write of their own. */
export interface Notes {
  readonly change: LedgerTimes;
  readonly isDue: boolean;
}

/** A refused deletion is not tried again for this long. */
export const retryRefusedAfterMs = 600_000;

/**
 * Reads a view as new as the ledger asks for and settles what it shows to be settled. Throws ClusterError.
 *
 * A reservation of a StatefulSet that the view does not know asks for it: where it is a member, everything is read once more.
 */
export async function observeGroup(
  context: Context,
  stored: Ledger,
  need: Omit<ViewNeed, "settledThrough" | "membersThrough">,
): Promise<GroupObservation> {
  const given = mendStamps(stored, context.cluster.serverTimeMs());
  const { key } = given;
  const read = (consistent: boolean) => readView(context, given, { ...need, consistent });
  const joiningIn = ({ ledger, view }: Awaited<ReturnType<typeof read>>) =>
    findJoining(context.cluster, context.memoryOf(key).joinedSince, ledger, view);
  let seen = await read(need.consistent);
  if (seen.isMissingMember) seen = await read(true);
  let joining = joiningIn(seen);
  if (joining.needsList && need.permitSinceMs !== undefined) {
    seen = await read(true);
    joining = joiningIn(seen);
  }
  const { ledger, view, unknownSets } = seen;
  const reserved = new Map(await findReserved(context, ledger, view, unknownSets));
  const nowMs = context.cluster.serverTimeMs();
  const members = new Set(view.workloads.map(({ name }) => name));

  const unsettled = [...reserved].flatMap(([reservation, where]) =>
    context.protocol.isSettled(reservation, where, nowMs) ? [] : [reservation],
  );
  const { open, abandoned, unsighted } = await leaveAbandoned(context, ledger, reserved, { unsettled, nowMs });

  const left = await findLeft(context, ledger, view, { unknownSets, open, nowMs });
  const { claims } = ledger;
  const zones = view.workloads.map((set) => surveyZone(set, view.podsOf(set), open, nowMs, claims));
  zones.sort(byName);
  return {
    key,
    nowMs,
    ledger,
    view,
    zones,
    reserved,
    open,
    departed: [...open.filter((reservation) => !members.has(reservation.statefulSet)), ...left.down],
    strayClaims: claims.filter(({ zone }) => !members.has(zone)),
    abandoned: abandoned.size,
    // A zone counts until the pods that it left behind are gone.
    joining: { ...joining, members: [...joining.members, ...left.standing].sort() },
    isMended: given !== stored || unsighted > 0 || left.isOver,
    refusals: refusalsOf(context, ledger, nowMs),
    givenUp: givenUpOf(ledger, abandoned, nowMs),
  };
}

function byName(one: { workload: ZoneWorkload }, other: { workload: ZoneWorkload }): number {
  return one.workload.name < other.workload.name ? -1 : 1;
}

/**
 * Rule R10: reservations that no function can act on any more are left out. Each of the others is marked as seen
 * overdue if its stamp says so, and a process that keeps no watches has not known it for long: `reserved` has it so as well. A
 * GET is spent only on what the view shows to stand, because a uid never comes back, and a deletion always ends in the pod's end.
 */
async function leaveAbandoned(
  context: Context,
  ledger: Ledger,
  reserved: Map<Reservation, ReservedPodState>,
  { unsettled, nowMs }: { readonly unsettled: readonly Reservation[]; readonly nowMs: number },
): Promise<{ readonly open: Reservation[]; readonly abandoned: ReadonlySet<Reservation>; readonly unsighted: number }> {
  const { cluster, protocol, cache } = context;
  const overdue = unsettled.filter((reservation) => {
    const pod = reserved.get(reservation)?.pod;
    const stands = pod?.uid === reservation.uid && !pod.terminating;
    return stands && nowMs - reservation.stampMs >= dropAfterMs;
  });
  const { knownSince } = context.memoryOf(ledger.key);
  const isKnown = noteKnown(knownSince, ledger.reservations, cluster.monotonicMs());
  const old = overdue.filter((one) => isKnown(one) || (!cache.isLasting && isOverdueSeenLongAgo(one, nowMs)));
  const abandoned =
    old.length === 0 ? new Set<Reservation>() : await protocol.findAbandoned(cluster, ledger.key.namespace, old);
  const isUnsighted = (one: Reservation) => !cache.isLasting && !isKnown(one) && one.overdueSeenMs === undefined;
  const unsighted = new Set(overdue.filter(isUnsighted));
  const open: Reservation[] = [];
  for (const one of unsettled) {
    if (abandoned.has(one)) continue;
    const kept = unsighted.has(one) ? noteOverdue(one, nowMs) : one;
    reserved.set(kept, reserved.get(one) as ReservedPodState);
    open.push(kept);
  }
  return { open, abandoned, unsighted: unsighted.size };
}

/** The refusals that still hold, from the ledger and from this process since its last write. */
function refusalsOf(context: Context, ledger: Ledger, nowMs: number): ReadonlyMap<string, Refusal> {
  const { refusals: own } = context.memoryOf(ledger.key);
  // Corrected for good, because a stamp that is now at every observation would never grow old.
  for (const refusal of own.values()) own.set(refusal.uid, { ...refusal, stampMs: mendStamp(refusal.stampMs, nowMs) });
  return newest([...ledger.refusals.filter(({ by }) => by === undefined), ...own.values()], nowMs);
}

/** The given-up reservations that still count, from the ledger and from those that the next write drops. */
function givenUpOf(ledger: Ledger, abandoned: ReadonlySet<Reservation>, nowMs: number): ReadonlyMap<string, Refusal> {
  const lapsed = [...abandoned].filter(isGivenUp).map(refusalOfRenewals);
  return newest([...ledger.refusals.filter(({ by }) => by !== undefined), ...lapsed], nowMs);
}

function newest(all: readonly Refusal[], nowMs: number): ReadonlyMap<string, Refusal> {
  const refusals = new Map<string, Refusal>();
  for (const refusal of all) {
    // Two processes may both have a refusal: the newest counts, because otherwise each would overwrite the other's.
    const isNewest = (refusals.get(refusal.uid)?.stampMs ?? 0) < refusal.stampMs;
    if (isNewest && nowMs - refusal.stampMs < retryRefusedAfterMs) refusals.set(refusal.uid, refusal);
  }
  return refusals;
}
