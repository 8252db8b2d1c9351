/** Views kept in memory by watches, for processes that live: a decision that only waits costs no request. */
import type { Cluster, Metadata, PodDisruptionBudgetObject, Resource, ZoneBudgetObject } from "./cluster.ts";
import { type PodDisruptionBudget, parseDisruptionBudget } from "./disruption-budgets.ts";
import { type Following, follow } from "./following.ts";
import { parseStoredBudget, type StoredBudget, selects, surroundingsOf } from "./governing.ts";
import { getGroupOf, getOwnerOf, getStatefulSet, listGroups, listStatefulSets } from "./listing.ts";
import {
  confirm,
  emptyMemory,
  learnPods,
  learnStatefulSet,
  learnStatefulSets,
  type Memory,
  podStore,
  reaches,
  type Store,
  statefulSetStore,
  viewOfMemory,
} from "./memory.ts";
import type { Pod } from "./pods.ts";
import { type Seen, Shelf } from "./shelf.ts";
import { type GroupKey, parseStatefulSet, type StatefulSet } from "./statefulsets.ts";
import {
  type GroupView,
  getPod,
  listBudgets,
  listDisruptionBudgets,
  listPods,
  rereadAfterMs,
  silentAfterMs,
  type ViewNeed,
  type Views,
  viewOfIndex,
} from "./views.ts";

export interface WatchingViews extends Views {
  /** Resolves when the first lists are in memory. */
  readonly ready: Promise<void>;
  /** Ends the watches and resolves when none is left. */
  stop(): Promise<void>;
}

export interface WatchingOptions {
  readonly cluster: Cluster;
  /** The namespaces to watch; all of them when undefined. */
  readonly namespaces: readonly string[] | undefined;
  /** Watch PodDisruptionBudgets too, which evictions alone are judged by; without, {@link Views.disruptionBudgets} lists. */
  readonly disruptionBudgets?: boolean;
  /** Called when something changed that a decision about the group may read. */
  readonly onChange: (key: GroupKey) => void;
  /** Called for each ZoneAwarePodDisruptionBudget that the watch tells of. */
  readonly onBudget?: (budget: StoredBudget, how: Seen) => void;
  /** Called when a watch broke; it is taken up again by itself. */
  readonly onTrouble: (resource: Resource, error: unknown) => void;
}

/** What is watched of one namespace, or of all. */
interface Watched {
  readonly memory: Memory;
  readonly budgets: Shelf<StoredBudget, ZoneBudgetObject>;
  readonly disruptionBudgets: Shelf<PodDisruptionBudget, PodDisruptionBudgetObject>;
}

/**
 * Starts the watches and keeps them until {@link WatchingViews.stop}: three, or four with `disruptionBudgets`, for each
 * namespace, or as many for all.
 */
export function createWatchingViews(options: WatchingOptions): WatchingViews {
  const { cluster, namespaces, onTrouble } = options;
  const stopping = new AbortController();
  const scopes = new Map<string, Watched>();
  const reads = new Map<string, StatefulSetRead>();
  const loops: Promise<void>[] = [];
  const listings: Promise<void>[] = [];
  for (const namespace of namespaces ?? [""]) {
    const watched = createWatched(options);
    scopes.set(namespace, watched);
    for (const following of followingsOf(watched, namespace, options)) {
      const listed = Promise.withResolvers<void>();
      listings.push(listed.promise);
      loops.push(follow({ cluster, memory: watched.memory, onTrouble }, following, stopping.signal, listed.resolve));
    }
  }
  const scopeOf = (namespace: string): Watched => {
    const watched = scopes.get(namespace) ?? scopes.get("");
    if (watched === undefined) throw new Error(`namespace ${namespace} is not among the watched ones`);
    return watched;
  };
  const budgets = (namespace: string) =>
    scopeOf(namespace).budgets.read(namespace, () => listBudgets(cluster, namespace));
  return {
    ready: Promise.all(listings).then(() => undefined),
    read: async (key, need) =>
      readView(cluster, scopeOf(key.namespace).memory, { reads, budgets: await budgets(key.namespace) }, key, need),
    learn(object) {
      const statefulSet = parseStatefulSet(object);
      reads.delete(`${statefulSet.namespace}/${statefulSet.name}`);
      const watched = scopes.get(statefulSet.namespace) ?? scopes.get("");
      if (watched !== undefined) learnStatefulSet(watched.memory, statefulSet);
    },
    groups: (namespace) => listGroups(cluster, namespace === undefined ? namespaces : [namespace]),
    groupOf: (namespace, name) => getGroupOf(cluster, namespace, name),
    pod: async ({ namespace, name }) =>
      scopeOf(namespace).memory.pods.get(`${namespace}/${name}`) ?? getPod(cluster, { namespace, name }),
    ownerOf: async (pod) =>
      scopeOf(pod.namespace).memory.statefulSetsByUid.get(pod.ownerUid ?? "") ?? getOwnerOf(cluster, pod),
    budgets,
    disruptionBudgets: (namespace) =>
      scopeOf(namespace).disruptionBudgets.read(namespace, () => listDisruptionBudgets(cluster, namespace)),
    async stop() {
      stopping.abort();
      await Promise.all(loops);
    },
  };
}

