import { questionEntries } from "../shared/annotations/health.ts";
import { restartManager } from "../shared/annotations/restart.ts";
import { prepareDownscale } from "../shared/annotations/scaling.ts";
import {
  claims,
  lastDownscales,
  ledgerEntries,
  ledgerGroup,
  rolloutGroup,
  suspensionTimes,
} from "../shared/annotations/table.ts";
import { type FunctionDefinition, listGroupKeys } from "../shared/contract/definition.ts";
import { groupOfStatefulSet, type KeyLookUp } from "../shared/contract/keys.ts";
import type { ObjectKey } from "../shared/kubernetes/cluster.ts";
import { leasesNeed } from "../shared/transaction/ledger-copy.ts";
import { groupOfBudget } from "../shared/workloads/group-key.ts";
import type { GroupKey } from "../shared/workloads/statefulsets.ts";
import { reconcileLedger, sweep } from "./act.ts";
import { guards } from "./guards.ts";
import { name } from "./observe.ts";

/** The group that a budget forms of StatefulSets without one. It needs no read, but counts as a look-up for the rate limit. */
function groupMadeBy({ namespace, name: budget }: ObjectKey): KeyLookUp<GroupKey> {
  const keys = [{ namespace, group: groupOfBudget(budget) }];
  return { name: `budgets ${namespace}/${budget}`, find: () => Promise.resolve(keys) };
}

/** Creates the ledgers of groups ahead of need, and removes those of groups that are gone. */
export const keepLedgers: FunctionDefinition<GroupKey> = {
  name,
  concern: "make ledgers ahead of need, and collect those of groups that have vanished",
  guards,
  keyedBy: "groups",
  watches: [
    // A StatefulSet without a group has a ledger if a budget selects it, and that budget's events report it.
    { resource: "statefulsets", selector: rolloutGroup, keysOf: groupOfStatefulSet },
    { resource: "zoneawarepoddisruptionbudgets", keysOf: groupMadeBy },
  ],
  listKeys: listGroupKeys,
  isGlance: true,
  needs: [
    { group: "apps", resource: "statefulsets", verbs: ["get", "list", "watch"] },
    { group: "", resource: "pods", verbs: ["get", "list", "watch"] },
    { group: "", resource: "persistentvolumeclaims", verbs: ["list"] },
    { group: "rollout-operator.grafana.com", resource: "zoneawarepoddisruptionbudgets", verbs: ["list", "watch"] },
    leasesNeed("get", "list", "create", "delete"),
  ],
  reads: [
    ...[rolloutGroup, prepareDownscale, restartManager],
    ...[...questionEntries, ...ledgerEntries],
    claims,
    lastDownscales,
    ...suspensionTimes,
  ],
  writes: [ledgerGroup],
  // Its sweep observes every group itself.
  reconcile: (context, key, { sweep: isSwept }) =>
    isSwept ? Promise.resolve({ requeueAfterMs: undefined, pendingActs: undefined }) : reconcileLedger(context, key),
  sweep: (context) => sweep(context),
};
