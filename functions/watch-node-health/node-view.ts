/** What a Node says of its health, and of what forbids to mark it. Pure. */

import { read } from "../shared/annotations/entry.ts";
import { fenceNever, fencePhase } from "../shared/annotations/fencing.ts";
import type { Annotation } from "../shared/annotations/table.ts";
import { foreignFenceOf, isInMaintenance, readyConditionOf } from "../shared/fencing/node-state.ts";
import type { NodeObject } from "../shared/kubernetes/cluster.ts";

/** How a mark of this function begins. Any other text is the mark of another client, an empty one as well. */
export const ownMarkPrefix = "watch-node-health: ";

/** How far the fence of a node has got. `claimed`: nothing has happened to the node. `going-on`: something has, or may have. */
export type FenceState = "none" | "claimed" | "going-on";

/** A Node as a GET or a LIST has it. */
export interface NodeView {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** The boot that it reports; empty where it has reported none. */
  readonly bootId: string;
  /** The status of its condition Ready; undefined where its kubelet has never reported. */
  readonly status: string | undefined;
  /** When that changed, by the clock of a kubelet or of a controller. It is compared with itself alone. */
  readonly changedAt: string | undefined;
  readonly isReady: boolean;
  readonly mark: "own" | "of-others" | undefined;
  readonly isMarked: boolean;
  /** How far its fence has got, as far as the Node says. The record of the fence may know better. */
  readonly fence: FenceState;
  /** Why it is not to be marked, whatever its condition says; undefined where nothing forbids it. */
  readonly excluded: Exclusion | undefined;
}

/** A guard, and what it says about a node. */
export interface Exclusion {
  readonly guard: string;
  readonly message: string;
}

/** @param mark the annotation that marks a node */
export function nodeView(node: NodeObject, mark: Annotation<string>): NodeView {
  const { metadata, status } = node;
  const ready = readyConditionOf(node);
  const phase = metadata.annotations?.[fencePhase.key];
  return {
    name: metadata.name,
    uid: metadata.uid,
    resourceVersion: metadata.resourceVersion,
    bootId: status?.nodeInfo?.bootID ?? "",
    status: ready?.status,
    changedAt: ready?.lastTransitionTime,
    isReady: ready?.status === "True",
    mark: clientOf(metadata.annotations?.[mark.key]),
    // An empty one asks for no fence, and so makes no storm.
    isMarked: read(mark, metadata) !== undefined,
    fence: phase === undefined ? "none" : phase === "claimed" ? phase : "going-on",
    excluded: exclusionOf(node),
  };
}

function clientOf(text: string | undefined): NodeView["mark"] {
  if (text === undefined) return undefined;
  return text.startsWith(ownMarkPrefix) ? "own" : "of-others";
}

function exclusionOf(node: NodeObject): Exclusion | undefined {
  const { metadata, spec } = node;
  const { name } = metadata;
  if (metadata.deletionTimestamp !== undefined)
    return { guard: "deleting-node", message: `${name} is being deleted: its machine goes as well, or has gone` };
  if (metadata.annotations?.[fenceNever.key] !== undefined)
    return { guard: "never-fenced", message: `${fenceNever.key} excludes ${name}` };
  if (isInMaintenance(node))
    return { guard: "maintenance", message: `the condition MaintenanceInProgress of ${name} is True` };
  if (spec?.unschedulable === true)
    return { guard: "cordoned", message: `${name} is cordoned: a person or a tool may be about to reboot it` };
  const taint = foreignFenceOf(node);
  if (taint === undefined) return undefined;
  return { guard: "foreign-fence", message: `another tool fences ${name}: it has the taint ${taint}` };
}
