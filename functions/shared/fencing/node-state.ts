/** What a Node says of its state, besides what Sluice writes on it. Pure. */

import type { Condition, NodeObject } from "../kubernetes/cluster.ts";

/** The taints of medik8s, whose tools fence nodes as well. */
const foreignFence = /^remediation\.medik8s\.io\//;

/** Undefined where its kubelet has never reported. */
export function readyConditionOf(node: NodeObject): Condition | undefined {
  return conditionOf(node, "Ready");
}

export function isInMaintenance(node: NodeObject): boolean {
  return conditionOf(node, "MaintenanceInProgress")?.status === "True";
}

/** The key of a taint by which another tool fences it; undefined where there is none. */
export function foreignFenceOf({ spec }: NodeObject): string | undefined {
  return spec?.taints?.find(({ key }) => foreignFence.test(key))?.key;
}

function conditionOf({ status }: NodeObject, wanted: string): Condition | undefined {
  return status?.conditions?.find(({ type }) => type === wanted);
}
