/** What the claims of a fence need: rights, and the keys that they read and write. */

import { pathsOf } from "../shared/annotations/paths.ts";
import { claims, ledgerEntries, managedBy, rolloutGroup, verdicts } from "../shared/annotations/table.ts";
import type { Need } from "../shared/contract/definition.ts";

export const ledgerReads = [rolloutGroup, ...ledgerEntries, claims] as const;
export const ledgerWrites = [...ledgerEntries, claims, verdicts] as const;

/** The pods of a node are of any namespace, and so are the ledgers of their groups. */
export const ledgerNeeds: readonly Need[] = [
  { group: "apps", resource: "statefulsets", verbs: ["get", "list"], scope: "every-namespace" },
  {
    group: "rollout-operator.grafana.com",
    resource: "zoneawarepoddisruptionbudgets",
    verbs: ["list"],
    scope: "every-namespace",
  },
  {
    group: "coordination.k8s.io",
    resource: "leases",
    verbs: ["get", "list", "create", "patch"],
    scope: "every-namespace",
    changes: pathsOf(...ledgerWrites, managedBy),
  },
];
