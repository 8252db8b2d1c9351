/** Lists all nodes for the counts, and reads the one node that a reconcile is about. */

import { read } from "../shared/annotations/entry.ts";
import { fencePhase, recordSettling, recordSince } from "../shared/annotations/fencing.ts";
import { isReservedName, recordName } from "../shared/annotations/fencing-leases.ts";
import { valuesOf } from "../shared/base/settings.ts";
import type { Context } from "../shared/contract/context.ts";
import type { ObjectRef } from "../shared/contract/keys.ts";
import { markOf } from "../shared/fencing/mark.ts";
import type { Cluster, LeaseObject } from "../shared/kubernetes/cluster.ts";
import { find } from "../shared/kubernetes/find.ts";
import { lastedMs } from "../shared/kubernetes/lasted.ts";
import { decide, type HealthSnapshot } from "./decide.ts";
import { type Counts, countNodes } from "./decide-counts.ts";
import { type FenceState, type NodeView, nodeView } from "./node-view.ts";
import { settings } from "./settings.ts";

export const name = "watch-node-health";

/** So many nodes with nothing to be done about them are reconciled after a list, so that a log says what they wait for. */
const mostWaiting = 20;

/** Of each process. One that begins counts anew, which takes the time of the setting. */
const remembered = new WeakMap<Cluster, Counts>();

/**
 * Lists all nodes, counts, and answers the nodes that may get or lose a mark, and some that wait. Reads nothing where the
 * function is off. Throws ClusterError.
 */
export async function listKeys(context: Context): Promise<readonly ObjectRef[]> {
  const { cluster, reporter } = context;
  const { nodeHealthAfterMs: afterMs, fenceStormPercent } = valuesOf(settings, context.settings);
  if (afterMs === "off") return [];
  const beganMs = lastedMs(cluster);
  const { items } = await cluster.list("nodes", {});
  const times = { beganMs, endedMs: lastedMs(cluster), skippedMs: cluster.skippedMs?.() ?? 0 };
  const mark = markOf(context);
  const nodes = items.map((node) => nodeView(node, mark));
  const counts = countNodes(nodes, times, remembered.get(cluster), fenceStormPercent);
  remembered.set(cluster, counts);
  const decided = nodes.map((node) => decide({ name: node.name, node, counts, nowMs: times.endedMs, afterMs }));
  reporter.nodeHealth(nodesByGuard(decided.map(({ guard }) => guard)));
  const named = nodes.map(({ name: node }, at) => ({ node, verdict: decided[at] }));
  const due = named.filter(({ verdict }) => verdict?.step !== undefined);
  const waiting = named.filter(({ verdict }) => verdict?.step === undefined && verdict?.guard !== "ready");
  return [...due, ...waiting.slice(0, mostWaiting)].map(({ node }) => ({
    resource: "nodes",
    namespace: "",
    name: node,
  }));
}

function nodesByGuard(guards: readonly string[]): ReadonlyMap<string, number> {
  return new Map([...Map.groupBy(guards, (guard) => guard)].map(([guard, all]) => [guard, all.length]));
}

/** Reads the node and the record of its fence. Throws ClusterError. */
export async function observe(context: Context, key: ObjectRef): Promise<HealthSnapshot> {
  const { cluster } = context;
  const { nodeHealthAfterMs: afterMs, fenceNamespace: namespace } = valuesOf(settings, context.settings);
  const { name } = key;
  const counts = remembered.get(cluster);
  if (afterMs === "off") return { name, node: undefined, counts, nowMs: lastedMs(cluster), afterMs };
  // The record first: a Node that is read after it is no older than what the record says of it.
  const record = isReservedName(name)
    ? undefined
    : await find(cluster, "leases", { namespace, name: recordName(name) });
  const object = await find(cluster, "nodes", key);
  const node: NodeView | undefined = object && { ...nodeView(object, markOf(context)), fence: fenceStateOf(record) };
  return { name, node, counts, nowMs: lastedMs(cluster), afterMs };
}

/**
 * A record that another version wrote counts as that of a fence under way. While claims settle, the Node has been given back, and
 * a mark asks for another fence.
 */
function fenceStateOf(record: LeaseObject | undefined): FenceState {
  if (record === undefined) return "none";
  const phase = read(fencePhase, record.metadata);
  if (phase === "claimed") return phase;
  const settlingMs = read(recordSettling, record.metadata) ?? Number.NEGATIVE_INFINITY;
  const sinceMs = read(recordSince, record.metadata) ?? Number.POSITIVE_INFINITY;
  return phase === "recovering" && settlingMs >= sinceMs ? "none" : "going-on";
}
