/** Views kept in memory by watches, for processes that live: a decision that only waits costs no request. */
import { type Cluster, hasCode, type PodObject, type StatefulSetObject } from "./cluster.ts";
import { getGroupOf, listGroups, listStatefulSets } from "./listing.ts";
import {
  confirm,
  emptyMemory,
  learnPods,
  learnStatefulSet,
  learnStatefulSets,
  type Memory,
  membersOf,
  podStore,
  reaches,
  type Store,
  statefulSetStore,
  viewOfMemory,
} from "./memory.ts";
import type { Pod } from "./pods.ts";
import { type GroupKey, parseStatefulSet, type StatefulSet } from "./statefulsets.ts";
import {
  type GroupView,
  listPods,
  rereadAfterMs,
  silentAfterMs,
  type ViewNeed,
  type Views,
  viewOfIndex,
} from "./views.ts";
import { rolloutGroup } from "./vocabulary.ts";

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
  /** Called when something changed that a decision about the group may read. */
  readonly onChange: (key: GroupKey) => void;
  /** Called when a watch broke; it is taken up again by itself. */
  readonly onTrouble: (resource: "pods" | "statefulsets", error: unknown) => void;
}

const longestBackoffMs = 10_000;

/** Starts the watches, two for each namespace or two for all, and keeps them until {@link WatchingViews.stop}. */
export function createWatchingViews(options: WatchingOptions): WatchingViews {
  const { cluster, namespaces } = options;
  const stopping = new AbortController();
  const memories = new Map<string, Memory>();
  const reads = new Map<string, StatefulSetRead>();
  const loops: Promise<void>[] = [];
  const listings: Promise<void>[] = [];
  for (const namespace of namespaces ?? [""]) {
    const memory = emptyMemory(cluster.monotonicMs());
    memories.set(namespace, memory);
    for (const following of followingsOf(memory, namespace, options)) {
      const listed = Promise.withResolvers<void>();
      listings.push(listed.promise);
      loops.push(followResource(options, following, memory, stopping.signal, listed.resolve));
    }
  }
  return {
    ready: Promise.all(listings).then(() => undefined),
    async read(key, need) {
      const memory = memories.get(key.namespace) ?? memories.get("");
      if (memory === undefined) throw new Error(`namespace ${key.namespace} is not among the watched ones`);
      return readView(cluster, memory, reads, key, need);
    },
    learn(object) {
      const statefulSet = parseStatefulSet(object);
      reads.delete(`${statefulSet.namespace}/${statefulSet.name}`);
      const memory = memories.get(statefulSet.namespace) ?? memories.get("");
      if (memory !== undefined) learnStatefulSet(memory, statefulSet);
    },
    groups: (namespace) => listGroups(cluster, namespace === undefined ? namespaces : [namespace]),
    groupOf: (namespace, name) => getGroupOf(cluster, namespace, name),
    async stop() {
      stopping.abort();
      await Promise.all(loops);
    },
  };
}

async function readView(
  cluster: Cluster,
  memory: Memory,
  reads: Map<string, StatefulSetRead>,
  key: GroupKey,
  need: ViewNeed,
): Promise<GroupView> {
  const permit = need.permitSinceMs !== undefined;
  let statefulSets = membersOf(memory, key);
  let readMs: number | undefined;
  if (need.consistent) {
    readMs = cluster.monotonicMs();
    statefulSets = await listStatefulSets(cluster, key);
    learnStatefulSets(memory, key, statefulSets);
  } else if (need.permitSinceMs !== undefined) {
    const sinceMs = need.permitSinceMs;
    const fresh = await Promise.all(statefulSets.map((known) => readStatefulSet(cluster, reads, known, sinceMs)));
    readMs = Math.min(cluster.monotonicMs(), ...fresh.map((read) => read.readMs));
    statefulSets = fresh.flatMap(({ statefulSet }) => (statefulSet?.group === key.group ? [statefulSet] : []));
  }
  const silent = permit && cluster.monotonicMs() - memory.heardMs > silentAfterMs;
  if (need.consistent || need.settledThrough === undefined || silent) {
    const askedMs = cluster.monotonicMs();
    const pods = await listPods(cluster, key, statefulSets, { ...need, consistent: true });
    if (silent) confirm(memory, statefulSets, pods, askedMs);
    learnPods(memory, statefulSets, pods);
    return viewOfIndex(statefulSets, readMs, pods);
  }
  if (await reaches(cluster, memory, statefulSets, need.settledThrough))
    return viewOfMemory(memory, statefulSets, readMs);
  return viewOfIndex(statefulSets, readMs, await listPods(cluster, key, statefulSets, need));
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

async function getStatefulSet(cluster: Cluster, { namespace, name }: StatefulSet): Promise<StatefulSet | undefined> {
  try {
    return parseStatefulSet(await cluster.get("statefulsets", { namespace, name }));
  } catch (error) {
    if (hasCode(error, 404)) return undefined;
    throw error;
  }
}

interface Following {
  readonly resource: "pods" | "statefulsets";
  readonly query: { readonly namespace?: string; readonly labelSelector?: string };
  readonly store: Store<PodObject | StatefulSetObject>;
}

function followingsOf(memory: Memory, namespace: string, { cluster, onChange }: WatchingOptions): Following[] {
  const scope = namespace === "" ? {} : { namespace };
  const changedPod = (pod: Pod) => {
    const group = pod.ownerUid === undefined ? undefined : memory.statefulSetsByUid.get(pod.ownerUid)?.group;
    if (group !== undefined) onChange({ namespace: pod.namespace, group });
  };
  const changedStatefulSet = (statefulSet: StatefulSet) => {
    if (statefulSet.group !== undefined) onChange({ namespace: statefulSet.namespace, group: statefulSet.group });
  };
  const pods = podStore(memory, cluster, changedPod) as Store<PodObject | StatefulSetObject>;
  const statefulSets = statefulSetStore(memory, changedStatefulSet) as Store<PodObject | StatefulSetObject>;
  return [
    { resource: "pods", query: scope, store: pods },
    { resource: "statefulsets", query: { ...scope, labelSelector: rolloutGroup.key }, store: statefulSets },
  ];
}

/** Lists and watches until stopped, whatever breaks; a revision that is too old begins again with a list. */
async function followResource(
  options: WatchingOptions,
  { resource, query, store }: Following,
  memory: Memory,
  stopped: AbortSignal,
  listed: () => void,
): Promise<void> {
  const { cluster, onTrouble } = options;
  let backoffMs = 0;
  let resourceVersion: string | undefined;
  while (!stopped.aborted) {
    if (resource === "pods") memory.relist = new AbortController();
    const signal = resource === "pods" ? AbortSignal.any([stopped, memory.relist.signal]) : stopped;
    try {
      if (resourceVersion === undefined) {
        const list = await cluster.list(resource, query, { signal });
        store.replace(list.items, list.resourceVersion);
        resourceVersion = list.resourceVersion;
        listed();
      }
      for await (const event of cluster.watch(resource, { ...query, resourceVersion }, { signal })) {
        resourceVersion = event.type === "BOOKMARK" ? event.resourceVersion : event.object.metadata.resourceVersion;
        store.apply(event);
        backoffMs = 0;
      }
    } catch (error) {
      if (stopped.aborted) return;
      if (signal.aborted || hasCode(error, 410)) {
        resourceVersion = undefined;
        continue;
      }
      onTrouble(resource, error);
      backoffMs = Math.min(longestBackoffMs, backoffMs * 2 + 100);
      await cluster.sleep(backoffMs, stopped);
    }
  }
}
