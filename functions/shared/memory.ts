/** The pods and StatefulSets that watches have told of: what a long-lived process decides from. */
import type { Cluster, PodObject, StatefulSetObject, WatchEvent } from "./cluster.ts";
import { type Pod, parsePod } from "./pods.ts";
import { type GroupKey, parseStatefulSet, type StatefulSet } from "./statefulsets.ts";
import type { GroupView, PodIndex } from "./views.ts";

/** How long a decision waits for the memory to reach `settled-through` before it asks the API server for a LIST. */
const catchUpMs = 250;

/** The pods of one owner at one moment. Views share it until one of these pods changes; a thousand pods are not copied twice. */
interface Moment {
  readonly pods: readonly Pod[];
  /** Made when it is first asked for. */
  byName: ReadonlyMap<string, Pod> | undefined;
}

/** The pods and StatefulSets of one namespace, or of all, as two watches tell. */
export interface Memory {
  readonly pods: Map<string, Pod>;
  readonly podsByOwner: Map<string, Map<string, Pod>>;
  /** Of the owners whose pods have not changed since a view was last taken. */
  readonly moments: Map<string, Moment>;
  /** The largest resourceVersion of any change to a pod of that owner, deletions too (rule R8). */
  readonly seenByOwner: Map<string, number>;
  readonly statefulSets: Map<string, StatefulSet>;
  readonly statefulSetsByUid: Map<string, StatefulSet>;
  /** Up to which pod revision this memory is complete. */
  reached: number;
  /** When the pod watch last heard anything: a list, an event, a bookmark. */
  heardMs: number;
  readonly waiting: Set<() => void>;
  /** Aborted to begin the pod watch again with a list. */
  relist: AbortController;
}

export function emptyMemory(nowMs: number): Memory {
  return {
    pods: new Map(),
    podsByOwner: new Map(),
    moments: new Map(),
    seenByOwner: new Map(),
    statefulSets: new Map(),
    statefulSetsByUid: new Map(),
    reached: 0,
    heardMs: nowMs,
    waiting: new Set(),
    relist: new AbortController(),
  };
}

/** The StatefulSets of a group. */
export function membersOf(memory: Memory, key: GroupKey): StatefulSet[] {
  return [...memory.statefulSets.values()].filter(
    ({ namespace, group }) => namespace === key.namespace && group === key.group,
  );
}

/** Waits a moment for the watch to tell what the ledger has already accounted for. */
export async function reaches(cluster: Cluster, memory: Memory, revision: number): Promise<boolean> {
  if (memory.reached >= revision) return true;
  const givingUp = new AbortController();
  const caughtUp = () => {
    if (memory.reached >= revision) givingUp.abort();
  };
  memory.waiting.add(caughtUp);
  await cluster.sleep(catchUpMs, givingUp.signal);
  memory.waiting.delete(caughtUp);
  return memory.reached >= revision;
}

/**
 * After silence: where the memory says what a consistent LIST says, it is as good as heard from; where it does not, the
 * watch has died without a word and is begun again.
 */
export function confirm(memory: Memory, statefulSets: readonly StatefulSet[], pods: PodIndex, askedMs: number): void {
  const same = statefulSets.every(({ uid }) => {
    const known = memory.podsByOwner.get(uid);
    const listed = pods.byOwner.get(uid) ?? [];
    return (
      (known?.size ?? 0) === listed.length &&
      listed.every((pod) => known?.get(pod.name)?.resourceVersion === pod.resourceVersion)
    );
  });
  if (same) memory.heardMs = Math.max(memory.heardMs, askedMs);
  else memory.relist.abort();
}

/**
 * A view of the memory as it is at this moment. It must not move on with the memory: what a decision accounts for and the
 * revision that it writes for it (rule R8) have to be of one moment, also when the decision waits for a GET in between.
 */
export function viewOfMemory(
  memory: Memory,
  statefulSets: readonly StatefulSet[],
  statefulSetsReadMs: number | undefined,
): GroupView {
  const byOwner = new Map<string, Moment>();
  let seenThrough = 0;
  for (const { uid } of statefulSets) {
    byOwner.set(uid, momentOf(memory, uid));
    seenThrough = Math.max(seenThrough, memory.seenByOwner.get(uid) ?? 0);
  }
  return {
    statefulSets,
    statefulSetsReadMs,
    podsOf: ({ uid }) => byOwner.get(uid)?.pods ?? [],
    pod(name) {
      for (const moment of byOwner.values()) {
        moment.byName ??= new Map(moment.pods.map((pod) => [pod.name, pod]));
        const pod = moment.byName.get(name);
        if (pod !== undefined) return pod;
      }
      return undefined;
    },
    seenThrough,
  };
}

