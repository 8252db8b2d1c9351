import { restartConfig } from "../shared/annotations/restart.ts";
import { collectedConfig, namedConfigs } from "../shared/annotations/restart-files.ts";
import { ledgerEntries, rolloutGroup } from "../shared/annotations/table.ts";
import { type FunctionDefinition, listGroupKeys } from "../shared/contract/definition.ts";
import { ledgerNeeds } from "../shared/transaction/ledger-copy.ts";
import type { GroupKey } from "../shared/workloads/statefulsets.ts";
import { guards } from "./guards.ts";
import { name } from "./observe.ts";
import { reconcile } from "./reconcile.ts";

/** Removes Secrets with expected files that nothing names any more. Its right to Secrets is the user's to give. */
export const gcRestartConfig: FunctionDefinition<GroupKey> = {
  name,
  concern: "remove Secrets with the files of processes that nothing names any more",
  guards,
  isOptIn: true,
  keyedBy: "groups",
  // Only sweeps trigger it: they are 5 minutes apart, and nothing waits for a Secret that goes.
  watches: [],
  listKeys: listGroupKeys,
  needs: [
    { group: "apps", resource: "statefulsets", verbs: ["get", "list", "watch"] },
    { group: "", resource: "pods", verbs: ["get", "list", "watch"] },
    { group: "rollout-operator.grafana.com", resource: "zoneawarepoddisruptionbudgets", verbs: ["list", "watch"] },
    ...ledgerNeeds,
  ],
  reads: [rolloutGroup, restartConfig, collectedConfig, namedConfigs],
  writes: [...ledgerEntries, namedConfigs],
  reconcile,
};
