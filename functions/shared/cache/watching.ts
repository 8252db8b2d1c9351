/** Views kept in memory by watches, for processes that live: a decision that only waits costs no request. */

import { rolloutGroup } from "../annotations/table.ts";
import { BoundedMap } from "../base/bounded-map.ts";
import { parseStoredBudget, type StoredBudget, selects } from "../groups/governing.ts";
import { type PodDisruptionBudget, parseDisruptionBudget } from "../groups/pod-disruption-budget.ts";
import type { Cluster, PodDisruptionBudgetObject, Resource, ZoneBudgetObject } from "../kubernetes/cluster.ts";
import { isOwnerGroup } from "../workloads/group-key.ts";
import type { Pod } from "../workloads/pods.ts";
import { type GroupKey, parseStatefulSet, type StatefulSet } from "../workloads/statefulsets.ts";
import { type GroupCache, type GroupView, getPod, listBudgets, silentAfterMs, type ViewNeed } from "./cache.ts";
import { allListed, FirstLists } from "./first-lists.ts";
import { getGroupOf, getOwnerOf, listGroups, listPodsMadeFor, readOwnedView } from "./listing.ts";
import { ObjectStore, type StoreEvent } from "./object-store.ts";
import {
  emptyMemory,
  type GroupWatchMemory,
  lastEventOfPodsMs,
  orphansIn,
  podStore,
  podsMadeFor,
} from "./pod-store.ts";
import { readAsListed, readView, type StatefulSetRead } from "./read-view.ts";
import { type Reflection, reflect } from "./reflector.ts";
import { SharedReads } from "./shared-reads.ts";
import { lastEventOfSetsMs, learnStatefulSet, statefulSetStore } from "./statefulset-store.ts";

/** StatefulSets that were read one by one, including vanished ones. A forgotten one is read again. */
const rememberedReads = 100_000;

export interface WatchCache extends GroupCache {
  /** Resolves when the first lists are in memory: see {@link allListed}. */
  readonly ready: Promise<void>;
  /** How many watches there are. */
  readonly watches: number;
  /** How many pods are in memory. */
  readonly pods: number;
  /** The memory in which a namespace is. */
  memoryOf(namespace: string): GroupWatchMemory;
  /** The view that the first lists make, asked for since `askedMs`, once they are {@link ready}. Throws ClusterError. */
  readFirst(key: GroupKey, need: ViewNeed, askedMs: number): Promise<GroupView>;
  /** Ends the watches and resolves when none is left. */
  stop(): Promise<void>;
}

export interface WatchingOptions {
  readonly cluster: Cluster;
  /** The namespaces to watch; all of them when undefined. */
  readonly namespaces: readonly string[] | undefined;
  /** Also watch PodDisruptionBudgets, which evictions alone need; without, {@link GroupCache.disruptionBudgets} lists. */
  readonly disruptionBudgets?: boolean;
  /** Pods of one list that are kept, at most: where there are more, the list fails with code 413. Absent: any number. */
  readonly mostPods?: number;
  /** Called when an object of type `by` changed that a decision about the group may read. */
  readonly onChange: (key: GroupKey, by: Resource) => void;
  /** Called for each ZoneAwarePodDisruptionBudget that the watch delivers. */
  readonly onBudget?: (budget: StoredBudget, how: StoreEvent) => void;
  /** Called when a watch broke; it starts again by itself. */
  readonly onTrouble: (resource: Resource, error: unknown) => void;
}

/** Called when a watch reports a change in a namespace. Without a group, the change may concern any. */
type Listener = (namespace: string, group: string | undefined) => void;

/** What is watched of one namespace, or of all. */
interface Watched {
  readonly memory: GroupWatchMemory;
  readonly budgets: ObjectStore<StoredBudget, ZoneBudgetObject>;
  readonly disruptionBudgets: ObjectStore<PodDisruptionBudget, PodDisruptionBudgetObject>;
}

/**
 * Starts the watches and keeps them until {@link WatchCache.stop}: three, or four with `disruptionBudgets`, for each
 * namespace, or as many for all.
 */
