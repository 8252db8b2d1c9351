import type { AdmissionDefinition } from "../shared/admission/definition.ts";
import { namedLikeOurs } from "../shared/admission/own-workloads.ts";
import { questionEntries } from "../shared/annotations/health.ts";
import * as scaling from "../shared/annotations/scaling.ts";
import { claims, ledgerEntries, rolloutGroup } from "../shared/annotations/table.ts";
import { ledgerNeeds } from "../shared/transaction/ledger-copy.ts";
import { createHandler } from "./act.ts";
import { settings } from "./hold-time.ts";
import { keepOf, name, pinningPath, plainPaths } from "./observe.ts";
import { peerReasons } from "./peer-reasons.ts";

/** Allows an eviction only within the ZoneAwarePodDisruptionBudget of its pod, and reserves it in the group's ledger. */
export const evaluateEviction: AdmissionDefinition & { readonly settings: typeof settings } = {
  name,
  concern: "keep evictions within zone-aware disruption budgets",
  needs: [
    { group: "", resource: "pods", verbs: ["get", "list", "watch"] },
    { group: "apps", resource: "statefulsets", verbs: ["get", "list", "watch"] },
    { group: "rollout-operator.grafana.com", resource: "zoneawarepoddisruptionbudgets", verbs: ["list", "watch"] },
    { group: "policy", resource: "poddisruptionbudgets", verbs: ["list", "watch"] },
    ...ledgerNeeds,
    // Who answers reviews lives on: its metrics show what all ledgers say. And which owners have one.
    { group: "coordination.k8s.io", resource: "leases", verbs: ["list"] },
    // For the metrics of suspended volumes, and for the pods of owners that are no StatefulSets.
    { group: "", resource: "persistentvolumeclaims", verbs: ["list"] },
  ],
  reads: [
    rolloutGroup,
    claims,
    scaling.prepareDownscale,
    scaling.delayedDownscale,
    scaling.prepareDelayedDownscaleUrl,
    ...questionEntries,
  ],
  writes: ledgerEntries,
  settings,
  paths: [...plainPaths, pinningPath],
  registration: {
    // Only a mutating webhook may pin the uid of the pod that was reviewed (rule R11).
    kind: "Mutating",
    webhook: "pod-eviction",
    path: pinningPath,
    rule: { apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods/eviction"] },
    // It reserves the pod; dry runs leave no trace (rule R16).
    sideEffects: "NoneOnDryRun",
    failurePolicy: "Fail",
    // Nine tenths of it are ours: an eviction may wait for its turn in them.
    timeoutSeconds: 15,
    // Without replicas Sluice could not answer for its own pods, and the nodes that they hang on could not be drained.
    matchConditions: [{ name: "not-a-pod-of-sluice", expression: `!(${namedLikeOurs})` }],
  },
  // An Eviction is some hundred bytes; the rest of a review says who asks, with all the groups that they are in.
  bodyLimitBytes: 1024 * 1024,
  keepOf,
  whenBroken: "closed",
  readsViews: true,
  peerReasons,
  open: createHandler,
};
