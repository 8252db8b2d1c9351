/** Views made of LISTs, for functions that come and go: nothing is kept between two passes. */
import { type Cluster, hasCode } from "./cluster.ts";
import { type GroupKey, parseStatefulSet, type StatefulSet } from "./statefulsets.ts";
import { listPods, type Views, viewOfIndex } from "./views.ts";
import { rolloutGroup } from "./vocabulary.ts";

/** Views over the namespaces given, or over all when they are undefined. */
export function createListingViews(cluster: Cluster, namespaces: readonly string[] | undefined): Views {
  return {
    async read(key, need) {
      const readMs = cluster.monotonicMs();
      const statefulSets = await listStatefulSets(cluster, key);
      const pods = await listPods(cluster, key, statefulSets, need);
      return viewOfIndex(statefulSets, readMs, pods);
    },
    learn() {},
    groups: (namespace) => listGroups(cluster, namespace === undefined ? namespaces : [namespace]),
    groupOf: (namespace, name) => getGroupOf(cluster, namespace, name),
  };
}

/** The members of a group by a consistent LIST: as good as a GET of each (rule R5). Throws ClusterError. */
export async function listStatefulSets(cluster: Cluster, { namespace, group }: GroupKey): Promise<StatefulSet[]> {
  const { items } = await cluster.list("statefulsets", { namespace, labelSelector: `${rolloutGroup.key}=${group}` });
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
  try {
    const { group } = parseStatefulSet(await cluster.get("statefulsets", { namespace, name }));
    return group === undefined ? undefined : { namespace, group };
  } catch (error) {
    if (hasCode(error, 404)) return undefined;
    throw error;
  }
}
