/** What the objects say that the brakes rest on: the Lease of the slots, and each Node of a list. Pure. */

import { read } from "../shared/annotations/entry.ts";
import { fenceSlots, noSlots } from "../shared/annotations/fencing-slots.ts";
import { ledgerFormat } from "../shared/annotations/table.ts";
import { readyConditionOf } from "../shared/fencing/node-state.ts";
import type { LeaseObject, NodeObject } from "../shared/kubernetes/cluster.ts";
import type { ClusterNode, SlotsSeen } from "./brakes-view.ts";
import { knownFormat } from "./record.ts";

/** A Lease without the text counts as one that was just made. */
export function parseSlotsLease({ metadata }: LeaseObject): SlotsSeen {
  const { uid, resourceVersion, annotations } = metadata;
  const lease = { uid, resourceVersion };
  if (annotations?.[fenceSlots.key] === undefined) return { lease, contents: noSlots };
  const contents = read(ledgerFormat, metadata) === knownFormat ? read(fenceSlots, metadata) : undefined;
  return { lease, contents: contents ?? "unreadable" };
}

const controlPlaneLabel = "node-role.kubernetes.io/control-plane";

/** @param recorded the names of the nodes that have a record */
export function parseClusterNode(node: NodeObject, recorded: ReadonlySet<string>, isMarked: boolean): ClusterNode {
  const { metadata } = node;
  return {
    name: metadata.name,
    isReady: readyConditionOf(node)?.status === "True",
    isMarked,
    isControlPlane: metadata.labels?.[controlPlaneLabel] !== undefined,
    hasRecord: recorded.has(metadata.name),
  };
}
