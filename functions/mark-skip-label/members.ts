/** The pods of an owner, by uids, because a label may also be on pods of others. */

import { read } from "../shared/annotations/entry.ts";
import { type SkipLabel, skipLabelledAt } from "../shared/annotations/skip-labels.ts";
import { fieldsOf } from "../shared/base/fields.ts";
import { clockSkewMs } from "../shared/clock/skew.ts";
import type { Cluster, Metadata, OtherObject, PodObject, Resource } from "../shared/kubernetes/cluster.ts";
import { listIfServed } from "../shared/kubernetes/find.ts";
import type { ReleasedPod } from "./decide.ts";

export interface MembersOf {
  readonly namespace: string;
  readonly uid: string;
  /** The types through which a chain of controllers may lead. */
  readonly resources: readonly Resource[];
  /** Label by which the pods are let go; undefined if the owner asks for none, or if its annotation is malformed. */
  readonly label: SkipLabel | undefined;
  /** Of a pod, by its uid: see {@link ReleasedPod.refusal}. */
  refusalOf(uid: string): string | undefined;
}

/** Most controllers between a pod and its owner. Real chains are shorter; the limit ends a ring of controllers. */
const longestChain = 10;

/** The pods whose chain of controllers leads to the uid, as consistent LISTs have them. Throws ClusterError. */
export async function findMembers(
  cluster: Pick<Cluster, "list" | "serverTimeMs">,
  of: MembersOf,
): Promise<readonly ReleasedPod[]> {
  const { namespace } = of;
  const { items: pods } = await cluster.list("pods", { namespace });
  // Listed after the pods, so that each pod's controller is in it, unless it is gone.
  const lists = await Promise.all(of.resources.map((resource) => listIfServed(cluster, resource, namespace)));
  const above = new Map(lists.flat().map((item) => [item.metadata.uid, item] as const));
  /** The controllers of a pod, up to the owner; undefined if they do not lead there. */
  const chainTo = (uid: string | undefined, steps = 0): readonly OtherObject[] | undefined => {
    const object = uid === undefined ? undefined : above.get(uid);
    if (uid === undefined || steps >= longestChain) return undefined;
    const own = object === undefined ? [] : [object];
    if (uid === of.uid) return own;
    const rest = object && chainTo(controllerOf(object.metadata), steps + 1);
    return rest && [...own, ...rest];
  };
  const nowMs = cluster.serverTimeMs();
  return pods.flatMap((pod) => {
    const chain = chainTo(controllerOf(pod.metadata));
    return chain === undefined ? [] : [memberOf(pod, chain, of, nowMs)];
  });
}

/** Why no label of that key may be added to a pod: it has one, or one of its controllers selects or creates pods by that key. */
function whyTaken(key: string, { metadata }: PodObject, chain: readonly OtherObject[]): string | undefined {
  const owner = chain.find(({ spec }) => isOwnKey(key, spec));
  if (owner !== undefined) return `${key} is in the selector or the template of ${owner.metadata.name}`;
  const text = metadata.labels?.[key];
  return text === undefined ? undefined : `it has the label ${key}=${text}, and no label is overwritten`;
}

/** True for a key of a selector or of a pod template, as StatefulSets have them. */
function isOwnKey(key: string, spec: unknown): boolean {
  const { selector, template } = fieldsOf(spec) ?? {};
  const { matchLabels, matchExpressions } = fieldsOf(selector) ?? {};
  const maps = [matchLabels, fieldsOf(fieldsOf(template)?.metadata)?.labels];
  const expressions: readonly unknown[] = Array.isArray(matchExpressions) ? matchExpressions : [];
  return (
    maps.some((map) => fieldsOf(map)?.[key] !== undefined) || expressions.some((one) => fieldsOf(one)?.key === key)
  );
}

function controllerOf({ ownerReferences }: Metadata): string | undefined {
  return ownerReferences?.find(({ controller }) => controller === true)?.uid;
}

function memberOf(
  pod: PodObject,
  chain: readonly OtherObject[],
  { label, refusalOf }: MembersOf,
  nowMs: number,
): ReleasedPod {
  const { metadata, status } = pod;
  const { name, uid, resourceVersion, deletionTimestamp, labels = {} } = metadata;
  const text = label && labels[label.key];
  const stamp = read(skipLabelledAt, metadata);
  return {
    name,
    uid,
    resourceVersion,
    isTerminating: deletionTimestamp !== undefined,
    mayRun: !["Pending", "Succeeded", "Failed"].includes(status?.phase ?? "Pending"),
    // Stop hooks check whether there is any text, even `false`, unless the owner names one.
    hasLabel: label?.value === undefined ? text !== undefined && text !== "" : text === label.value,
    ourKey: stamp?.key !== undefined && labels[stamp.key] !== undefined ? stamp.key : undefined,
    taken: label && whyTaken(label.key, pod, chain),
    // A stamp that is further ahead than clocks differ does not count.
    labelledMs: stamp !== undefined && stamp.atMs <= nowMs + clockSkewMs ? stamp.atMs : undefined,
    hasSeen: false,
    refusal: refusalOf(uid),
  };
}
