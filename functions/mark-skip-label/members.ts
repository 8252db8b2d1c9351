/** The pods of an owner, by uids: a label that they share with the pods of others says nothing. */
import type { Cluster, Metadata, PodObject, Resource } from "../shared/kubernetes/cluster.ts";
import { read, type SkipLabel, skipLabelledAt } from "../shared/objects/vocabulary/skip-labels.ts";
import { listOfType } from "../shared/pass/owners/kinds.ts";
import type { Member } from "./decide.ts";

export interface MembersOf {
  readonly namespace: string;
  readonly uid: string;
  /** The types through which a chain of controllers may lead. */
  readonly resources: readonly Resource[];
  /** The label by which the pods are let go; undefined where nobody can tell. */
  readonly label: SkipLabel | undefined;
  /** Of a pod, by its uid: see {@link Member.refusal}. */
  refusalOf(uid: string): string | undefined;
}

/** Longer chains are no owners' that anybody has; a ring of them ends. */
const longestChain = 10;
/** Clocks may differ by this much, in milliseconds; a stamp that is further ahead is none. */
const clockSkewMs = 10_000;

/** The pods whose chain of controllers leads to the uid, as consistent LISTs have them. Throws ClusterError. */
export async function findMembers(
  cluster: Pick<Cluster, "list" | "serverTimeMs">,
  of: MembersOf,
): Promise<readonly Member[]> {
  const { namespace } = of;
  const { items: pods } = await cluster.list("pods", { namespace });
  // After the pods, so that the controller of each that there was is in it, unless it is gone.
  const lists = await Promise.all(of.resources.map((resource) => listOfType(cluster, resource, namespace)));
  const above = new Map(
    lists.flatMap(({ items }) => items.map(({ metadata }) => [metadata.uid, controllerOf(metadata)])),
  );
  const leadsThere = (uid: string | undefined, steps = 0): boolean =>
    uid !== undefined && steps < longestChain && (uid === of.uid || leadsThere(above.get(uid), steps + 1));
  const nowMs = cluster.serverTimeMs();
  return pods.filter(({ metadata }) => leadsThere(controllerOf(metadata))).map((pod) => memberOf(pod, of, nowMs));
}

function controllerOf({ ownerReferences }: Metadata): string | undefined {
  return ownerReferences?.find(({ controller }) => controller === true)?.uid;
}

function memberOf({ metadata, status }: PodObject, { label, refusalOf }: MembersOf, nowMs: number): Member {
  const { name, uid, resourceVersion, deletionTimestamp, labels = {} } = metadata;
  const text = label && labels[label.key];
  const labelledMs = read(skipLabelledAt, metadata);
  return {
    name,
    uid,
    resourceVersion,
    isTerminating: deletionTimestamp !== undefined,
    mayRun: !["Pending", "Succeeded", "Failed"].includes(status?.phase ?? "Pending"),
    // Stop hooks ask whether there is any text, `false` too, unless the owner says which.
    hasLabel: label?.value === undefined ? text !== undefined && text !== "" : text === label.value,
    isOurs: metadata.annotations?.[skipLabelledAt.key] !== undefined,
    labelledMs: labelledMs !== undefined && labelledMs <= nowMs + clockSkewMs ? labelledMs : undefined,
    hasSeen: false,
    refusal: refusalOf(uid),
  };
}
