/** Trims the Nodes of a LIST: no function reads most of a Node, and the names of its images alone are many times as long. */
import type { Condition, NodeObject } from "./cluster.ts";
import type { EachOf } from "./trim-pod.ts";

type NodeSpec = NonNullable<NodeObject["spec"]>;
type NodeStatus = NonNullable<NodeObject["status"]>;
type NodeInfo = NonNullable<NodeStatus["nodeInfo"]>;

/** Keeps the fields of `NodeObject`, so that a list of five thousand Nodes is small. */
export function keptNode({ metadata, spec, status }: NodeObject): NodeObject {
  return { metadata, ...(spec && { spec: keptSpec(spec) }), ...(status && { status: keptStatus(status) }) };
}

function keptSpec({ unschedulable, podCIDR, podCIDRs, providerID, taints }: NodeSpec): NodeSpec {
  return { unschedulable, podCIDR, podCIDRs, providerID, taints } satisfies EachOf<NodeSpec> as NodeSpec;
}

function keptStatus({ conditions, nodeInfo }: NodeStatus): NodeStatus {
  return {
    conditions: conditions?.map(
      ({ type, status, lastTransitionTime }) =>
        ({ type, status, lastTransitionTime }) satisfies EachOf<Condition> as Condition,
    ),
    nodeInfo: nodeInfo && keptInfo(nodeInfo),
  } satisfies EachOf<NodeStatus> as NodeStatus;
}

function keptInfo({ bootID, systemUUID }: NodeInfo): NodeInfo {
  return { bootID, systemUUID } satisfies EachOf<NodeInfo> as NodeInfo;
}
