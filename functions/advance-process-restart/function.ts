import { pathsOf } from "../shared/annotations/paths.ts";
import * as restart from "../shared/annotations/restart.ts";
import { restartSettings } from "../shared/annotations/restart-files.ts";
import { knownTriggers } from "../shared/annotations/restart-trigger.ts";
import * as table from "../shared/annotations/table.ts";
import { type FunctionDefinition, listGroupKeys } from "../shared/contract/definition.ts";
import { groupOfPod, groupOfStatefulSet } from "../shared/contract/keys.ts";
import { madeBy } from "../shared/ledger/claim.ts";
import { reconcileClaims } from "../shared/reconcile/reconcile-claims.ts";
import { claimedNeed, listClaimed } from "../shared/transaction/claims.ts";
import { ledgerNeeds } from "../shared/transaction/ledger-copy.ts";
import type { GroupKey } from "../shared/workloads/statefulsets.ts";
import { hasEndedLately } from "./database/left-over.ts";
import { guards } from "./guards.ts";
import { name } from "./observe.ts";
import { restarting } from "./reconcile.ts";

const onPods = [restart.restartPhase, restart.restartId, restart.restartReason] as const;

/** Restarts the process of a pod inside its pod, where its StatefulSet names a process manager. */
export const advanceProcessRestart: FunctionDefinition<GroupKey> = {
  name,
  concern: "restart the process of a pod inside its pod, one process of a group at a time",
  guards,
  isOptIn: true,
  keyedBy: "groups",
  watches: [
    { resource: "statefulsets", selector: table.rolloutGroup, keysOf: groupOfStatefulSet },
    { resource: "pods", selector: table.podName, keysOf: groupOfPod },
  ],
  listKeys: listGroupKeys,
  schedule: { everySeconds: 10, listDue: listClaimed(madeBy(name), hasEndedLately) },
  needs: [
    {
      group: "apps",
      resource: "statefulsets",
      verbs: ["get", "list", "watch", "patch"],
      changes: pathsOf(restart.restartPhaseOfAll, restart.restartId),
    },
    { group: "", resource: "pods", verbs: ["get", "list", "watch", "patch"], changes: pathsOf(...onPods) },
    { group: "rollout-operator.grafana.com", resource: "zoneawarepoddisruptionbudgets", verbs: ["list", "watch"] },
    { group: "", resource: "services", verbs: ["get"] },
    claimedNeed,
    ...ledgerNeeds,
  ],
  reads: [table.rolloutGroup, table.claims, table.lastRestart, knownTriggers, ...restart.restartEntries, table.parking],
  writes: [
    ...table.ledgerEntries,
    table.claims,
    table.verdicts,
    table.lastRestart,
    knownTriggers,
    ...onPods,
    restartSettings,
  ],
  reconcile: (context, key, trigger) => reconcileClaims(context, restarting, key, trigger),
};
