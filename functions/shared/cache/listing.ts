/** Views made of LISTs, for processes that keep nothing between two events. */

import { podName, rolloutGroup } from "../annotations/table.ts";
import { clockSkewMs } from "../clock/skew.ts";
import { type HasPods, parseStoredBudget, type StoredBudget, surroundingsOf } from "../groups/governing.ts";
import { parseDisruptionBudget } from "../groups/pod-disruption-budget.ts";
import type { Cluster, ObjectKey } from "../kubernetes/cluster.ts";
import { find } from "../kubernetes/find.ts";
import { findOwnedZones } from "../volumes/owner-zones.ts";
import { notOf } from "../volumes/owners.ts";
import { parsePvc } from "../volumes/pvc.ts";
import { parseSuspendableSet } from "../volumes/suspendable-set.ts";
import { budgetOfGroup, isOwnerGroup, readGroup } from "../workloads/group-key.ts";
import { isStanding, type Pod, parsePod, statefulSetNameOf } from "../workloads/pods.ts";
import {
  type GroupKey,
  groupPathOf,
  type OwnedZone,
  parseStatefulSet,
  type StatefulSet,
} from "../workloads/statefulsets.ts";
import {
  type GroupCache,
  type GroupView,
  getPod,
  indexPods,
  listBudgets,
  listPods,
  selectorOf,
  type ViewNeed,
  viewOfIndex,
} from "./cache.ts";
import type { LookUps } from "./look-ups.ts";
import type { ListedStatefulSets } from "./statefulset-store.ts";

/** Views over the namespaces given, or over all when they are undefined. */
export function createListReader(cluster: Cluster, namespaces: readonly string[] | undefined): GroupCache {
  return {
    isLasting: false,
    async read(key, need) {
      if (isOwnerGroup(key.group)) return readOwnedView(cluster, key, need);
      // Only its label makes a StatefulSet a member of such a group.
      const isGivenByLabel = need.membersOnly === true && readGroup(key.group).kind === "labelled";
      const [listed, budgets] = await Promise.all([
        listStatefulSets(cluster, key.namespace),
        isGivenByLabel ? [] : listBudgets(cluster, key.namespace),
      ]);
      const stored = budgets.map(parseStoredBudget);
      const hasPods = await listOwners(cluster, key, stored);
      const surroundings = surroundingsOf(listed.statefulSets, key, stored, hasPods);
      if (need.membersOnly) return viewOfIndex(surroundings, listed, indexPods([]));
      const pods = await listPods(cluster, key, surroundings.workloads, need);
      return readBehindNewPods(cluster, key, viewOfIndex(surroundings, listed, pods), listed.askedMs);
    },
    learn() {},
    groups: (namespace, onRead) => listGroups(cluster, namespace === undefined ? namespaces : [namespace], onRead),
    groupOf: (namespace, name) => getGroupOf(cluster, namespace, name),
    pod: (key, lookUps = cluster) => getPod(lookUps, key),
    ownerOf: (pod, lookUps = cluster) => getOwnerOf(lookUps, pod),
    podsMadeFor: (statefulSet) => listPodsMadeFor(cluster, statefulSet),
    orphans: (namespace) => listOrphans(cluster, namespace),
    budgets: async (namespace) => (await listBudgets(cluster, namespace)).map(parseStoredBudget),
    disruptionBudgets: async (namespace) =>
      (await cluster.list("poddisruptionbudgets", { namespace })).items.map(parseDisruptionBudget),
  };
}

/**
 * Every StatefulSet of a namespace by a LIST: a consistent one, which is as good as a GET of each (rule R5), or one that is at
 * least as new as `notOlderThan`. Throws ClusterError.
 */
