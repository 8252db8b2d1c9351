import type { GroupKey } from "../shared/objects/statefulsets.ts";
import { prepareDownscalePath, prepareDownscalePort, unpreparedPods } from "../shared/objects/vocabulary/scaling.ts";
import { claims, lastDownscales, ledgerEntries, podName, rolloutGroup } from "../shared/objects/vocabulary.ts";
import type { FunctionDefinition } from "../shared/pass/definition.ts";
import { groupOfPod, groupOfStatefulSet } from "../shared/views/keys.ts";
import { look } from "./act.ts";
import { listKeys, name } from "./observe.ts";

/** Ends the claims of downscales whose pods are gone, and takes back what was prepared and never came. */
export const releasePrepared: FunctionDefinition<GroupKey> = {
  name,
  concern: "end the claims of prepared downscales, and take back those that never came",
  keyedBy: "groups",
  wokenBy: [
    { resource: "statefulsets", selector: rolloutGroup, keysOf: groupOfStatefulSet },
    { resource: "pods", selector: podName, keysOf: groupOfPod },
  ],
  listKeys,
  needs: [
    { group: "apps", resource: "statefulsets", verbs: ["get", "list", "watch"] },
    { group: "", resource: "pods", verbs: ["get", "list", "watch"] },
    { group: "rollout-operator.grafana.com", resource: "zoneawarepoddisruptionbudgets", verbs: ["list", "watch"] },
    // It ends what stands in a ledger, and makes none.
    { group: "coordination.k8s.io", resource: "leases", verbs: ["get", "list", "patch"] },
  ],
  reads: [rolloutGroup, prepareDownscalePath, prepareDownscalePort, unpreparedPods],
  writes: [...ledgerEntries, claims, lastDownscales],
  run: look,
};
