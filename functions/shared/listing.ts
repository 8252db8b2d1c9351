/** Views made of LISTs, for functions that come and go: nothing is kept between two passes. */
import { type Cluster, hasCode, type ObjectKey } from "./cluster.ts";
import { parseDisruptionBudget } from "./disruption-budgets.ts";
import { parseStoredBudget, surroundingsOf } from "./governing.ts";
import type { Pod } from "./pods.ts";
import { type GroupKey, parseStatefulSet, type StatefulSet } from "./statefulsets.ts";
import { getPod, listBudgets, listDisruptionBudgets, listPods, type Views, viewOfIndex } from "./views.ts";
import { rolloutGroup } from "./vocabulary.ts";

/** Views over the namespaces given, or over all when they are undefined. */
export function createListingViews(cluster: Cluster, namespaces: readonly string[] | undefined): Views {
  return {
    async read(key, need) {
      const readMs = cluster.monotonicMs();
      const [all, budgets] = await Promise.all([
        listStatefulSets(cluster, key.namespace),
        listBudgets(cluster, key.namespace),
      ]);
      const surroundings = surroundingsOf(all, key, budgets.map(parseStoredBudget));
      const pods = await listPods(cluster, key, surroundings.statefulSets, need);
      return viewOfIndex(surroundings, readMs, pods);
    },
    learn() {},
    groups: (namespace) => listGroups(cluster, namespace === undefined ? namespaces : [namespace]),
    groupOf: (namespace, name) => getGroupOf(cluster, namespace, name),
    pod: (key) => getPod(cluster, key),
    ownerOf: (pod) => getOwnerOf(cluster, pod),
    budgets: async (namespace) => (await listBudgets(cluster, namespace)).map(parseStoredBudget),
    disruptionBudgets: async (namespace) =>
      (await listDisruptionBudgets(cluster, namespace)).map(parseDisruptionBudget),
  };
}

/** Every StatefulSet of a namespace by a consistent LIST: as good as a GET of each (rule R5). Throws ClusterError. */
export async function listStatefulSets(cluster: Cluster, namespace: string): Promise<StatefulSet[]> {
  const { items } = await cluster.list("statefulsets", { namespace });
  return items.map(parseStatefulSet);
}

/** Every group of the namespaces, or of all, by a consistent LIST. Throws ClusterError. */
export async function listGroups(cluster: Cluster, namespaces: readonly string[] | undefined): Promise<GroupKey[]> {
  const scopes = namespaces?.map((namespace) => ({ namespace })) ?? [{}];
  const lists = await Promise.all(
    scopes.map((scope) => cluster.list("statefulsets", { ...scope, labelSelector: rolloutGroup.key })),
  );
  const keys = new Map<string, GroupKey>();
  for (const object of lists.flatMap((list) => list.items)) {
    const { namespace, group } = parseStatefulSet(object);
    if (group !== undefined) keys.set(`${namespace}/${group}`, { namespace, group });
  }
  return [...keys.values()];
}

/** The group of a StatefulSet by one GET; undefined where it is gone or in none. Throws ClusterError. */
export async function getGroupOf(cluster: Cluster, namespace: string, name: string): Promise<GroupKey | undefined> {
  const group = (await getStatefulSet(cluster, { namespace, name }))?.group;
  return group === undefined ? undefined : { namespace, group };
}

/** The StatefulSet that controls a pod, by one GET of the name that the pod's own tells. Throws ClusterError. */
export async function getOwnerOf(
  cluster: Cluster,
  { namespace, name, ownerUid }: Pod,
): Promise<StatefulSet | undefined> {
  if (ownerUid === undefined) return undefined;
  const owner = await getStatefulSet(cluster, { namespace, name: name.replace(/-\d+$/, "") });
  return owner?.uid === ownerUid ? owner : undefined;
}

/** A StatefulSet by a GET; undefined where it is gone. Throws ClusterError. */
export async function getStatefulSet(cluster: Cluster, key: ObjectKey): Promise<StatefulSet | undefined> {
  try {
    return parseStatefulSet(await cluster.get("statefulsets", key));
  } catch (error) {
    if (hasCode(error, 404)) return undefined;
    throw error;
  }
}
