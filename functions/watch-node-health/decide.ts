/** Whether a node gets the mark of this function, or loses it. Pure. */

import { type Counts, countedState, isSame, longestGapMs } from "./decide-counts.ts";
import { type NodeView, ownMarkPrefix } from "./node-view.ts";
import type { HealthSettings } from "./settings.ts";

export interface HealthSnapshot {
  readonly name: string;
  /** Undefined where it is gone. Its fence is as the record says. */
  readonly node: NodeView | undefined;
  /** Undefined: this process has listed nothing. */
  readonly counts: Counts | undefined;
  /** Now, by the clock of the counts. */
  readonly nowMs: number;
  readonly afterMs: HealthSettings["nodeHealthAfterMs"];
}

/** One write of the Node, on condition that it is as it was read. */
export type HealthStep =
  | { readonly kind: "mark"; readonly node: NodeView; readonly text: string }
  | { readonly kind: "unmark"; readonly node: NodeView };

export interface HealthVerdict {
  readonly guard: string;
  readonly message: string;
  readonly step: HealthStep | undefined;
  /** The next list leads to the node again, where there is anything to do. */
  readonly requeueAfterMs: undefined;
}

export function decide(snapshot: HealthSnapshot): HealthVerdict {
  const { name, node, afterMs } = snapshot;
  if (afterMs === "off") return wait("off", "NODE_HEALTH_AFTER is off");
  if (node === undefined) return wait("node-gone", `the Node ${name} is gone`);
  if (node.mark === "of-others") return wait("marked-by-others", `${name} has a mark that is not of this function`);
  return node.mark === "own" ? decideMarked(snapshot, node, afterMs) : decideUnmarked(snapshot, node, afterMs);
}

function decideUnmarked(snapshot: HealthSnapshot, node: NodeView, afterMs: number): HealthVerdict {
  const { counts } = snapshot;
  const { name, status, excluded } = node;
  if (node.isReady) return wait("ready", `${name} is Ready`);
  if (status === undefined) return wait("never-reported", `the kubelet of ${name} has never reported a condition`);
  if (node.fence !== "none") return wait("fencing", `a fence of ${name} has not ended`);
  if (excluded !== undefined) return wait(excluded.guard, `${excluded.message}, so that it gets no mark`);
  if (counts?.storm !== undefined) {
    const message = `${name} gets no mark in a storm: ${counts.storm.length} of ${counts.nodes} nodes are marked or not Ready`;
    return wait("storm", message);
  }
  const lastedMs = lastedOf(snapshot, node);
  if (lastedMs < afterMs)
    return wait("counting", `Ready of ${name} is ${status} for ${seconds(lastedMs)} of ${seconds(afterMs)}`);
  const text = `${ownMarkPrefix}Ready is ${status}, and was not True for ${seconds(lastedMs)}`;
  const message = `${name} is marked: Ready is ${status}, and was not True for ${seconds(lastedMs)}`;
  return { guard: "marking", message, step: { kind: "mark", node, text }, requeueAfterMs: undefined };
}

function decideMarked(snapshot: HealthSnapshot, node: NodeView, afterMs: number): HealthVerdict {
  const { name, status } = node;
  if (node.fence === "going-on")
    return wait("fencing", `a fence of ${name} is under way: the fence takes the mark away`);
  if (!node.isReady)
    return wait("marked", `${name} has the mark of this function: its Ready is ${status ?? "missing"}`);
  const lastedMs = lastedOf(snapshot, node);
  if (lastedMs < afterMs) {
    const message = `${name} keeps its mark: it is Ready for ${seconds(lastedMs)} of ${seconds(afterMs)}`;
    return wait("returning", message);
  }
  const message = `${name} loses the mark of this function: it is Ready for ${seconds(lastedMs)}`;
  return { guard: "unmarking", message, step: { kind: "unmark", node }, requeueAfterMs: undefined };
}

/** For how long the lists have shown the node as it is now, in milliseconds; 0 where the last list is too old. */
function lastedOf({ counts, nowMs }: HealthSnapshot, node: NodeView): number {
  if (counts === undefined) return 0;
  const known = counts.counted.get(node.name);
  if (known === undefined) return 0;
  const isFresh = nowMs - counts.times.endedMs <= longestGapMs;
  return isFresh && isSame(known, { ...node, state: countedState(node, false) }) ? known.lastedMs : 0;
}

const seconds = (ms: number): string => `${Math.floor(ms / 1_000)} s`;

function wait(guard: string, message: string): HealthVerdict {
  return { guard, message, step: undefined, requeueAfterMs: undefined };
}
