/**
 * For how long each node has been as it is, counted by the lists of this process alone. No time that a Node names is compared
 * with the time of another clock. Pure.
 */

import { stormOf } from "../shared/fencing/decide-storm.ts";
import type { NodeView } from "./node-view.ts";

/**
 * After a longer time without a list every count begins anew, in milliseconds: nothing is known of it. It is three times what
 * lies between two lists.
 */
export const longestGapMs = 30_000;

/** When a list was made, by a clock that counts nothing that only the wall clock has shown, in milliseconds. */
export interface ListTimes {
  /** Before its first request, and after its answer. */
  readonly beganMs: number;
  readonly endedMs: number;
  /** How much only the wall clock had shown when it ended: the machine may have slept for so long. */
  readonly skippedMs: number;
}

/** A node that several lists in a row have shown in one state. */
export interface CountedNode {
  /** `not-ready`: it has no mark, and nothing forbids one. `ready`: it has a mark of this function. */
  readonly state: "not-ready" | "ready";
  readonly uid: string;
  readonly bootId: string;
  readonly status: string | undefined;
  readonly changedAt: string | undefined;
  /** The end of the first of these lists, as in {@link ListTimes}. */
  readonly sinceMs: number;
  /** From there to the begin of the last one, in milliseconds. */
  readonly lastedMs: number;
}

/** What the lists of a process have shown. */
export interface Counts {
  readonly times: ListTimes;
  /** How many nodes there are. */
  readonly nodes: number;
  /** The names of the nodes that make a storm; undefined where there is none. */
  readonly storm: readonly string[] | undefined;
  /** By the name of the node. A node in another state is not there. */
  readonly counted: ReadonlyMap<string, CountedNode>;
}

/**
 * What the lists show now. A count begins anew with each change of the condition, of the boot or of the Node, with a mark, a
 * fence or anything else that forbids the mark, with a storm, and where this process may have missed something.
 *
 * @param before as the last list has left it; undefined: this process begins
 */
export function countNodes(
  nodes: readonly NodeView[],
  times: ListTimes,
  before: Counts | undefined,
  fenceStormPercent: number,
): Counts {
  const storm = stormOf(nodes, fenceStormPercent)?.map(({ name }) => name);
  const isKnown = before !== undefined && hasSeenAll(before.times, times);
  const counted = new Map<string, CountedNode>();
  for (const node of nodes) {
    const state = countedState(node, storm !== undefined);
    if (state === undefined) continue;
    const { uid, bootId, status, changedAt } = node;
    const now = { state, uid, bootId, status, changedAt };
    const known = isKnown ? before.counted.get(node.name) : undefined;
    const sinceMs = known !== undefined && isSame(known, now) ? known.sinceMs : times.endedMs;
    counted.set(node.name, { ...now, sinceMs, lastedMs: Math.max(0, times.beganMs - sinceMs) });
  }
  return { times, nodes: nodes.length, storm, counted };
}

function hasSeenAll(before: ListTimes, { beganMs, skippedMs }: ListTimes): boolean {
  return before.skippedMs === skippedMs && beganMs - before.endedMs <= longestGapMs;
}

/**
 * True where a node has been in one state all the while, as far as two observations of it show. The same status since another
 * time was another one in between.
 */
export function isSame(
  known: Omit<CountedNode, "sinceMs" | "lastedMs">,
  now: Omit<typeof known, "state"> & { readonly state: CountedNode["state"] | undefined },
): boolean {
  if (known.state !== now.state || known.uid !== now.uid || known.bootId !== now.bootId) return false;
  if (known.status === now.status) return known.changedAt === now.changedAt;
  // A kubelet that falls silent has not been Ready in between. One that reports again may have been.
  return now.status === "Unknown";
}

/** What is counted of a node; undefined: nothing. */
export function countedState(
  { isReady, status, mark, fence, excluded }: NodeView,
  isStorm: boolean,
): CountedNode["state"] | undefined {
  if (mark === "own") return isReady && fence !== "going-on" ? "ready" : undefined;
  const isExcluded = mark !== undefined || excluded !== undefined || fence !== "none";
  return isReady || status === undefined || isExcluded || isStorm ? undefined : "not-ready";
}
