/** One look at a group: its ledger, a view at least as new as the ledger asks for, and what both say together. */
import { hasCode } from "./cluster.ts";
import type { Context } from "./definition.ts";
import { type Pod, parsePod } from "./pods.ts";
import { dropAfterMs, type Ledger, type Refusal, type Reservation } from "./reservation.ts";
import type { GroupKey, StatefulSet } from "./statefulsets.ts";
import type { GroupView, ViewNeed } from "./views.ts";
import { surveyZone, type Zone } from "./zones.ts";

export interface Observed {
  readonly key: GroupKey;
  /** The API server's clock, in milliseconds since the epoch. */
  readonly nowMs: number;
  readonly ledger: Ledger;
  readonly view: GroupView;
  /** The zones of the group by name, byte-wise ascending. */
  readonly zones: readonly Zone[];
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
 * The pods of reservations whose StatefulSet has left the group are in no view of it: they are read one by one.
 */
export async function observeGroup(
  context: Context,
  ledger: Ledger,
  need: Omit<ViewNeed, "settledThrough">,
): Promise<Observed> {
  const { key } = ledger;
  const view = await context.views.read(key, { ...need, settledThrough: ledger.settledThrough });
  const members = new Map(view.statefulSets.map((statefulSet) => [statefulSet.name, statefulSet]));
  const strangers = await readPods(
    context,
    key,
    ledger.reservations.filter((reservation) => !members.has(reservation.statefulSet)),
  );
  const nowMs = context.cluster.serverTimeMs();
  const podAt = (reservation: Reservation): Pod | undefined => {
    const name = `${reservation.statefulSet}-${reservation.ordinal}`;
    return members.has(reservation.statefulSet) ? view.pod(name) : strangers.get(name);
  };

  const unsettled = ledger.reservations.filter(
    (reservation) =>
      !context.protocol.isSettled(reservation, podAt(reservation), members.get(reservation.statefulSet), nowMs),
  );
  // A uid never comes back, and a deletion never ends but in the pod's end: what the view shows gone needs no GET.
  const overdue = unsettled.filter((reservation) => {
    const pod = podAt(reservation);
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
    open,
    departed: open.filter((reservation) => !members.has(reservation.statefulSet)),
    abandoned: abandoned.size,
    refusals: refusalsOf(context, ledger, nowMs),
  };
}

function byName(one: { statefulSet: StatefulSet }, other: { statefulSet: StatefulSet }): number {
  return one.statefulSet.name < other.statefulSet.name ? -1 : 1;
}

async function readPods(context: Context, key: GroupKey, wanted: readonly Reservation[]): Promise<Map<string, Pod>> {
  const pods = new Map<string, Pod>();
  await Promise.all(
    wanted.map(async ({ statefulSet, ordinal }) => {
      const name = `${statefulSet}-${ordinal}`;
      try {
        pods.set(name, parsePod(await context.cluster.get("pods", { namespace: key.namespace, name })));
      } catch (error) {
        if (!hasCode(error, 404)) throw error;
      }
    }),
  );
  return pods;
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
