/** A StatefulSet that wants its queues rebalanced: itself, its pods, and the RabbitmqCluster that it belongs to. */

import { hash } from "node:crypto";
import { healthQuestion, healthSecret } from "../shared/annotations/health.ts";
import {
  queueRebalanceNeededAt,
  rebalanceSecret,
  rebalanceState,
  wantsRebalance,
} from "../shared/annotations/rebalancing.ts";
import { type Malformed, read } from "../shared/annotations/table.ts";
import { parseDuration, setting } from "../shared/base/settings.ts";
import type { Context } from "../shared/contract/context.ts";
import type { ObjectRef } from "../shared/contract/keys.ts";
import { type Wait, wait } from "../shared/contract/verdict.ts";
import {
  type Cluster,
  type Metadata,
  type PodObject,
  resources,
  type StatefulSetObject,
} from "../shared/kubernetes/cluster.ts";
import { find } from "../shared/kubernetes/find.ts";
import { type Pod, parsePod } from "../shared/workloads/pods.ts";
import { parseStatefulSet, type StatefulSet } from "../shared/workloads/statefulsets.ts";
import type { Nodes, RebalanceEndpoint, RebalanceSnapshot } from "./decide.ts";

export const name = "rebalance-queues";
export const settings = {
  rebalanceAfterMs: setting<number>({
    name: "REBALANCE_AFTER",
    fallback: "60s",
    meaning: "for how long a RabbitMQ cluster must have been whole and the same before its queues are rebalanced",
    grammar: "a Go duration from 1s to 1h",
    parse: (text) => parseDuration(text, 1_000, 3_600_000),
  }),
};

export interface QueueObservation {
  readonly statefulSet: StatefulSet;
  readonly object: StatefulSetObject;
  /** What is malformed of what this function alone reads of it. */
  readonly malformed: readonly Malformed[];
  readonly snapshot: Omit<RebalanceSnapshot, "settleMs">;
}

/** The StatefulSets that have the label, whatever it says. Throws ClusterError. */
export async function listKeys({ cluster }: Context, namespace: string | undefined): Promise<readonly ObjectRef[]> {
  const scope = namespace === undefined ? {} : { namespace };
  const { items } = await cluster.list("statefulsets", { ...scope, labelSelector: wantsRebalance.key });
  return items.map(({ metadata }) => ({
    resource: "statefulsets",
    namespace: metadata.namespace ?? "",
    name: metadata.name,
  }));
}

/** False also for a StatefulSet that is gone. Throws ClusterError. */
export async function isLabelled(cluster: Pick<Cluster, "get">, key: ObjectRef): Promise<boolean> {
  const object = await find(cluster, "statefulsets", key);
  return object?.metadata.labels?.[wantsRebalance.key] !== undefined;
}

/** Undefined for one that is gone, or does not ask. Where nothing can be done, nothing more is read. Throws ClusterError. */
export async function observe(
  { cluster }: Pick<Context, "cluster">,
  key: ObjectRef,
): Promise<QueueObservation | undefined> {
  const object = await find(cluster, "statefulsets", key);
  if (object?.metadata.labels?.[wantsRebalance.key] === undefined) return undefined;
  const { metadata } = object;
  const malformed: Malformed[] = [];
  const isAsked = read(wantsRebalance, metadata, malformed);
  if (isAsked === false) return undefined;
  const statefulSet = parseStatefulSet(object);
  const { name: zone, uid, replicas } = statefulSet;
  const endpoint = isAsked
    ? endpointOf(metadata, statefulSet, malformed)
    : wait("label-malformed", `label ${wantsRebalance.key} of ${zone} says neither true nor false`, { zone });
  const state = read(rebalanceState, metadata, malformed);
  const neededMs = read(queueRebalanceNeededAt, metadata, malformed);
  const isEndless = "kind" in endpoint || replicas < 2;
  const nodes = isEndless ? "its nodes were not read" : await observeNodes(cluster, object, statefulSet);
  const operatorMs = typeof nodes === "string" ? undefined : await observeMark(cluster, metadata);
  const times = [neededMs, operatorMs].filter((ms) => ms !== undefined);
  const wantedMs = times.length === 0 ? undefined : Math.max(...times);
  const request = { state, wantedMs, operatorMs, nowMs: cluster.serverTimeMs() };
  return { statefulSet, object, malformed, snapshot: { name: zone, uid, replicas, endpoint, nodes, ...request } };
}

