/** What happens to a reservation, in words (rules R6, R9, R10 and R12). */

import {
  actWithinMs,
  dropAfterMs,
  finishAfterMs,
  type Reservation,
} from "../../functions/shared/ledger/reservation.ts";
import { availableInMs, type Pod } from "../../functions/shared/workloads/pods.ts";
import { isWanted, type ZoneWorkload } from "../../functions/shared/workloads/statefulsets.ts";
import { groupFunctions } from "../table.ts";
import { formatSpan } from "./span.ts";

/** A reservation and what is known about its pod. */
export interface Situation {
  readonly reservation: Reservation;
  /** The next write of the ledger removes `settled` and `abandoned` ones, whichever function writes it. */
  readonly standing: "open" | "settled" | "abandoned";
  /** The pod that has its name now. */
  readonly pod: Pod | undefined;
  /** The group's StatefulSet of that name; undefined when it is gone, or has left the group. */
  readonly workload: ZoneWorkload | undefined;
  /** The API server's clock, in milliseconds since the epoch. */
  readonly nowMs: number;
}

/** The pod at the ordinal: the reserved pod, the same pod terminating, another pod, or none. */
export type Presence = "reserved" | "terminating" | "replaced" | "missing";

export function placeOf({ reservation, pod }: Situation): Presence {
  if (pod === undefined) return "missing";
  if (pod.uid !== reservation.uid) return "replaced";
  return pod.terminating ? "terminating" : "reserved";
}

/** Time from which no function can act on it, by the API server's clock in milliseconds since the epoch (rule R10). */
export function abandonedFromMs({ stampMs }: Reservation): number {
  return stampMs + dropAfterMs;
}

/** The next change of a reservation if no user interferes. */
export function outlook(situation: Situation): string {
  const { reservation, standing, workload } = situation;
  if (standing === "settled") return "settled; the next write of the ledger removes it";
  if (standing === "abandoned") return "dropped by the next write of the ledger: no function can act on it any more";
  const isBackWanted = workload !== undefined && isWanted(workload, reservation.ordinal);
  switch (placeOf(situation)) {
    case "missing":
      return "settles when the pod that replaces it is made and ready";
    case "replaced":
      return `settles when the pod that replaces it is ready${readiness(situation)}`;
    case "terminating":
      return isBackWanted
        ? "terminating; settles when the pod that replaces it is ready"
        : "terminating; settles when it is gone";
    case "reserved":
      return standingOutlook(situation);
  }
}

function readiness({ pod, workload, nowMs }: Situation): string {
  if (pod?.stuck !== undefined) return `; the new pod is in ${pod.stuck}`;
  const inMs = pod && availableInMs(pod, workload?.minReadySeconds ?? 0, nowMs);
  return inMs === undefined ? "" : `, in ${formatSpan(inMs)} if the new pod stays ready`;
}

/** The reserved pod still exists: its function acts on it, or gives it up. */
function standingOutlook({ reservation, nowMs }: Situation): string {
  const ageMs = nowMs - reservation.stampMs;
  const dropped = `dropped in ${formatSpan(abandonedFromMs(reservation) - nowMs)} if its pod is still there`;
  if (ageMs < actWithinMs) return `its function acts on it now; otherwise ${dropped}`;
  // Only the next review renews a reservation of a review: no sweep does.
  if (!groupFunctions.some(({ name }) => name === reservation.by))
    return `renewed when its eviction is asked for again; ${dropped}`;
  const finished =
    ageMs < finishAfterMs
      ? `finished by its function in ${formatSpan(finishAfterMs - ageMs)}`
      : "finished by its function's next reconcile";
  return `${finished}, if it still decides so; otherwise ${dropped}`;
}
