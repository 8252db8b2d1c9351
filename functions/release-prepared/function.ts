import { pathsOf } from "../shared/annotations/paths.ts";
import {
  lastDownscale,
  prepareDownscalePath,
  prepareDownscalePort,
  unpreparedPods,
} from "../shared/annotations/scaling.ts";
import { claims, lastDownscales, ledgerEntries, podName, rolloutGroup } from "../shared/annotations/table.ts";
import type { FunctionDefinition } from "../shared/contract/definition.ts";
import { groupOfPod, groupOfStatefulSet } from "../shared/contract/keys.ts";
import { leasesNeed } from "../shared/transaction/ledger-copy.ts";
import type { GroupKey } from "../shared/workloads/statefulsets.ts";
import { reconcilePrepared } from "./act.ts";
import { guards } from "./guards.ts";
import { listDue, listKeys, name, settings } from "./observe.ts";

/** Ends the claims of downscales whose pods are gone, and takes back what was prepared and never came. */
export const releasePrepared: FunctionDefinition<GroupKey> & { readonly settings: typeof settings } = {
  name,
  concern: "end the claims of prepared downscales, and take back those that never came",
  guards,
  keyedBy: "groups",
  watches: [
    { resource: "statefulsets", selector: rolloutGroup, keysOf: groupOfStatefulSet },
    { resource: "pods", selector: podName, keysOf: groupOfPod },
  ],
  listKeys,
  // Where nothing comes of a change that was let through, no event says so: 90 s are over ten seconds earlier or later.
  schedule: { everySeconds: 10, listDue },
  needs: [
    // To write is for the annotation that a setting asks for.
    {
      group: "apps",
      resource: "statefulsets",
      verbs: ["get", "list", "watch", "patch"],
      changes: pathsOf(lastDownscale),
    },
    { group: "", resource: "pods", verbs: ["get", "list", "watch"] },
    { group: "rollout-operator.grafana.com", resource: "zoneawarepoddisruptionbudgets", verbs: ["list", "watch"] },
    // It ends what stands in a ledger, and makes none.
    leasesNeed("get", "list", "patch"),
    { group: "", resource: "events", verbs: ["create"] },
  ],
  reads: [rolloutGroup, prepareDownscalePath, prepareDownscalePort, unpreparedPods, lastDownscale],
  writes: [...ledgerEntries, claims, lastDownscales, lastDownscale],
  settings,
  reconcile: reconcilePrepared,
};
