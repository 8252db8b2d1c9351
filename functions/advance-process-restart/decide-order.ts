/** The order in which processes restart. Pure. */

import type { Zone } from "../shared/groups/zones.ts";
import type { Pod } from "../shared/workloads/pods.ts";

/** A pod, and what its turn depends on. */
export interface InOrder {
  readonly zone: Pick<Zone, "workload">;
  readonly pod: Pod;
  readonly isAvailable: boolean;
  /** False where the database has not reported it. */
  readonly isMasterEligible: boolean;
}

/** By the name of the StatefulSet, and then the highest ordinal first. */
export function byName(one: Pick<InOrder, "zone" | "pod">, other: Pick<InOrder, "zone" | "pod">): number {
  const [name, otherName] = [one.zone.workload.name, other.zone.workload.name];
  if (name !== otherName) return name < otherName ? -1 : 1;
  return other.pod.ordinal - one.pod.ordinal;
}

/**
 * Pods that are not available first, because a mended file must reach the pod that the broken one killed. Pods that are eligible
 * as master last, so that the master changes as seldom as it can.
 */
export function byTurn(one: InOrder, other: InOrder): number {
  return rankOf(one) - rankOf(other) || byName(one, other);
}

function rankOf({ isAvailable, isMasterEligible }: InOrder): number {
  if (!isAvailable) return 0;
  return isMasterEligible ? 2 : 1;
}