export async function listStatefulSets(
  cluster: Cluster,
  namespace: string,
  notOlderThan?: number,
): Promise<ListedStatefulSets> {
  const askedMs = cluster.monotonicMs();
  const oldest = notOlderThan === undefined ? {} : { notOlderThan: String(notOlderThan) };
  const { items, resourceVersion } = await cluster.list("statefulsets", { namespace, ...oldest });
  return {
    statefulSets: items.map(parseStatefulSet),
    revision: Number(resourceVersion),
    askedMs,
    isConsistent: notOlderThan === undefined,
  };
}

/** The StatefulSets whose pods a budget selects, for its group. One LIST, by its own selector. */
async function listOwners(
  cluster: Cluster,
  { namespace, group }: GroupKey,
  budgets: readonly StoredBudget[],
): Promise<HasPods | undefined> {
  const budget = budgets.find(({ name }) => name === budgetOfGroup(group));
  if (budget === undefined) return undefined;
  const labelSelector = selectorOf(Object.fromEntries(budget.matchLabels));
  const { items } = await cluster.list("pods", { namespace, ...(labelSelector === "" ? {} : { labelSelector }) });
  const owners = new Set(items.map((object) => parsePod(object).ownerUid));
  return ({ uid }, { name }) => name === budget.name && owners.has(uid);
}

/**
 * A view with some of its StatefulSets read once more, after its pods: what a pod runs that came since they were read may be what
 * they want by now, and it must not be taken for outdated (invariant Z3). `onRead` gets each. Throws ClusterError.
 */
export async function readAgain(
  cluster: Cluster,
  key: GroupKey,
  view: GroupView<StatefulSet>,
  behind: readonly StatefulSet[],
  onRead: (statefulSet: StatefulSet, readMs: number) => void = () => {},
): Promise<GroupView<StatefulSet>> {
  if (behind.length === 0) return view;
  const reads = await Promise.all(
    behind.map(async (known) => {
      const readMs = cluster.monotonicMs();
      const statefulSet = await getStatefulSet(cluster, known);
      if (statefulSet !== undefined) onRead(statefulSet, readMs);
      return statefulSet === undefined ? [] : [statefulSet];
    }),
  );
  const names = new Set(behind.map(({ name }) => name));
  const others = view.workloads.filter(({ name }) => !names.has(name));
  return {
    ...view,
    ...surroundingsOf([...others, ...reads.flat(), ...view.neighbours], key, view.budgets, view.hasPods),
  };
}

/**
 * The same of a view whose StatefulSets were listed: what pods run that were made since that was asked is read again. Memory
 * knows when a pod came; here its own time tells, and the clock that wrote it may differ from the one that we know. Throws
 * ClusterError.
 */
export function readBehindNewPods(
  cluster: Cluster,
  key: GroupKey,
  view: GroupView<StatefulSet>,
  askedMs: number,
): Promise<GroupView<StatefulSet>> {
  const newSinceMs = cluster.serverTimeMs() - (cluster.monotonicMs() - askedMs) - clockSkewMs;
  const behind = view.workloads.filter((one) =>
    [...view.podsOf(one)].some((pod) => pod.revision !== one.updateRevision && !(pod.createdMs < newSinceMs)),
  );
  return readAgain(cluster, key, view, behind);
}

/** The standing pods made for a StatefulSet of that name, its own or orphans, by a consistent LIST. Throws ClusterError. */
export async function listPodsMadeFor(cluster: Cluster, { namespace, name }: ObjectKey): Promise<Pod[]> {
  const isMadeFor = (pod: Pod) => statefulSetNameOf(pod.name) === name && (pod.orphaned || pod.ownerUid !== undefined);
  return (await listStanding(cluster, namespace)).filter(isMadeFor);
}

/** The standing pods that StatefulSets of a namespace have released, by a consistent LIST. Throws ClusterError. */
export async function listOrphans(cluster: Cluster, namespace: string): Promise<Pod[]> {
  return (await listStanding(cluster, namespace)).filter(({ orphaned }) => orphaned);
}

/** Those that were made for any StatefulSet: Kubernetes writes the name of a pod on these alone. */
async function listStanding(cluster: Cluster, namespace: string): Promise<Pod[]> {
  const { items } = await cluster.list("pods", { namespace, labelSelector: podName.key });
  return items.map(parsePod).filter(isStanding);
}

