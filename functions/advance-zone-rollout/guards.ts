/** Why this function waits, and what ends that. */
import { rolloutPaused } from "../shared/annotations/table.ts";
import { chosen, depends, type Guards, itself, person } from "../shared/base/guards.ts";
import {
  governingGuards,
  limitGuards,
  partitionGuards,
  podLimitGuards,
  severalBudgetsGuards,
  zoneGuards,
} from "../shared/groups/guards.ts";
import { questionGuards } from "../shared/health/guards.ts";
import { claimGuards, healthGuards } from "../shared/ledger/guards.ts";
import { doneGuards } from "../shared/reconcile/guards.ts";
import { otherOperatorGuards } from "../shared/standby/guards.ts";
import { ledgerAgeGuards, ledgerGuards } from "../shared/transaction/guards.ts";

export const guards: Guards = {
  ...doneGuards,
  ...questionGuards,
  ...claimGuards,
  ...healthGuards,
  ...ledgerAgeGuards,
  ...ledgerGuards,
  ...severalBudgetsGuards,
  ...governingGuards,
  ...partitionGuards,
  ...zoneGuards,
  ...limitGuards,
  ...podLimitGuards,
  ...otherOperatorGuards,
  rolling: itself("pods of the zone are being replaced"),
  "zone-settling": depends(
    "no pod of the zone is left to take, but the zone is not whole",
    "nothing, or mend the pods that the message names",
  ),
  "status-behind": depends(
    "the StatefulSet controller has not seen the last change",
    "nothing; if it stays, see whether kube-controller-manager runs",
  ),
  paused: chosen(
    "only paused zones have outdated pods left",
    `kubectl annotate statefulset -n {namespace} {zone} ${rolloutPaused.key}-`,
  ),
  "paused-zone-down": person("a paused zone is not ready, so the others wait", "mend the zone, or end its pause"),
  "strategy-not-on-delete": person(
    "a StatefulSet of the group has another update strategy",
    "set updateStrategy.type: OnDelete, or take the StatefulSet out of the group",
  ),
  "delete-refused": person(
    "the API server refused a deletion for good",
    "find what refuses, such as a webhook or a missing right",
  ),
};