/** Where its nodes are asked, as for a health question. */
function endpointOf(metadata: Metadata, statefulSet: StatefulSet, malformed: Malformed[]): RebalanceEndpoint | Wait {
  const { name: zone, question, serviceName: service } = statefulSet;
  const ask = question?.ask;
  const how = `write annotation ${healthQuestion.key}: rabbitmq, and ${healthSecret.key} with the name of a Secret`;
  if (question === undefined)
    return wait("not-rabbitmq", `nothing says that ${zone} is a RabbitMQ cluster: ${how}`, { zone });
  if (ask !== undefined && ask.product !== "rabbitmq")
    return wait("not-rabbitmq", `the pods of ${zone} are asked as ${ask.product}, not as RabbitMQ: ${how}`, { zone });
  const own = read(rebalanceSecret, metadata, malformed);
  const wrong = malformed[0] ?? (ask === undefined ? question.malformed[0] : undefined);
  if (ask === undefined || wrong !== undefined) {
    const message = wrong?.message ?? "its question is malformed";
    return wait("question-malformed", `the nodes of ${zone} cannot be asked: ${message}`, { zone });
  }
  return { url: ask.url, service, secret: own ?? ask.secret, authority: ask.authority };
}

/** The status is enough to tell that a cluster is not whole; the pods tell that it is. */
async function observeNodes(
  cluster: Pick<Cluster, "list">,
  { metadata, status }: StatefulSetObject,
  statefulSet: StatefulSet,
): Promise<Nodes | string> {
  const { namespace, uid, replicas, readyReplicas, countedReplicas, strategy, matchLabels } = statefulSet;
  const { updateRevision, currentRevision } = statefulSet;
  if ((status?.observedGeneration ?? 0) < (metadata.generation ?? 0)) return "its controller is yet to see its change";
  if (readyReplicas < replicas || countedReplicas !== replicas)
    return `${readyReplicas} of ${replicas} pods are ready, of ${countedReplicas} that there are`;
  const labelSelector = Object.entries(matchLabels).map(([key, value]) => `${key}=${value}`);
  const selected = labelSelector.length === 0 ? {} : { labelSelector: labelSelector.join(",") };
  const { items } = await cluster.list("pods", { namespace, ...selected });
  const parsed = items.map((item) => ({ item, pod: parsePod(item) }));
  const own = parsed.filter(({ pod }) => pod.ownerUid === uid).sort((a, b) => a.pod.ordinal - b.pod.ordinal);
  const unready = own.find(({ pod }) => pod.readySinceMs === undefined);
  if (unready !== undefined) return `${unready.pod.name} is ${unready.pod.terminating ? "terminating" : "not ready"}`;
  if (own.length !== replicas) return `${own.length} of ${replicas} pods are there`;
  // The controller never makes the revisions equal where it does not roll: there the pods tell.
  const updated = own.filter(({ pod }) => pod.revision === updateRevision).length;
  const isSplit = updated > 0 && updated < own.length;
  const isMixed = strategy === "OnDelete" ? isSplit : updateRevision !== currentRevision;
  return { digest: digestOf(uid, own), pods: own.map(({ pod }) => pod.name), isMixed };
}

/** A node whose container has started again was away as one whose pod was replaced. */
function digestOf(uid: string, own: readonly { readonly item: PodObject; readonly pod: Pod }[]): string {
  const lives = own.map(({ item, pod }) => {
    const starts = item.status?.containerStatuses?.reduce((sum, { restartCount = 0 }) => sum + restartCount, 0) ?? 0;
    return `${pod.uid} ${starts}`;
  });
  return hash("sha256", [uid, ...lives.sort()].join("\n")).slice(0, 16);
}

/** The mark on the RabbitmqCluster that controls the StatefulSet; undefined without one that can be read. */
async function observeMark(cluster: Pick<Cluster, "get">, metadata: Metadata): Promise<number | undefined> {
  const { kind, group } = resources.rabbitmqclusters;
  const owner = metadata.ownerReferences?.find((one) => one.controller === true);
  if (owner?.kind !== kind || owner.apiVersion?.split("/")[0] !== group) return undefined;
  const key = { namespace: metadata.namespace ?? "", name: owner.name };
  const object = await find(cluster, "rabbitmqclusters", key);
  if (object?.metadata.uid !== owner.uid) return undefined;
  return read(queueRebalanceNeededAt, object.metadata);
}

/** True where a RabbitmqCluster controls it: whatever is copied onto it is copied again. */
export function isOfOperator({ metadata }: StatefulSetObject): boolean {
  return (
    metadata.ownerReferences?.some((one) => one.controller && one.kind === resources.rabbitmqclusters.kind) ?? false
  );
}
