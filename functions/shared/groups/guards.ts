/** The guards of budgets, zones and claims that a group does not permit. */
import { depends, type Guards, person } from "../base/guards.ts";

/** Several budgets select one pod. */
export const severalBudgetsGuards = {
  "several-budgets": person(
    "more than one budget selects the pod",
    "change the selector of one of the budgets that the message names",
  ),
} as const satisfies Guards;

/** No budget can be found that governs the pod. */
export const governingGuards = {
  "invalid-budget": person("a stored budget that may govern the pod is invalid", "write what the message says"),
  "budget-spans-groups": person(
    "the budget selects StatefulSets of more than one group, and no single ledger can keep it",
    "write a budget for each group",
  ),
} as const satisfies Guards;

/** The expression of a budget does not fit. */
export const partitionGuards = {
  "partition-not-identified": person(
    "the budget's expression finds no partition in the name of the pod",
    "correct the expression or the selector of the budget",
  ),
} as const satisfies Guards;

/** The zones around a claim or a pod that goes. */
export const zoneGuards = {
  "zones-down": depends("pods are down in another zone, or in more than one", "mend the zone that the message names"),
  "zone-departed": depends(
    "a pod of a StatefulSet that has left the group, or is gone, is reserved or not ready",
    "nothing: it ends when the pod is gone, or after 150 s",
  ),
} as const satisfies Guards;

/** The limit of the zone, or another reservation. */
export const limitGuards = {
  budget: depends(
    "as many pods of the zone are down or reserved as may be, or another function has reserved the pod",
    "nothing, or mend the pods that the message counts",
  ),
} as const satisfies Guards;

/** The pods of a zone that leave for good. */
export const leavingGuards = {
  "ordinal-not-ready": depends(
    "the zone is OrderedReady, and a pod of it is not ready, so that no pod above it may leave",
    "mend the pod that the message names",
  ),
} as const satisfies Guards;

/** No time helps. */
export const neverGuards = {
  "never-possible": person("by its numbers no pod may ever go", "raise the budget when pods may go"),
} as const satisfies Guards;

/** The budget of the group, for a pod that comes back. */
export const podLimitGuards = {
  "zone-budget": depends(
    "as many pods of the zone are down or reserved as its ZoneAwarePodDisruptionBudget allows",
    "nothing, or mend what is down",
  ),
  "partition-budget": depends(
    "as many pods of the partition, over all zones, are down as the budget allows",
    "nothing, or mend what is down",
  ),
} as const satisfies Guards;
