import { drainEntries } from "../shared/annotations/drain.ts";
import * as suspension from "../shared/annotations/suspension.ts";
import { claims, ledgerEntries, suspensionTimes, verdicts } from "../shared/annotations/table.ts";
import type { FunctionDefinition } from "../shared/contract/definition.ts";
import { reconcileClaims } from "../shared/reconcile/reconcile-claims.ts";
import { keysOfPvc, listKeys } from "../shared/suspension/reading.ts";
import { retainingNeed } from "../shared/suspension/retain-volume.ts";
import { suspensionNeeds } from "../shared/suspension/writing.ts";
import { ledgerNeeds } from "../shared/transaction/ledger-copy.ts";
import type { GroupKey } from "../shared/workloads/statefulsets.ts";
import { sweepStrays } from "./end-strays.ts";
import { guards } from "./guards.ts";
import { name, settings } from "./observe.ts";
import { collecting } from "./reconcile.ts";

/** Removes the volumes of suspended groups once their time is over, zone by zone, and warns before that. */
export const gcSuspendedGroups: FunctionDefinition<GroupKey> & { readonly settings: typeof settings } = {
  name,
  concern: "remove the volumes of suspended groups once their time is over, zone by zone, and warn before that",
  guards,
  keyedBy: "groups",
  // A running time sets a timer, and the sweep finds it as well.
  watches: [{ resource: "persistentvolumeclaims", keysOf: keysOfPvc }],
  listKeys,
  needs: [
    { group: "apps", resource: "statefulsets", verbs: ["get", "list", "watch"] },
    { group: "", resource: "pods", verbs: ["get", "list", "watch"] },
    { group: "rollout-operator.grafana.com", resource: "zoneawarepoddisruptionbudgets", verbs: ["list", "watch"] },
    ...ledgerNeeds,
    { group: "coordination.k8s.io", resource: "leases", verbs: ["list"] },
    ...suspensionNeeds,
    { group: "", resource: "persistentvolumeclaims", verbs: ["delete"] },
    retainingNeed,
  ],
  reads: [
    ...suspension.policyEntries,
    ...drainEntries,
    ...suspension.pvcEntries,
    ...suspension.ownerEntries,
    ...suspension.stateEntries,
  ],
  writes: [...ledgerEntries, claims, verdicts, ...suspensionTimes, ...suspension.stateEntries, suspension.suspended],
  settings,
  finalizers: [{ name: suspension.volumeHold, setting: settings.volumeHold }],
  reconcile: (context, key, trigger) => reconcileClaims(context, collecting, key, trigger),
  sweep: sweepStrays,
};
