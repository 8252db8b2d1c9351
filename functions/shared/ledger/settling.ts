/** How a reservation ends: its pod is back, or no function can act on it any more (rules R6 and R10). */
import { type Cluster, hasCode } from "../kubernetes/cluster.ts";
import { isAvailable, type Pod, podNameOf } from "../workloads/pods.ts";
import { isStatefulSet, isWanted, type ZoneWorkload } from "../workloads/statefulsets.ts";
import { dropAfterMs, knownForMs, type Reservation } from "./reservation.ts";

/** The state of a reserved pod and of its StatefulSet. */
export interface ReservedPodState {
  /** The pod of that name: as the view has it, or by a GET where the view has none. */
  readonly pod: Pod | undefined;
  /** The StatefulSet of that name: of the view, or by a GET where it is none of the group's. */
  readonly workload: ZoneWorkload | undefined;
  readonly isMember: boolean;
  /** How many pods stand that it left behind. Counted only where it is gone, or on its way out, and the reserved pod is gone. */
  readonly orphans: number;
}

/** True while a StatefulSet is being deleted. A zone of another owner never is: it exists while it has volume claims. */
export function isGoing(workload: ZoneWorkload): boolean {
  return isStatefulSet(workload) && workload.deleting;
}

/**
 * Rule R6: a reservation is settled when another pod at its ordinal is available, or when no pod is there or wanted.
 *
 * While a StatefulSet is gone and pods that it left behind stand, it will be made again, as `kubectl delete --cascade=orphan` is
 * for: what was reserved is still down until then. What has moved to another group is counted there as soon as the pod is gone.
 */
export function isSettled(reservation: Reservation, where: ReservedPodState, nowMs: number): boolean {
  const { pod, workload, isMember, orphans } = where;
  if (pod?.uid === reservation.uid) return false;
  if (pod !== undefined && isAvailable(pod, workload?.minReadySeconds ?? 0, nowMs)) return true;
  if (workload === undefined || isGoing(workload)) {
    return orphans === 0 && (pod === undefined || pod.ownerUid === undefined);
  }
  if (!isMember) return true;
  return pod === undefined && !isWanted(workload, reservation.ordinal);
}

/**
 * Rule R10: notes since when a process has known the reservations that stand in a ledger, and forgets those that do not any more.
 * `nowMs` is of the monotonic clock. Returns which of them it has known for so long that no act can rest on them.
 */
export function noteKnown(
  knownSince: Map<string, number>,
  reservations: readonly Reservation[],
  nowMs: number,
): (reservation: Reservation) => boolean {
  const identify = ({ uid, by, stampMs }: Reservation) => `${uid} ${by} ${stampMs}`;
  const present = new Set(reservations.map(identify));
  for (const identity of knownSince.keys()) if (!present.has(identity)) knownSince.delete(identity);
  for (const identity of present) if (!knownSince.has(identity)) knownSince.set(identity, nowMs);
  return (reservation) => nowMs - (knownSince.get(identify(reservation)) ?? nowMs) >= knownForMs;
}

/**
 * Rule R10: the reservations that no function can still act on and whose pod still stands, seen by a direct GET and not by a
 * view. Any function may drop these with its next write.
 */
export async function findAbandoned(
  cluster: Cluster,
  namespace: string,
  open: readonly Reservation[],
): Promise<Set<Reservation>> {
  const isOverdue = ({ stampMs }: Reservation) => cluster.serverTimeMs() - stampMs >= dropAfterMs;
  const abandoned = new Set<Reservation>();
  for (const reservation of open) {
    if (!isOverdue(reservation)) continue;
    try {
      const pod = await cluster.get("pods", { namespace, name: podNameOf(reservation) });
      const isUnharmed = pod.metadata.uid === reservation.uid && pod.metadata.deletionTimestamp === undefined;
      // Checked again, because the answer brings the API server's time, and a wall clock that was set may have been wrong.
      if (isUnharmed && isOverdue(reservation)) abandoned.add(reservation);
    } catch (error) {
      if (!hasCode(error, 404)) throw error;
    }
  }
  return abandoned;
}
