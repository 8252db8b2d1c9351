import type { AdmissionDefinition } from "../shared/admission/definition.ts";
import { namedLikeOurs } from "../shared/admission/own-workloads.ts";
import { questionEntries } from "../shared/annotations/health.ts";
import { restartManager } from "../shared/annotations/restart.ts";
import * as scaling from "../shared/annotations/scaling.ts";
import { claims, ledgerEntries, rolloutGroup } from "../shared/annotations/table.ts";
import { ledgerNeeds } from "../shared/transaction/ledger-copy.ts";
import { createHandler } from "./act.ts";
import { settings } from "./eviction-wait.ts";
import { guards } from "./guards.ts";
import { keepOf, name, pinningPath, plainPaths } from "./observe.ts";
import { peerReasons } from "./peer-reasons.ts";

/** Allows an eviction only within the ZoneAwarePodDisruptionBudget of its pod, and reserves it in the group's ledger. */
export const evaluateEviction: AdmissionDefinition & { readonly settings: typeof settings } = {
  name,
  concern: "keep evictions within zone-aware disruption budgets",
  guards,
  needs: [
    { group: "", resource: "pods", verbs: ["get", "list", "watch"] },
    { group: "apps", resource: "statefulsets", verbs: ["get", "list", "watch"] },
    { group: "rollout-operator.grafana.com", resource: "zoneawarepoddisruptionbudgets", verbs: ["list", "watch"] },
    { group: "policy", resource: "poddisruptionbudgets", verbs: ["list", "watch"] },
    ...ledgerNeeds,
    // A long-lived process answers reviews, so its metrics cover all ledgers. It also finds owners that have a ledger.
    { group: "coordination.k8s.io", resource: "leases", verbs: ["list"] },
    // For the metrics of suspended volumes, and for the pods of owners that are no StatefulSets.
    { group: "", resource: "persistentvolumeclaims", verbs: ["list"] },
  ],
  reads: [
    ...[rolloutGroup, claims, scaling.prepareDownscale],
    scaling.delayedDownscale,
    scaling.prepareDelayedDownscaleUrl,
    ...[...questionEntries, restartManager],
  ],
  writes: ledgerEntries,
  settings,
  paths: [...plainPaths, pinningPath],
  registration: {
    // Only a mutating webhook may pin the uid of the reviewed pod (rule R11).
    kind: "Mutating",
    webhook: "pod-eviction",
    path: pinningPath,
    rule: { apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods/eviction"] },
    // It reserves the pod, but leaves no trace of a dry run (rule R16).
    sideEffects: "NoneOnDryRun",
    failurePolicy: "Fail",
    // An eviction may wait for its turn in nine tenths of it.
    timeoutSeconds: 15,
    // Without this, while no replica answers, the API server could not evict Sluice's own pods from a node.
    matchConditions: [{ name: "not-a-pod-of-sluice", expression: `!(${namedLikeOurs})` }],
  },
  // An Eviction has some hundred bytes. The rest of a review names the user, with all groups of the user.
  bodyLimitBytes: 1024 * 1024,
  keepOf,
  whenBroken: "closed",
  readsViews: true,
  peerReasons,
  open: createHandler,
};
