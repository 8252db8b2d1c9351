import * as keys from "../shared/annotations/fencing.ts";
import { pathsOf } from "../shared/annotations/paths.ts";
import type { FunctionDefinition } from "../shared/contract/definition.ts";
import type { ObjectRef } from "../shared/contract/keys.ts";
import { guards } from "./guards.ts";
import { listKeys, name } from "./observe.ts";
import { reconcile } from "./reconcile.ts";
import { settings } from "./settings.ts";

/** Marks a node that has not been Ready for a time, and takes its own mark away once the node has been Ready for as long. */
export const watchNodeHealth: FunctionDefinition<ObjectRef> & { readonly settings: typeof settings } = {
  name,
  concern: "mark a node that has not been Ready for a time, and take the mark away once it has been Ready for as long",
  guards,
  isOptIn: true,
  keyedBy: "nodes",
  // Its own lists show every node: events of all kubelets would bring reads, and no count.
  watches: [],
  listKeys,
  schedule: { everySeconds: 10, listDue: listKeys },
  needs: [
    { group: "", resource: "nodes", verbs: ["get", "list", "patch"], changes: pathsOf(keys.unhealthy) },
    { group: "coordination.k8s.io", resource: "leases", verbs: ["get"] },
    { group: "", resource: "events", verbs: ["create"], scope: "default" },
  ],
  // It takes no pod of a group.
  standsBy: false,
  reads: [keys.unhealthy, keys.fenceNever, keys.fencePhase, keys.recordSettling, keys.recordSince],
  writes: [keys.unhealthy],
  settings,
  reconcile,
};
