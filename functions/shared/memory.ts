/** The pods and StatefulSets that watches have told of: what a long-lived process decides from. */
import type { Cluster, PodObject, StatefulSetObject, WatchEvent } from "./cluster.ts";
import type { Surroundings } from "./governing.ts";
import { type Pod, parsePod } from "./pods.ts";
import { parseStatefulSet, type StatefulSet } from "./statefulsets.ts";
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
  /** The revision at which a consistent LIST last said the same of an owner's pods as this memory does. */
  readonly confirmedByOwner: Map<string, number>;
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
    confirmedByOwner: new Map(),
    statefulSets: new Map(),
    statefulSetsByUid: new Map(),
    reached: 0,
    heardMs: nowMs,
    waiting: new Set(),
    relist: new AbortController(),
  };
}

/** Waits a moment for the watch to tell of these StatefulSets' pods what the ledger has already accounted for. */
export async function reaches(
  cluster: Cluster,
  memory: Memory,
  statefulSets: readonly StatefulSet[],
  revision: number,
): Promise<boolean> {
  const confirmed = () => Math.min(...statefulSets.map(({ uid }) => memory.confirmedByOwner.get(uid) ?? 0));
  const reached = () => memory.reached >= revision || (statefulSets.length > 0 && confirmed() >= revision);
  if (reached()) return true;
  const givingUp = new AbortController();
  const caughtUp = () => {
    if (reached()) givingUp.abort("reached");
  };
  memory.waiting.add(caughtUp);
  await cluster.sleep(catchUpMs, givingUp.signal);
  memory.waiting.delete(caughtUp);
  return reached();
}

/**
 * After silence: where the memory says what a consistent LIST says, it is as good as heard from; where it does not, the
 * watch has died without a word and is begun again.
 */
export function confirm(memory: Memory, statefulSets: readonly StatefulSet[], pods: PodIndex, askedMs: number): void {
  const same = statefulSets.every(({ uid }) => saysTheSame(memory, uid, pods));
  if (same) memory.heardMs = Math.max(memory.heardMs, askedMs);
  else memory.relist.abort();
}

/**
 * A view of the memory as it is at this moment. It must not move on with the memory: what a decision accounts for and the
 * revision that it writes for it (rule R8) have to be of one moment, also when the decision waits for a GET in between.
 */
