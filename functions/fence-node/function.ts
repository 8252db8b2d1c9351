import * as keys from "../shared/annotations/fencing.ts";
import { fenceStrategy } from "../shared/annotations/fencing-deletion.ts";
import { agentPeersProposed } from "../shared/annotations/fencing-peers.ts";
import { fenceSlots } from "../shared/annotations/fencing-slots.ts";
import { pathsOf } from "../shared/annotations/paths.ts";
import { ledgerFormat } from "../shared/annotations/table.ts";
import type { FunctionDefinition } from "../shared/contract/definition.ts";
import type { ObjectRef } from "../shared/contract/keys.ts";
import { deletionNeeds } from "./deletion-rights.ts";
import { guards } from "./guards.ts";
import { ledgerNeeds, ledgerReads, ledgerWrites } from "./ledger-rights.ts";
import { machineNeeds } from "./machine-rights.ts";
import { listKeys, name, settings } from "./observe.ts";
import { reconcile } from "./reconcile.ts";

/** Resets a node that is marked unhealthy, and lets its pods start elsewhere once there is evidence that it has stopped. */
export const fenceNode: FunctionDefinition<ObjectRef> & { readonly settings: typeof settings } = {
  name,
  concern:
    "reset a node that is marked unhealthy, and let its pods go elsewhere once there is evidence that it has stopped",
  guards,
  isOptIn: true,
  // Before it, the token of an agent does not name its node, and any agent could write the Lease of any other one.
  leastKubernetes: "1.32",
  keyedBy: "nodes",
  watches: [{ resource: "nodes", keysOf: ({ name }) => [{ resource: "nodes", namespace: "", name }] }],
  listKeys,
  schedule: { everySeconds: 10, listDue: listKeys },
  needs: [
    {
      group: "",
      resource: "nodes",
      verbs: ["get", "list", "watch", "patch"],
      changes: [
        "spec.taints",
        ...pathsOf(keys.fenceId, keys.fencePhase, keys.fenceHold, keys.fenceConfirmed, keys.unhealthy),
      ],
    },
    { group: "", resource: "pods", verbs: ["get", "list"], scope: "every-namespace" },
    { group: "storage.k8s.io", resource: "volumeattachments", verbs: ["list"] },
    {
      group: "coordination.k8s.io",
      resource: "leases",
      verbs: ["get", "list", "create", "patch", "delete"],
      changes: pathsOf(ledgerFormat, ...keys.recordEntries, keys.fenceArmed, agentPeersProposed, fenceSlots),
    },
    ...ledgerNeeds,
    { group: "", resource: "events", verbs: ["create"], scope: "default" },
  ],
  kindNeeds: machineNeeds,
  optionalNeeds: { "node-deletion": deletionNeeds },
  // It takes no pod of a group: Kubernetes does, once the node has stopped.
  standsBy: false,
  reads: [keys.unhealthy, keys.fenceNever, fenceStrategy, keys.fenceConfirmed, ...keys.agentEntries, ...ledgerReads],
  writes: [...keys.recordEntries, keys.fenceArmed, agentPeersProposed, fenceSlots, ...ledgerWrites],
  settings,
  reconcile,
};