function createWatched({ cluster, onChange, onBudget }: WatchingOptions): Watched {
  const memory = emptyMemory(cluster.monotonicMs());
  const seen = (budget: StoredBudget, how: Seen): void => {
    onBudget?.(budget, how);
    if (how === "ignored") return;
    for (const { namespace, group, labels } of memory.statefulSets.values()) {
      if (group !== undefined && namespace === budget.namespace && selects(budget, labels))
        onChange({ namespace, group });
    }
  };
  return {
    memory,
    budgets: new Shelf<StoredBudget, ZoneBudgetObject>({ clock: cluster, parse: parseStoredBudget, seen }),
    disruptionBudgets: new Shelf<PodDisruptionBudget, PodDisruptionBudgetObject>({
      clock: cluster,
      parse: parseDisruptionBudget,
      seen: () => undefined,
    }),
  };
}

async function readView(
  cluster: Cluster,
  memory: Memory,
  { reads, budgets }: { readonly reads: Map<string, StatefulSetRead>; readonly budgets: readonly StoredBudget[] },
  key: GroupKey,
  need: ViewNeed,
): Promise<GroupView> {
  const permit = need.permitSinceMs !== undefined;
  let surroundings = surroundingsOf(memory.statefulSets.values(), key, budgets);
  let readMs: number | undefined;
  if (need.consistent) {
    readMs = cluster.monotonicMs();
    const all = await listStatefulSets(cluster, key.namespace);
    learnStatefulSets(memory, key.namespace, all);
    surroundings = surroundingsOf(all, key, budgets);
  } else if (need.permitSinceMs !== undefined) {
    const sinceMs = need.permitSinceMs;
    const { statefulSets: known, neighbours } = surroundings;
    const fresh = await Promise.all(known.map((one) => readStatefulSet(cluster, reads, one, sinceMs)));
    readMs = Math.min(cluster.monotonicMs(), ...fresh.map((read) => read.readMs));
    const found = fresh.flatMap(({ statefulSet }) => (statefulSet === undefined ? [] : [statefulSet]));
    surroundings = surroundingsOf([...found, ...neighbours], key, budgets);
  }
  const { statefulSets } = surroundings;
  const silent = permit && cluster.monotonicMs() - memory.heardMs > silentAfterMs;
  if (need.consistent || need.settledThrough === undefined || silent) {
    const askedMs = cluster.monotonicMs();
    const pods = await listPods(cluster, key, statefulSets, { ...need, consistent: true });
    if (silent) confirm(memory, statefulSets, pods, askedMs);
    learnPods(memory, statefulSets, pods);
    return viewOfIndex(surroundings, readMs, pods);
  }
  if (await reaches(cluster, memory, statefulSets, need.settledThrough))
    return viewOfMemory(memory, surroundings, readMs);
  return viewOfIndex(surroundings, readMs, await listPods(cluster, key, statefulSets, need));
}

interface StatefulSetRead {
  /** Undefined where it is gone. */
  readonly statefulSet: StatefulSet | undefined;
  /** When the GET was sent, by the monotonic clock. */
  readonly readMs: number;
}

/**
 * Rule R5: a StatefulSet by GET after the ledger was read. One GET serves for 3 s, as long as nobody else has written the
 * ledger since (`sinceMs`): what another function did in between it would have written there first.
 */
async function readStatefulSet(
  cluster: Cluster,
  reads: Map<string, StatefulSetRead>,
  known: StatefulSet,
  sinceMs: number,
): Promise<StatefulSetRead> {
  const path = `${known.namespace}/${known.name}`;
  const read = reads.get(path);
  const nowMs = cluster.monotonicMs();
  if (read?.statefulSet !== undefined && read.readMs >= sinceMs && nowMs - read.readMs <= rereadAfterMs) {
    const newer = Number(known.resourceVersion) > Number(read.statefulSet.resourceVersion);
    return newer ? { statefulSet: known, readMs: read.readMs } : read;
  }
  const fresh = { statefulSet: await getStatefulSet(cluster, known), readMs: nowMs };
  if (fresh.statefulSet === undefined) reads.delete(path);
  else reads.set(path, fresh);
  return fresh;
}

function followingsOf(watched: Watched, namespace: string, options: WatchingOptions): Following[] {
  const { memory, budgets, disruptionBudgets } = watched;
  const { cluster, onChange } = options;
  const query = namespace === "" ? {} : { namespace };
  const changedPod = (pod: Pod) => {
    const group = pod.ownerUid === undefined ? undefined : memory.statefulSetsByUid.get(pod.ownerUid)?.group;
    if (group !== undefined) onChange({ namespace: pod.namespace, group });
  };
  const changedStatefulSet = (statefulSet: StatefulSet) => {
    if (statefulSet.group !== undefined) onChange({ namespace: statefulSet.namespace, group: statefulSet.group });
  };
  const pods = podStore(memory, cluster, changedPod) as Store<{ readonly metadata: Metadata }>;
  const statefulSets = statefulSetStore(memory, changedStatefulSet) as Store<{ readonly metadata: Metadata }>;
  return [
    { resource: "pods", query, store: pods, optional: false },
    { resource: "statefulsets", query, store: statefulSets, optional: false },
    { resource: "zoneawarepoddisruptionbudgets", query, store: budgets.store, optional: true },
    ...(options.disruptionBudgets
      ? [{ resource: "poddisruptionbudgets", query, store: disruptionBudgets.store, optional: false } as const]
      : []),
  ];
}
