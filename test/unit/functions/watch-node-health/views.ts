/** Nodes, counts and snapshots for the decisions of `watch-node-health`. */
import type { HealthSnapshot } from "../../../../functions/watch-node-health/decide.ts";
import type { CountedNode, Counts, ListTimes } from "../../../../functions/watch-node-health/decide-counts.ts";
import type { NodeView } from "../../../../functions/watch-node-health/node-view.ts";

export const ready: NodeView = {
  name: "n",
  uid: "uid-1",
  resourceVersion: "7",
  bootId: "boot-1",
  status: "True",
  changedAt: "2026-01-01T00:00:00Z",
  isReady: true,
  mark: undefined,
  isMarked: false,
  fence: "none",
  excluded: undefined,
};
export const silent: NodeView = { ...ready, status: "Unknown", changedAt: "2026-01-01T00:01:00Z", isReady: false };
export const unready: NodeView = { ...silent, status: "False" };
export const ownMark = { mark: "own", isMarked: true } as const;
export const foreignMark = { mark: "of-others", isMarked: true } as const;

/** A list that took 10 ms. */
export const listAt = (beganMs: number, skippedMs = 0): ListTimes => ({ beganMs, endedMs: beganMs + 10, skippedMs });

/** As if lists had shown the node as it is for so long, in milliseconds. */
export function countedFor(node: NodeView, lastedMs: number, changes: Partial<CountedNode> = {}): CountedNode {
  const { uid, bootId, status, changedAt } = node;
  const state = node.isReady ? "ready" : "not-ready";
  return { state, uid, bootId, status, changedAt, sinceMs: 0, lastedMs, ...changes };
}

/** The last list ended at 100 s, and it is 100 s now. */
export function snapshotOf(
  node: NodeView | undefined,
  counted: CountedNode | undefined,
  changes: Partial<HealthSnapshot> & { readonly storm?: Counts["storm"] } = {},
): HealthSnapshot {
  const { storm, ...more } = changes;
  const known = new Map(counted === undefined ? [] : [["n", counted]]);
  const counts = { times: listAt(99_990), nodes: 5, storm, counted: known };
  return { name: "n", node, counts, nowMs: 100_000, afterMs: 60_000, ...more };
}