function momentOf(memory: Memory, ownerUid: string): Moment {
  const known = memory.moments.get(ownerUid);
  if (known !== undefined) return known;
  const siblings = memory.podsByOwner.get(ownerUid);
  if (siblings === undefined) return { pods: [], byName: undefined };
  const moment: Moment = { pods: [...siblings.values()], byName: undefined };
  memory.moments.set(ownerUid, moment);
  return moment;
}

/** What a watch feeds: the whole at a list, then change by change. */
export interface Store<T> {
  replace(objects: readonly T[], resourceVersion: string): void;
  apply(event: WatchEvent<T>): void;
}

/** Feeds the pods of a memory; `changed` hears of pods that look different to a decision. */
export function podStore(memory: Memory, cluster: Cluster, changed: (pod: Pod) => void): Store<PodObject> {
  const heard = (revision: number) => {
    memory.heardMs = cluster.monotonicMs();
    if (revision > memory.reached) memory.reached = revision;
    for (const waiting of memory.waiting) waiting();
  };
  const put = (pod: Pod) => {
    memory.pods.set(`${pod.namespace}/${pod.name}`, pod);
    const ownerUid = pod.ownerUid as string;
    const siblings = memory.podsByOwner.get(ownerUid) ?? new Map<string, Pod>();
    siblings.set(pod.name, pod);
    memory.podsByOwner.set(ownerUid, siblings);
    memory.moments.delete(ownerUid);
    memory.seenByOwner.set(ownerUid, Math.max(memory.seenByOwner.get(ownerUid) ?? 0, pod.resourceVersion));
  };
  const remove = (pod: Pod) => {
    memory.pods.delete(`${pod.namespace}/${pod.name}`);
    const ownerUid = pod.ownerUid ?? "";
    const siblings = memory.podsByOwner.get(ownerUid);
    siblings?.delete(pod.name);
    memory.moments.delete(ownerUid);
    if (siblings?.size === 0) memory.podsByOwner.delete(ownerUid);
    else memory.seenByOwner.set(ownerUid, Math.max(memory.seenByOwner.get(ownerUid) ?? 0, pod.resourceVersion));
    if (siblings?.size === 0) memory.seenByOwner.delete(ownerUid);
  };
  return {
    replace(objects, resourceVersion) {
      const before = [...memory.pods.values()];
      memory.pods.clear();
      memory.podsByOwner.clear();
      memory.moments.clear();
      for (const pod of objects.map(parsePod)) if (pod.ownerUid !== undefined) put(pod);
      heard(Number(resourceVersion));
      for (const pod of [...before, ...memory.pods.values()]) changed(pod);
    },
    apply(event) {
      if (event.type === "BOOKMARK") return heard(Number(event.resourceVersion));
      const pod = parsePod(event.object);
      const known = memory.pods.get(`${pod.namespace}/${pod.name}`);
      if (event.type === "DELETED" || pod.ownerUid === undefined) {
        if (known !== undefined) remove({ ...known, resourceVersion: pod.resourceVersion });
      } else put(pod);
      heard(pod.resourceVersion);
      if (event.type === "DELETED" || known === undefined || !sameButRevision(known, pod)) changed(known ?? pod);
    },
  };
}

/** Feeds the StatefulSets of a memory. */
export function statefulSetStore(
  memory: Memory,
  changed: (statefulSet: StatefulSet) => void,
): Store<StatefulSetObject> {
  const put = (statefulSet: StatefulSet) => {
    memory.statefulSets.set(`${statefulSet.namespace}/${statefulSet.name}`, statefulSet);
    memory.statefulSetsByUid.set(statefulSet.uid, statefulSet);
  };
  return {
    replace(objects) {
      const before = [...memory.statefulSets.values()];
      memory.statefulSets.clear();
      memory.statefulSetsByUid.clear();
      for (const statefulSet of objects.map(parseStatefulSet)) put(statefulSet);
      for (const statefulSet of [...before, ...memory.statefulSets.values()]) changed(statefulSet);
    },
    apply(event) {
      if (event.type === "BOOKMARK") return;
      const statefulSet = parseStatefulSet(event.object);
      const path = `${statefulSet.namespace}/${statefulSet.name}`;
      const known = memory.statefulSets.get(path);
      if (known !== undefined) memory.statefulSetsByUid.delete(known.uid);
      if (event.type === "DELETED") memory.statefulSets.delete(path);
      else put(statefulSet);
      if (event.type === "DELETED" || known === undefined || !sameButRevision(known, statefulSet)) {
        changed(statefulSet);
        if (known !== undefined && known.group !== statefulSet.group) changed(known);
      }
    },
  };
}

/** True when nothing changed that a decision reads: heartbeats and counters wake nobody. */
function sameButRevision(one: Pod | StatefulSet, other: Pod | StatefulSet): boolean {
  return JSON.stringify({ ...one, resourceVersion: 0 }) === JSON.stringify({ ...other, resourceVersion: 0 });
}