export function createWatchCache(options: WatchingOptions): WatchCache {
  const { cluster, namespaces } = options;
  const listeners: Listener[] = [];
  const notify: Listener = (namespace, group) => {
    for (const listener of listeners) listener(namespace, group);
  };
  const stopping = new AbortController();
  const scopes = new Map<string, Watched>();
  const reads = new BoundedMap<string, StatefulSetRead>(rememberedReads);
  const loops: Promise<void>[] = [];
  const lists: FirstLists[] = [];
  for (const namespace of namespaces ?? [""]) {
    const watched = createWatched(options, notify);
    scopes.set(namespace, watched);
    const followings = followingsOf(watched, namespace, options, notify);
    const first = new FirstLists(cluster);
    lists.push(first);
    loops.push(...followings.map((one) => followFirst(options, one, first, stopping.signal)));
  }
  const scopeOf = (namespace: string): Watched => {
    const watched = scopes.get(namespace) ?? scopes.get("");
    if (watched === undefined) throw new Error(`namespace ${namespace} is not among the watched ones`);
    return watched;
  };
  const memoryOf = (namespace: string) => scopeOf(namespace).memory;
  const budgets = (namespace: string) =>
    scopeOf(namespace).budgets.read(namespace, () => listBudgets(cluster, namespace));
  return {
    isLasting: true,
    ready: allListed(lists),
    watches: loops.length,
    get pods() {
      return [...scopes.values()].reduce((sum, { memory }) => sum + memory.pods.size, 0);
    },
    memoryOf,
    async read(key, need) {
      if (isOwnerGroup(key.group)) return readOwnedView(cluster, key, need);
      const memory = memoryOf(key.namespace);
      // A caller that asks for consistent LISTs gets them of budgets as well.
      const stored = need.consistent
        ? (await listBudgets(cluster, key.namespace)).map(parseStoredBudget)
        : await budgets(key.namespace);
      return readView({ cluster, memory, reads }, stored, key, need);
    },
    onChange: (listener) => void listeners.push(listener),
    async readFirst(key, need, askedMs) {
      const memory = memoryOf(key.namespace);
      return readAsListed({ cluster, memory }, await budgets(key.namespace), key, need, askedMs);
    },
    learn(object) {
      const statefulSet = parseStatefulSet(object);
      reads.delete(`${statefulSet.namespace}/${statefulSet.name}`);
      const watched = scopes.get(statefulSet.namespace) ?? scopes.get("");
      if (watched !== undefined) learnStatefulSet(watched.memory.membership, statefulSet);
    },
    groups: (namespace, onRead) => listGroups(cluster, namespace === undefined ? namespaces : [namespace], onRead),
    groupOf: (namespace, name) => getGroupOf(cluster, namespace, name),
    ...readsOfOne(cluster, memoryOf),
    budgets,
    disruptionBudgets(namespace) {
      const list = async () => (await cluster.list("poddisruptionbudgets", { namespace })).items;
      return scopeOf(namespace).disruptionBudgets.read(namespace, list);
    },
    async stop() {
      stopping.abort();
      await Promise.all(loops);
    },
  };
}

/** Follows one type of objects in a namespace, and calls back for each object of its first list. */
function followFirst(
  { cluster, onTrouble }: WatchingOptions,
  following: Reflection,
  first: FirstLists,
  stopped: AbortSignal,
): Promise<void> {
  const onTroubleHere: WatchingOptions["onTrouble"] = (resource, error) => {
    first.failed(error);
    onTrouble(resource, error);
  };
  return reflect({ cluster, onTrouble: onTroubleHere }, following, stopped, first.expect());
}