export function viewOfMemory(
  memory: Memory,
  surroundings: Surroundings,
  statefulSetsReadMs: number | undefined,
): GroupView {
  const byOwner = new Map<string, Moment>();
  let seenThrough = 0;
  for (const { uid } of surroundings.statefulSets) {
    byOwner.set(uid, momentOf(memory, uid));
    seenThrough = Math.max(seenThrough, memory.seenByOwner.get(uid) ?? 0);
  }
  return {
    ...surroundings,
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

function putPod(memory: Memory, pod: Pod): void {
  const path = `${pod.namespace}/${pod.name}`;
  const known = memory.pods.get(path);
  if (known !== undefined && known.ownerUid !== pod.ownerUid) removePod(memory, known);
  memory.pods.set(path, pod);
  const ownerUid = pod.ownerUid as string;
  const siblings = memory.podsByOwner.get(ownerUid) ?? new Map<string, Pod>();
  siblings.set(pod.name, pod);
  memory.podsByOwner.set(ownerUid, siblings);
  noteChange(memory, ownerUid, pod.resourceVersion);
}

function removePod(memory: Memory, pod: Pod): void {
  memory.pods.delete(`${pod.namespace}/${pod.name}`);
  const ownerUid = pod.ownerUid ?? "";
  const siblings = memory.podsByOwner.get(ownerUid);
  siblings?.delete(pod.name);
  noteChange(memory, ownerUid, pod.resourceVersion);
  if (siblings?.size !== 0) return;
  memory.podsByOwner.delete(ownerUid);
  memory.seenByOwner.delete(ownerUid);
  memory.confirmedByOwner.delete(ownerUid);
}

function noteChange(memory: Memory, ownerUid: string, resourceVersion: number): void {
  memory.moments.delete(ownerUid);
  memory.seenByOwner.set(ownerUid, Math.max(memory.seenByOwner.get(ownerUid) ?? 0, resourceVersion));
}

/**
 * Takes over what a consistent LIST knows better: an event that never came would else be missing until the next of its
 * object, and every sentence in between would be false. It never goes back: what the watch has told since is kept.
 */
export function learnPods(memory: Memory, statefulSets: readonly StatefulSet[], pods: PodIndex): void {
  for (const { uid } of statefulSets) {
    // Replies overtake each other: an older list would bring back what a newer one knew to be gone.
    if (pods.listedAt < (memory.confirmedByOwner.get(uid) ?? 0)) continue;
    for (const pod of pods.byOwner.get(uid) ?? []) {
      const known = memory.pods.get(`${pod.namespace}/${pod.name}`);
      // A pod that is not known may have been deleted since: only a list that is newer than the watch can tell.
      const isNews =
        known === undefined ? pods.listedAt >= memory.reached : known.resourceVersion < pod.resourceVersion;
      if (isNews) putPod(memory, pod);
    }
    for (const known of [...(memory.podsByOwner.get(uid)?.values() ?? [])]) {
      if (!pods.byName.has(known.name) && known.resourceVersion <= pods.listedAt) removePod(memory, known);
    }
    if (saysTheSame(memory, uid, pods)) memory.confirmedByOwner.set(uid, pods.listedAt);
  }
}

function saysTheSame(memory: Memory, ownerUid: string, pods: PodIndex): boolean {
  const known = memory.podsByOwner.get(ownerUid);
  const listed = pods.byOwner.get(ownerUid) ?? [];
  return (
    (known?.size ?? 0) === listed.length &&
    listed.every((pod) => known?.get(pod.name)?.resourceVersion === pod.resourceVersion)
  );
}

/** The same for the StatefulSets of a namespace. */
export function learnStatefulSets(memory: Memory, namespace: string, statefulSets: readonly StatefulSet[]): void {
  for (const statefulSet of statefulSets) learnStatefulSet(memory, statefulSet);
  const listed = new Set(statefulSets.map(({ uid }) => uid));
  for (const known of [...memory.statefulSets.values()]) {
    if (known.namespace !== namespace || listed.has(known.uid)) continue;
    memory.statefulSets.delete(`${known.namespace}/${known.name}`);
    memory.statefulSetsByUid.delete(known.uid);
  }
}

/** One StatefulSet as an answer of the API server has it, unless the watch has told of a newer state. */
export function learnStatefulSet(memory: Memory, statefulSet: StatefulSet): void {
  const known = memory.statefulSets.get(`${statefulSet.namespace}/${statefulSet.name}`);
  if (known !== undefined && Number(known.resourceVersion) >= Number(statefulSet.resourceVersion)) return;
  if (known !== undefined) memory.statefulSetsByUid.delete(known.uid);
  putStatefulSet(memory, statefulSet);
}

function putStatefulSet(memory: Memory, statefulSet: StatefulSet): void {
  memory.statefulSets.set(`${statefulSet.namespace}/${statefulSet.name}`, statefulSet);
  memory.statefulSetsByUid.set(statefulSet.uid, statefulSet);
}

/** Feeds the pods of a memory; `changed` hears of pods that look different to a decision. */
export function podStore(memory: Memory, cluster: Cluster, changed: (pod: Pod) => void): Store<PodObject> {
  const heard = (revision: number) => {
    memory.heardMs = cluster.monotonicMs();
    if (revision > memory.reached) memory.reached = revision;
    for (const waiting of memory.waiting) waiting();
  };
  return {
    replace(objects, resourceVersion) {
      const before = [...memory.pods.values()];
      memory.pods.clear();
      memory.podsByOwner.clear();
      memory.moments.clear();
      // This list may be older than one that was learnt from meanwhile: what that one accounted for is no longer shown.
      memory.seenByOwner.clear();
      memory.confirmedByOwner.clear();
      for (const pod of objects.map(parsePod)) if (pod.ownerUid !== undefined) putPod(memory, pod);
      heard(Number(resourceVersion));
      for (const pod of [...before, ...memory.pods.values()]) changed(pod);
    },
    apply(event) {
      if (event.type === "BOOKMARK") return heard(Number(event.resourceVersion));
      const pod = parsePod(event.object);
      const known = memory.pods.get(`${pod.namespace}/${pod.name}`);
      heard(pod.resourceVersion);
      // A list may have told more than the watch has got to.
      const confirmed = memory.confirmedByOwner.get(pod.ownerUid ?? "") ?? 0;
      if (pod.resourceVersion <= Math.max(known?.resourceVersion ?? 0, confirmed)) return;
      if (event.type === "DELETED" || pod.ownerUid === undefined) {
        if (known !== undefined) removePod(memory, { ...known, resourceVersion: pod.resourceVersion });
      } else putPod(memory, pod);
      if (event.type === "DELETED" || known === undefined || !sameButRevision(known, pod)) changed(known ?? pod);
    },
  };
}

/** Feeds the StatefulSets of a memory. */
export function statefulSetStore(
  memory: Memory,
  changed: (statefulSet: StatefulSet) => void,
): Store<StatefulSetObject> {
  return {
    replace(objects) {
      const before = [...memory.statefulSets.values()];
      memory.statefulSets.clear();
      memory.statefulSetsByUid.clear();
      for (const statefulSet of objects.map(parseStatefulSet)) putStatefulSet(memory, statefulSet);
      for (const statefulSet of [...before, ...memory.statefulSets.values()]) changed(statefulSet);
    },
    apply(event) {
      if (event.type === "BOOKMARK") return;
      const statefulSet = parseStatefulSet(event.object);
      const path = `${statefulSet.namespace}/${statefulSet.name}`;
      const known = memory.statefulSets.get(path);
      if (known !== undefined) memory.statefulSetsByUid.delete(known.uid);
      if (event.type === "DELETED") memory.statefulSets.delete(path);
      else putStatefulSet(memory, statefulSet);
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
