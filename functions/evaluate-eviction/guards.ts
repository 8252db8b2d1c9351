/** Why this function waits, and what ends that. */
import { allowedGuards, failureGuards, namespaceGuards, requestGuards } from "../shared/admission/guards.ts";
import { depends, type Guards, itself, person } from "../shared/base/guards.ts";
import {
  governingGuards,
  neverGuards,
  partitionGuards,
  severalBudgetsGuards,
  zoneGuards,
} from "../shared/groups/guards.ts";
import { questionGuards } from "../shared/health/guards.ts";
import { claimGuards, healthGuards } from "../shared/ledger/guards.ts";
import { otherOperatorGuards } from "../shared/standby/guards.ts";
import { contendedGuards, ledgerAgeGuards, ledgerGuards } from "../shared/transaction/guards.ts";

export const guards: Guards = {
  ...allowedGuards,
  ...failureGuards,
  ...requestGuards,
  ...namespaceGuards,
  ...claimGuards,
  ...healthGuards,
  ...questionGuards,
  ...ledgerAgeGuards,
  ...ledgerGuards,
  ...contendedGuards,
  ...severalBudgetsGuards,
  ...governingGuards,
  ...partitionGuards,
  ...zoneGuards,
  ...neverGuards,
  ...otherOperatorGuards,
  exempt: itself("the pod has ended or is terminating"),
  "out-of-scope": itself("no budget selects the pod, and no scale-down has told it that it leaves"),
  "zone-budget": depends(
    "as many pods of the zone are down or reserved as the budget allows",
    "nothing, or mend the pods that the message counts",
  ),
  "partition-budget": depends(
    "as many pods of the partition are down, reserved, unknown or only just ready as the budget allows",
    "nothing, or mend the pods that the message counts",
  ),
  "pod-disruption-budget": depends(
    "a PodDisruptionBudget allows no disruption now",
    "kubectl get poddisruptionbudgets -n {namespace}",
  ),
  "one-at-a-time": depends(
    "a question alone governs the pod, and another one of the group is down or reserved",
    "nothing, or mend the pod that the message names",
  ),
  "eviction-not-carried-out": person(
    "the pod was allowed to go again and again for a minute, and is still there",
    "find what refuses its eviction after Sluice, such as another webhook or a quota",
  ),
  "rollout-first": depends(
    "something behind Sluice refused the evictions of another pod, and the rollout that waited for that pod goes first for a minute",
    "nothing, or find what refuses the evictions of that pod",
  ),
  "replacement-reserved": itself(
    "nothing pins the uid, and the pod has just replaced one that was evicted",
    "nothing: it ends when the pod that comes instead is ready, or when the reservation does",
  ),
  "pod-leaving": itself(
    "nothing pins the uid, and the pod is on its way out already",
    "nothing: when it is gone the answer is 404, at which drains go on",
  ),
  "pod-unseen": itself("the pod changed a moment ago, and the view does not show that yet"),
  "too-few-zones": person("the group has one StatefulSet", "give the group a second StatefulSet, or delete the budget"),
  "max-unavailable-zero": itself(
    "the budget is a percentage, and the controller of the zone has counted no pod yet",
    "nothing: it passes",
  ),
  "no-ordinal": person(
    "a StatefulSet controls the pod, but the name of the pod is not STATEFULSET-ORDINAL with an ordinal up to 2147483647",
    "kubectl delete pod -n {namespace} {pod}",
  ),
  "no-statefulset": person(
    "a budget selects the pod, but no StatefulSet controls it",
    "make the StatefulSet again, or delete this pod",
  ),
  "pod-gone": itself("there is no such pod, or the pod that was on its way out is gone", "nothing: drains go on"),
  "uid-conflict": itself("the eviction names another uid than the pod has", "nothing: the pod that was meant is gone"),
};
