/** What is read of a node and its fence, all of it by GETs and LISTs of now: an event is only a hint. */

import { randomUUID } from "node:crypto";
import { fenceId as fenceIdEntry, fenceRecord, outOfServiceTaint } from "../shared/annotations/fencing.ts";
import { agentName, isReservedName, recordName } from "../shared/annotations/fencing-leases.ts";
import type { Malformed } from "../shared/annotations/table.ts";
import { valuesOf } from "../shared/base/settings.ts";
import type { Context } from "../shared/contract/context.ts";
import type { ObjectRef } from "../shared/contract/keys.ts";
import { markOf } from "../shared/fencing/mark.ts";
import { fenceNamespace } from "../shared/fencing/settings.ts";
import type { NodeObject } from "../shared/kubernetes/cluster.ts";
import { find } from "../shared/kubernetes/find.ts";
import type { ObjectAttempt } from "../shared/reconcile/reconcile-object.ts";
import { isMirror, tolerates } from "./bound-pods.ts";
import { brakeSettings } from "./brake-settings.ts";
import { needsBound } from "./decide.ts";
import { deletionView } from "./deletion.ts";
import { type ClaimWrite, readLedgers } from "./ledgers.ts";
import { readMarks, surveyMachines } from "./machines.ts";
import { markSettings } from "./mark-settings.ts";
import { measureFences } from "./measures.ts";
import { outOfServiceValue, parseAgent, parseNode, parseRecord, withMarks } from "./record.ts";
import { readBrakes } from "./slots.ts";
import type { FenceSnapshot, FenceVerdict } from "./snapshot.ts";
import { proposalFor, surveyAgents } from "./survey-agents.ts";
import { beginOf, readTime } from "./time-view.ts";

export const name = "fence-node";

export const settings = { fenceNamespace, ...brakeSettings, ...markSettings };

/** A node as it was read, and what a decision makes of it. */
export interface FenceObservation {
  readonly snapshot: FenceSnapshot;
  /** Undefined where it is gone. */
  readonly object: NodeObject | undefined;
  readonly malformed: readonly Malformed[];
  /** The ledger that a step announces the fence in; absent: there is none. */
  readonly nextWrite?: ClaimWrite | undefined;
}

export type FenceAttempt = ObjectAttempt<FenceObservation, FenceVerdict>;

/** The namespace in which the Leases of fences and agents are. */
export function fencingNamespace(context: Context): string {
  return valuesOf(settings, context.settings).fenceNamespace;
}

const nodeKey = (node: string): ObjectRef => ({ resource: "nodes", namespace: "", name: node });

/** The nodes that have a mark or a record, or whose agents should have other peers. Throws ClusterError. */
export async function listKeys(context: Context): Promise<readonly ObjectRef[]> {
  const { cluster } = context;
  const namespace = fencingNamespace(context);
  const [nodes, records, ofMachines] = await Promise.all([
    cluster.list("nodes", { metadataOnly: true }),
    cluster.list("leases", { namespace, labelSelector: `${fenceRecord.key}=true` }),
    surveyMachines(context),
  ]);
  const { key } = markOf(context);
  context.reporter.fences(measureFences(records.items));
  const marked = nodes.items.filter(({ metadata }) => metadata.annotations?.[key] !== undefined);
  const recorded = records.items.map(({ metadata }) => metadata.name.replace(/^fence-/, ""));
  const proposed = await surveyAgents(context, namespace, nodes.items);
  const names = new Set([...marked.map(({ metadata }) => metadata.name), ...ofMachines, ...recorded, ...proposed]);
  return [...names].map(nodeKey);
}

/** Throws ClusterError. */
export async function observe(context: Context, key: ObjectRef): Promise<FenceObservation> {
  const { cluster } = context;
  const namespace = fencingNamespace(context);
  const malformed: Malformed[] = [];
  const began = beginOf(cluster);
  // The record first: a Node that is read after it is no older than what the record says of it.
  const lease = isReservedName(key.name)
    ? undefined
    : await find(cluster, "leases", { namespace, name: recordName(key.name) });
  const [object, agentLease] = await Promise.all([
    find(cluster, "nodes", key),
    find(cluster, "leases", { namespace, name: agentName(key.name) }),
  ]);
  const record = lease && parseRecord(lease);
  const own = object && parseNode(object, markOf(context), malformed);
  const marks = await readMarks(context, object, { record, node: own }, malformed);
  const node = own && withMarks(own, marks);
  const agent = agentLease && parseAgent(agentLease);
  const fenceId = record === undefined || record === "unreadable" ? "" : record.fenceId;
  const nowMs = cluster.serverTimeMs();
  const brakes = await readBrakes(context, valuesOf(settings, context.settings), {
    name: key.name,
    node,
    record,
    nowMs,
  });
  const anchor = { resource: "leases", namespace, name: recordName(key.name), annotation: fenceIdEntry.key };
  const ledgers = await readLedgers(context, { by: name, node: key.name, anchor }, { record, node });
  const snapshot: FenceSnapshot = {
    nowMs,
    name: key.name,
    node,
    record,
    agent,
    proposal: proposalFor(context, key.name),
    time: await readTime(context, { key, namespace }, began, { node, record, agent }),
    bound: needsBound({ record, node }) ? await listBound(context, key.name, fenceId) : [],
    brakes,
    deletion: deletionView(object, record, malformed, markOf(context)),
    ledgers: ledgers?.seen,
    newFenceId: randomUUID(),
  };
  return { snapshot, object, malformed, nextWrite: ledgers?.nextWrite };
}

/** The pods that are bound to a node and have to go, and its VolumeAttachments, by name. Throws ClusterError. */
async function listBound({ cluster }: Context, node: string, fenceId: string): Promise<readonly string[]> {
  const [pods, attachments] = await Promise.all([
    cluster.list("pods", { nodeName: node }),
    cluster.list("volumeattachments", {}),
  ]);
  const going = pods.items.filter(
    (pod) => !isMirror(pod) && !tolerates(pod, { ...outOfServiceTaint, value: outOfServiceValue(fenceId) }),
  );
  const attached = attachments.items.filter(({ spec }) => spec?.nodeName === node);
  return [
    ...going.map(({ metadata }) => `pod ${metadata.namespace}/${metadata.name}`),
    ...attached.map(({ metadata }) => `VolumeAttachment ${metadata.name}`),
  ].sort();
}