/** Every group of the namespaces, or of all, by a consistent LIST; `onRead` gets each member. Throws ClusterError. */
export async function listGroups(
  cluster: Cluster,
  namespaces: readonly string[] | undefined,
  onRead: (statefulSet: StatefulSet) => void = () => {},
): Promise<GroupKey[]> {
  const scopes = namespaces?.map((namespace) => ({ namespace })) ?? [{}];
  const lists = await Promise.all(
    scopes.map((scope) => cluster.list("statefulsets", { ...scope, labelSelector: rolloutGroup.key })),
  );
  const keys = new Map<string, GroupKey>();
  for (const object of lists.flatMap((list) => list.items)) {
    const statefulSet = parseStatefulSet(object);
    const { namespace, group } = statefulSet;
    if (group === undefined) continue;
    onRead(statefulSet);
    keys.set(groupPathOf({ namespace, group }), { namespace, group });
  }
  return [...keys.values()];
}

/** The group of a StatefulSet by one GET; undefined where it is gone or in none. Throws ClusterError. */
export async function getGroupOf(cluster: Cluster, namespace: string, name: string): Promise<GroupKey | undefined> {
  const group = (await getStatefulSet(cluster, { namespace, name }))?.group;
  return group === undefined ? undefined : { namespace, group };
}

/** The StatefulSet that controls a pod, by one GET of the name in the pod's owner reference. Throws ClusterError. */
export async function getOwnerOf(
  cluster: LookUps,
  { namespace, ownerUid, ownerName }: Pod,
): Promise<StatefulSet | undefined> {
  if (ownerUid === undefined || ownerName === undefined) return undefined;
  const owner = await getStatefulSet(cluster, { namespace, name: ownerName });
  return owner?.uid === ownerUid ? owner : undefined;
}

/** A StatefulSet by a GET; undefined where it is gone. Throws ClusterError. */
export async function getStatefulSet(cluster: LookUps, key: ObjectKey): Promise<StatefulSet | undefined> {
  const object = await find(cluster, "statefulsets", key);
  return object === undefined ? undefined : parseStatefulSet(object);
}

/**
 * The view of a group whose pods no StatefulSet controls (rule R1). No watch serves such a group: permits are seldom, and each
 * view costs three LISTs. Its members are known through the newest of its volume claims, which say the zones. Throws
 * ClusterError.
 */
export async function readOwnedView(
  cluster: Pick<Cluster, "list" | "monotonicMs">,
  key: GroupKey,
  { settledThrough }: Pick<ViewNeed, "settledThrough">,
): Promise<GroupView<OwnedZone>> {
  const { namespace } = key;
  const askedMs = cluster.monotonicMs();
  const [sets, pvcs, pods] = await Promise.all([
    cluster.list("statefulsets", { namespace }),
    cluster.list("persistentvolumeclaims", { namespace }),
    cluster.list("pods", { namespace }),
  ]);
  const own = notOf(sets.items.map(parseSuspendableSet), pvcs.items.map(parsePvc));
  const { zones, podsOf } = findOwnedZones(key, own, pods.items);
  const listedAt = Number(pods.resourceVersion);
  const { byName, seenThrough } = indexPods(pods.items, listedAt);
  return {
    workloads: zones,
    neighbours: [],
    budgets: [],
    statefulSetsReadMs: askedMs,
    podsOf: ({ uid }) => podsOf.get(uid) ?? [],
    pod: (name) => byName.get(name),
    // Rule R4: under a ledger without a decision, the LIST's own revision counts.
    seenThrough: settledThrough === undefined ? Math.max(seenThrough, listedAt) : seenThrough,
    membersThrough: Math.max(0, ...pvcs.items.map(({ metadata }) => Number(metadata.resourceVersion))),
    consistentAt: { pods: listedAt, statefulSets: Number(pvcs.resourceVersion) },
  };
}
