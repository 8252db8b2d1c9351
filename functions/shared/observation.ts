/** One look at a group: its ledger, a view at least as new as the ledger asks for, and what both say together. */
import type { Context } from "./definition.ts";
import { dropAfterMs, type Ledger, type Refusal, type Reservation } from "./reservation.ts";
import type { GroupKey, StatefulSet } from "./statefulsets.ts";
import type { GroupView, ViewNeed } from "./views.ts";
import { findReserved, isMissingMember, readAsNew, readStrangers } from "./whereabouts.ts";
import { surveyZone, type Whereabouts, type Zone } from "./zones.ts";

export interface Observed {
  readonly key: GroupKey;
  /** The API server's clock, in milliseconds since the epoch. */
  readonly nowMs: number;
  readonly ledger: Ledger;
  readonly view: GroupView;
  /** The zones of the group by name, byte-wise ascending. */
  readonly zones: readonly Zone[];
  /** Where the pod of each of the ledger's reservations is. */
  readonly reserved: ReadonlyMap<Reservation, Whereabouts>;
  /** The reservations that are neither settled (rule R6) nor abandoned (rule R10). */
  readonly open: readonly Reservation[];
  /** Those of them whose StatefulSet has left the group. */
  readonly departed: readonly Reservation[];
  readonly abandoned: number;
  readonly refusals: ReadonlyMap<string, Refusal>;
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
  given: Ledger,
  need: Omit<ViewNeed, "settledThrough" | "membersThrough">,
): Promise<Observed> {
  let { ledger, view } = await readAsNew(context, given, need);
  const { key } = ledger;
  let strangers = await readStrangers(context, ledger, view);
  if (isMissingMember(ledger, view, strangers)) {
    ({ ledger, view } = await readAsNew(context, given, { ...need, consistent: true }));
    strangers = await readStrangers(context, ledger, view);
  }
  const reserved = await findReserved(context, ledger, view, strangers);
  const nowMs = context.cluster.serverTimeMs();
  const members = new Set(view.statefulSets.map(({ name }) => name));

  const unsettled = [...reserved].flatMap(([reservation, where]) =>
    context.protocol.isSettled(reservation, where, nowMs) ? [] : [reservation],
  );
  // A uid never comes back, and a deletion never ends but in the pod's end: what the view shows gone needs no GET.
  const overdue = unsettled.filter((reservation) => {
    const pod = reserved.get(reservation)?.pod;
    return nowMs - reservation.stampMs >= dropAfterMs && pod?.uid === reservation.uid && !pod.terminating;
  });
  const abandoned =
    overdue.length === 0
      ? new Set<Reservation>()
      : await context.protocol.findAbandoned(context.cluster, key.namespace, overdue);
  const open = unsettled.filter((reservation) => !abandoned.has(reservation));

  const zones = view.statefulSets.map((statefulSet) => surveyZone(statefulSet, view.podsOf(statefulSet), open, nowMs));
  zones.sort(byName);
  return {
    key,
    nowMs,
    ledger,
    view,
    zones,
    reserved,
    open,
    departed: open.filter((reservation) => !members.has(reservation.statefulSet)),
    abandoned: abandoned.size,
    refusals: refusalsOf(context, ledger, nowMs),
  };
}

function byName(one: { statefulSet: StatefulSet }, other: { statefulSet: StatefulSet }): number {
  return one.statefulSet.name < other.statefulSet.name ? -1 : 1;
}

/** The refusals that still hold, from the ledger and from this process since its last write. */
function refusalsOf(context: Context, ledger: Ledger, nowMs: number): Map<string, Refusal> {
  const refusals = new Map<string, Refusal>();
  for (const refusal of [...ledger.refusals, ...context.memoryOf(ledger.key).refusals.values()]) {
    // Two processes may both have been refused: the newest word counts, or each would write its own over the other's.
    const newest = (refusals.get(refusal.uid)?.stampMs ?? 0) < refusal.stampMs;
    if (newest && nowMs - refusal.stampMs < retryRefusedAfterMs) refusals.set(refusal.uid, refusal);
  }
  return refusals;
}
