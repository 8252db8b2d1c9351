/** Reads and writes what the brakes need: the Lease of the slots, all nodes, and the pods of a node that is back. */

import { emptyingTaint, fenceRecord } from "../shared/annotations/fencing.ts";
import { nodeOfRecord, recordName, slotsName } from "../shared/annotations/fencing-leases.ts";
import { fenceSlots, formatSlots } from "../shared/annotations/fencing-slots.ts";
import { ledgerFormat, read } from "../shared/annotations/table.ts";
import type { Context } from "../shared/contract/context.ts";
import { markOf } from "../shared/fencing/mark.ts";
import type { Cluster, NodeObject } from "../shared/kubernetes/cluster.ts";
import { find } from "../shared/kubernetes/find.ts";
import { lastedMs } from "../shared/kubernetes/lasted.ts";
import { isMirror, tolerates } from "./bound-pods.ts";
import type { BrakeSettings } from "./brake-settings.ts";
import { type BrakesView, type ClusterNode, missingSlots } from "./brakes-view.ts";
import { decideSlot, hasSlot } from "./decide-brakes.ts";
import { isUnknownAgain } from "./decide-relapse.ts";
import { isMarkedByMachine } from "./machines.ts";
import { parseClusterNode, parseSlotsLease } from "./parse-brakes.ts";
import { knownFormat, parseRecord } from "./record.ts";
import type { FenceSnapshot, SlotsStep } from "./snapshot.ts";

/** A list of all nodes may make several fences wait for so long, in milliseconds. None gets a slot by it. */
const sharedForMs = 10_000;

interface ListedNodes {
  readonly atMs: number;
  readonly nodes: readonly ClusterNode[];
}

/** Of each process. What is forgotten costs a list. */
const listed = new WeakMap<Cluster, ListedNodes>();

export type BrakesNeed = Pick<FenceSnapshot, "name" | "node" | "record" | "nowMs">;

/** Reads nothing for an armed fence, which is reconciled every few seconds: no brake is about it. Throws ClusterError. */
export async function readBrakes(
  context: Context,
  { fenceNamespace: namespace, ...settings }: BrakeSettings & { readonly fenceNamespace: string },
  need: BrakesNeed,
): Promise<BrakesView> {
  const { cluster } = context;
  const { record, name, nowMs } = need;
  const nothing = { settings, slots: missingSlots, ended: new Set<string>(), nodes: undefined, stranded: [] };
  if (typeof record !== "object" || record.phase === "armed") return nothing;
  const lease = await find(cluster, "leases", { namespace, name: slotsName });
  const slots = lease === undefined ? missingSlots : parseSlotsLease(lease);
  if (record.phase !== "claimed") {
    const stranded = isUnknownAgain(need) ? await listStranded(cluster, name) : [];
    return { ...nothing, slots, stranded };
  }
  const { contents } = slots;
  if (contents === "unreadable" || hasSlot(contents, record, nowMs)) return { ...nothing, slots };
  const ids = contents.slots.filter(({ fenceId }) => fenceId !== record.fenceId);
  const isEnded = await Promise.all(ids.map((slot) => hasEnded(cluster, namespace, slot)));
  const view = { ...nothing, slots, ended: new Set(ids.filter((_, at) => isEnded[at]).map(({ fenceId }) => fenceId)) };
  const shared = listed.get(cluster);
  if (shared !== undefined && lastedMs(cluster) - shared.atMs < sharedForMs) {
    const remembered = { ...view, nodes: shared.nodes };
    if (decideSlot({ name, nowMs, brakes: remembered }, record)?.step?.kind !== "take-slot") return remembered;
  }
  return { ...view, nodes: await listNodes(context, namespace) };
}

/** The record is read after the slot, and was made before it: a record that is not there any more has ended. */
async function hasEnded(
  cluster: Cluster,
  namespace: string,
  { node, fenceId }: { readonly node: string; readonly fenceId: string },
): Promise<boolean> {
  const lease = await find(cluster, "leases", { namespace, name: recordName(node) });
  const record = lease && parseRecord(lease);
  if (record === "unreadable") return false;
  return record?.fenceId !== fenceId || (record.phase !== "claimed" && record.phase !== "armed");
}

async function listNodes(context: Context, namespace: string): Promise<readonly ClusterNode[]> {
  const { cluster } = context;
  const mark = markOf(context);
  const atMs = lastedMs(cluster);
  const [nodes, isMarkedByOther, records] = await Promise.all([
    cluster.list("nodes", {}),
    isMarkedByMachine(context),
    cluster.list("leases", { namespace, labelSelector: `${fenceRecord.key}=true` }),
  ]);
  const recorded = new Set(records.items.flatMap(({ metadata }) => nodeOfRecord(metadata.name) ?? []));
  const isMarked = (node: NodeObject) => read(mark, node.metadata) !== undefined || isMarkedByOther(node);
  const list = { atMs, nodes: nodes.items.map((node) => parseClusterNode(node, recorded, isMarked(node))) };
  listed.set(cluster, list);
  return list.nodes;
}

async function listStranded(cluster: Cluster, node: string): Promise<readonly string[]> {
  const { items } = await cluster.list("pods", { nodeName: node });
  const stranded = items.filter((pod) => !isMirror(pod) && !tolerates(pod, emptyingTaint));
  return stranded.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`).sort();
}

/** Throws ClusterError: with code 409 where another client has written the Lease, or made it. */
export function writeSlots(
  { context: { cluster }, notAfterMs }: { readonly context: Pick<Context, "cluster">; readonly notAfterMs: number },
  namespace: string,
  { lease, contents }: SlotsStep,
): Promise<unknown> {
  const annotations = {
    [ledgerFormat.key]: knownFormat,
    [fenceSlots.key]: formatSlots(contents, cluster.serverTimeMs()),
  };
  if (lease !== undefined) {
    const body = { metadata: { ...lease, annotations } };
    return cluster.patch("leases", { namespace, name: slotsName }, body, { notAfterMs });
  }
  const body = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata: { name: slotsName, annotations } };
  return cluster.create("leases", namespace, body, { notAfterMs });
}
