import { questionEntries } from "../shared/annotations/health.ts";
import * as keys from "../shared/annotations/table.ts";
import { type FunctionDefinition, listGroupKeys } from "../shared/contract/definition.ts";
import { groupOfPod, groupOfStatefulSet, groupsOfNamespace } from "../shared/contract/keys.ts";
import { type GroupReconciler, reconcileGroup } from "../shared/reconcile/perform.ts";
import { ledgerNeeds } from "../shared/transaction/ledger-copy.ts";
import type { GroupKey } from "../shared/workloads/statefulsets.ts";
import { actOn, eventPolicy } from "./act.ts";
import { decide, type RolloutSnapshot } from "./decide.ts";
import type { RolloutTarget } from "./decide-pods.ts";
import { guards } from "./guards.ts";
import { ask, name, observe } from "./observe.ts";

const reconciler: GroupReconciler<RolloutSnapshot, RolloutTarget> = { name, eventPolicy, observe, decide, ask, actOn };

/** Replaces the outdated pods of a group's StatefulSets, zone by zone, within each zone's budget. */
export const advanceZoneRollout: FunctionDefinition<GroupKey> = {
  name,
  concern: "replace outdated pods zone by zone",
  guards,
  keyedBy: "groups",
  watches: [
    { resource: "statefulsets", selector: keys.rolloutGroup, keysOf: groupOfStatefulSet },
    // Kubernetes writes a pod's name as a label only on the pods of StatefulSets.
    { resource: "pods", selector: keys.podName, keysOf: groupOfPod },
    // A budget that Sluice cannot keep, or a smaller one, blocks a group, and only its correction ends that.
    { resource: "zoneawarepoddisruptionbudgets", keysOf: groupsOfNamespace },
  ],
  listKeys: listGroupKeys,
  needs: [
    { group: "apps", resource: "statefulsets", verbs: ["get", "list", "watch"] },
    { group: "apps", resource: "statefulsets/status", verbs: ["patch"], changes: ["status.currentRevision"] },
    { group: "", resource: "pods", verbs: ["get", "list", "watch", "delete"] },
    { group: "rollout-operator.grafana.com", resource: "zoneawarepoddisruptionbudgets", verbs: ["list", "watch"] },
    ...ledgerNeeds,
  ],
  reads: [
    keys.rolloutGroup,
    keys.rolloutMaxUnavailable,
    keys.rolloutPaused,
    keys.controllerRevisionHash,
    keys.claims,
    ...questionEntries,
  ],
  writes: [...keys.ledgerEntries, keys.verdicts],
  isReconcile: true,
  reconcile: (context, key, trigger) => reconcileGroup(context, reconciler, key, trigger),
};