/** Reads of one object: from memory, or by a request if the watch has been silent or memory lacks the object. */
function readsOfOne(
  cluster: Cluster,
  memoryOf: (namespace: string) => GroupWatchMemory,
): Pick<GroupCache, "pod" | "ownerOf" | "podsMadeFor" | "orphans"> {
  const podReads = new SharedReads<Pod | undefined>(cluster);
  const ownerReads = new SharedReads<StatefulSet | undefined>(cluster);
  const isRecent = (lastEventMs: number) => cluster.monotonicMs() - lastEventMs <= silentAfterMs;
  return {
    async pod({ namespace, name }, lookUps = cluster) {
      const memory = memoryOf(namespace);
      const kept = memory.pods.get(`${namespace}/${name}`);
      // A client can name any number of pods that do not exist, but memory has only so many: reads of those wait for no other.
      if (kept === undefined) return getPod(lookUps, { namespace, name });
      if (isRecent(lastEventOfPodsMs(memory, [{ uid: kept.ownerUid ?? "" }]))) return kept;
      return podReads.read(`${namespace}/${name}`, () => getPod(cluster, { namespace, name }));
    },
    async ownerOf(pod, lookUps = cluster) {
      const { membership } = memoryOf(pod.namespace);
      const kept = membership.byUid.get(pod.ownerUid ?? "");
      if (kept === undefined) return getOwnerOf(lookUps, pod);
      if (isRecent(lastEventOfSetsMs(membership, pod.namespace))) return kept;
      return ownerReads.read(kept.uid, () => getOwnerOf(cluster, pod));
    },
    async podsMadeFor({ namespace, name }) {
      const memory = memoryOf(namespace);
      const known = isRecent(memory.lastEventMs) ? podsMadeFor(memory, namespace, name) : [];
      // Memory may be behind, so that only a LIST proves that there are none.
      return known.length > 0 ? known : listPodsMadeFor(cluster, { namespace, name });
    },
    // Only their names are taken from memory, however old it is. The caller then reads each pod.
    orphans: async (namespace) => orphansIn(memoryOf(namespace), namespace),
  };
}

function createWatched({ cluster, onChange, onBudget }: WatchingOptions, notify: Listener): Watched {
  const memory = emptyMemory(cluster);
  const seen = (budget: StoredBudget, how: StoreEvent): void => {
    onBudget?.(budget, how);
    if (how === "ignored") return;
    for (const { namespace, group, podLabels } of memory.membership.byPath.values()) {
      if (group !== undefined && namespace === budget.namespace && selects(budget, podLabels))
        onChange({ namespace, group }, "zoneawarepoddisruptionbudgets");
    }
    notify(budget.namespace, undefined);
  };
  return {
    memory,
    budgets: new ObjectStore<StoredBudget, ZoneBudgetObject>({ clock: cluster, parse: parseStoredBudget, seen }),
    disruptionBudgets: new ObjectStore<PodDisruptionBudget, PodDisruptionBudgetObject>({
      clock: cluster,
      parse: parseDisruptionBudget,
      seen: ({ namespace }) => notify(namespace, undefined),
    }),
  };
}

function followingsOf(watched: Watched, namespace: string, options: WatchingOptions, notify: Listener): Reflection[] {
  const { memory, budgets, disruptionBudgets } = watched;
  const { cluster, onChange } = options;
  const query = namespace === "" ? {} : { namespace };
  const changedPod = (pod: Pod) => {
    const owner = pod.ownerUid === undefined ? undefined : memory.membership.byUid.get(pod.ownerUid);
    if (owner?.group !== undefined) onChange({ namespace: pod.namespace, group: owner.group }, "pods");
    if (owner !== undefined) return notify(pod.namespace, owner.group);
    // An orphan of a deleted StatefulSet counts in its group until it is gone itself. Its label may name the group.
    const group = pod.labels[rolloutGroup.key];
    if (group !== undefined) onChange({ namespace: pod.namespace, group }, "pods");
    notify(pod.namespace, group);
  };
  const changedStatefulSet = (statefulSet: StatefulSet) => {
    const { namespace, group } = statefulSet;
    if (group !== undefined) onChange({ namespace, group }, "statefulsets");
    notify(namespace, group);
  };
  const { membership } = memory;
  const atMost = options.mostPods === undefined ? {} : { atMost: options.mostPods };
  const pods = podStore(memory, changedPod);
  const sets = statefulSetStore(membership, cluster, changedStatefulSet);
  return [
    { resource: "pods", query, store: pods, optional: false, progress: memory, ...atMost },
    { resource: "statefulsets", query, store: sets, optional: false, progress: membership },
    { resource: "zoneawarepoddisruptionbudgets", query, store: budgets, optional: true },
    ...(options.disruptionBudgets
      ? [{ resource: "poddisruptionbudgets", query, store: disruptionBudgets, optional: false } as const]
      : []),
  ];
}
