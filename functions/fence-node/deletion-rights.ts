/** What the strategy `node-deletion` needs besides the rights of every fence. An overlay of its own gives it. */

import type { Need } from "../shared/contract/definition.ts";

/** The Node is deleted, and made again with what it had. One that its kubelet has registered meanwhile gets what it lacks. */
export const deletionNeeds: readonly Need[] = [
  {
    group: "",
    resource: "nodes",
    verbs: ["create", "patch", "delete"],
    changes: [
      ...["labels", "annotations"].map((field) => `metadata.${field}[*]`),
      ...["podCIDR", "podCIDRs", "providerID", "taints", "unschedulable"].map((field) => `spec.${field}`),
    ],
  },
];
