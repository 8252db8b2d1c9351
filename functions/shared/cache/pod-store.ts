/** The pods and StatefulSets in memory, fed by watches, from which a long-lived process decides. */

import { type HasPods, type StoredBudget, type Surroundings, selects } from "../groups/governing.ts";
import type { Cluster, PodObject, WatchEvent } from "../kubernetes/cluster.ts";
import { isStanding, type Pod, parsePod, statefulSetNameOf } from "../workloads/pods.ts";
import type { StatefulSet } from "../workloads/statefulsets.ts";
import type { GroupView, PodIndex } from "./cache.ts";
import { compareWithList, isUnchanged, pathOf } from "./compare-with-list.ts";
import { emptyMembership, type Membership, membersThrough } from "./statefulset-store.ts";
import {
  awaitProgress,
  newProgress,
  noteRelist,
  noteRevision,
  type Store,
  sameButRevision,
  type WatchProgress,
} from "./watch-progress.ts";

/** The pods of one owner at one moment. Views share it until one of these pods changes; a thousand pods are not copied twice. */
interface Moment {
  readonly pods: readonly Pod[];
  /** Made when it is first asked for. */
  byName: ReadonlyMap<string, Pod> | undefined;
}

/** What memory has of one owner. It is dropped with the owner's last pod. */
interface OwnerPods {
  /** By name. */
  readonly pods: Map<string, Pod>;
  /** Undefined while no view has been taken since they last changed. */
  moment: Moment | undefined;
  /** The largest resourceVersion of any change to one of them, deletions too (rule R8). */
  seenThrough: number;
  /** The revision at which a consistent LIST last said the same of them as this memory does. */
  confirmedAt: number;
  /** Monotonic time at which the last LIST was sent that confirmed them after silence. */
  confirmedMs: number;
}

/** The pods and StatefulSets of one namespace, or of all, by two watches. Its progress is that of the watch of pods. */
export interface GroupWatchMemory extends WatchProgress {
  readonly clock: Pick<Cluster, "monotonicMs">;
  readonly pods: Map<string, Pod>;
  /** By {@link ownerOf}. */
  readonly owners: Map<string, OwnerPods>;
  /** When each pod was first known here, by uid: what it runs was wanted by its StatefulSet at some time before. */
  readonly bornMs: Map<string, number>;
  readonly membership: Membership;
}

export function emptyMemory(clock: Pick<Cluster, "monotonicMs">): GroupWatchMemory {
  return {
    ...newProgress(clock.monotonicMs()),
    clock,
    pods: new Map(),
    owners: new Map(),
    bornMs: new Map(),
    membership: emptyMembership(clock.monotonicMs()),
  };
}

/** Cache key of a pod: the uid of its StatefulSet. An orphan's key is the StatefulSet's name, taken from the pod's name. */
function ownerOf(pod: Pod): string | undefined {
  return pod.ownerUid ?? (pod.orphaned ? orphansOf(pod.namespace, statefulSetNameOf(pod.name)) : undefined);
}

function ownerIn({ owners }: GroupWatchMemory, key: string): OwnerPods {
  const known = owners.get(key);
  if (known !== undefined) return known;
  const unknown = { moment: undefined, seenThrough: 0, confirmedAt: 0, confirmedMs: Number.NEGATIVE_INFINITY };
  const owner: OwnerPods = { pods: new Map(), ...unknown };
  owners.set(key, owner);
  return owner;
}

/** No uid holds a slash. */
function orphansOf(namespace: string, statefulSet: string): string {
  return `orphans of ${namespace}/${statefulSet}`;
}

/** The standing pods that were made for a StatefulSet of that name, its own as well as orphans. */
export function podsMadeFor(memory: GroupWatchMemory, namespace: string, statefulSet: string): readonly Pod[] {
  const isMadeFor = (pod: Pod) => pod.namespace === namespace && statefulSetNameOf(pod.name) === statefulSet;
  return [...memory.pods.values()].filter((pod) => isMadeFor(pod) && isStanding(pod));
}

/** The standing pods of a namespace that no StatefulSet controls any more. */
export function orphansIn(memory: GroupWatchMemory, namespace: string): readonly Pod[] {
  const prefix = orphansOf(namespace, "");
  const owners = [...memory.owners].filter(([key]) => key.startsWith(prefix));
  return owners.flatMap(([, { pods }]) => [...pods.values()].filter(isStanding));
}

/** Tells whether a budget selects any pod of an owner, at one moment. Each answer is computed once, however often it is asked. */
export function hasPodsIn(memory: GroupWatchMemory): HasPods {
  const known = new Map<StoredBudget, Map<string, boolean>>();
  return ({ uid }, budget) => {
    const answers = known.get(budget) ?? new Map<string, boolean>();
    known.set(budget, answers);
    const pods = memory.owners.get(uid)?.pods.values() ?? [];
    const answer = answers.get(uid) ?? [...pods].some(({ labels }) => selects(budget, labels));
    answers.set(uid, answer);
    return answer;
  };
}

/** Waits up to 250 ms until the watch has delivered all of these StatefulSets' pods that the ledger has accounted for. */
export function reaches(
  cluster: Pick<Cluster, "sleep">,
  memory: GroupWatchMemory,
  statefulSets: readonly StatefulSet[],
  revision: number,
): Promise<boolean> {
  const confirmed = () => Math.min(...statefulSets.map(({ uid }) => memory.owners.get(uid)?.confirmedAt ?? 0));
  return awaitProgress(
    cluster,
    memory,
    () => memory.reached >= revision || (statefulSets.length > 0 && confirmed() >= revision),
  );
}

/** Monotonic time at which the watch last delivered anything, or a LIST confirmed the pods of all these StatefulSets. */
export function lastEventOfPodsMs(memory: GroupWatchMemory, statefulSets: readonly Pick<StatefulSet, "uid">[]): number {
  const times = statefulSets.map(({ uid }) => memory.owners.get(uid)?.confirmedMs ?? Number.NEGATIVE_INFINITY);
  return times.length === 0 ? memory.lastEventMs : Math.max(memory.lastEventMs, Math.min(...times));
}

/**
 * Compares these StatefulSets' pods with a consistent LIST after the watch has been silent. If they are the same, the memory
 * counts as up to date for them. If they differ, the watch has died without an error, and is begun again with a list.
 */
export function confirm(
  memory: GroupWatchMemory,
  statefulSets: readonly StatefulSet[],
  pods: PodIndex,
  askedMs: number,
): void {
  if (!statefulSets.every(({ uid }) => isAsListed(memory, uid, pods))) {
    memory.relist.abort();
    return;
  }
  for (const { uid } of statefulSets) ownerIn(memory, uid).confirmedMs = askedMs;
}

/**
 * True when a pod of another revision became known after the StatefulSet was read. The StatefulSet may have been read before its
 * template changed, so that such a pod must not be taken for outdated.
 */
export function isBehindPods(
  memory: GroupWatchMemory,
  { updateRevision }: StatefulSet,
  pods: Iterable<Pod>,
  readMs: number,
): boolean {
  for (const { uid, revision } of pods) {
    if (revision !== updateRevision && (memory.bornMs.get(uid) ?? Number.POSITIVE_INFINITY) > readMs) return true;
  }
  return false;
}

/**
 * A view of the memory as it is at this moment. It must not move on with the memory: what a decision accounts for and the
 * revision that it writes for it (rule R8) have to be of one moment, also when the decision waits for a GET in between.
 */
export function viewOfMemory(
  memory: GroupWatchMemory,
  surroundings: Surroundings,
  statefulSetsReadMs: number | undefined,
): GroupView<StatefulSet> {
  const byOwner = new Map<string, Moment>();
  let seenThrough = 0;
  for (const { uid } of surroundings.workloads) {
    const owner = memory.owners.get(uid);
    if (owner === undefined) continue;
    owner.moment ??= { pods: [...owner.pods.values()], byName: undefined };
    byOwner.set(uid, owner.moment);
    seenThrough = Math.max(seenThrough, owner.seenThrough);
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
    membersThrough: membersThrough(memory.membership, surroundings.workloads),
    consistentAt: undefined,
  };
}

function putPod(memory: GroupWatchMemory, pod: Pod, key: string): void {
  const path = pathOf(pod);
  const known = memory.pods.get(path);
  if (known !== undefined && ownerOf(known) !== key) removePod(memory, known);
  if (known !== undefined && known.uid !== pod.uid) memory.bornMs.delete(known.uid);
  if (!memory.bornMs.has(pod.uid)) memory.bornMs.set(pod.uid, memory.clock.monotonicMs());
  memory.pods.set(path, pod);
  const owner = ownerIn(memory, key);
  owner.pods.set(pod.name, pod);
  noteChange(owner, pod.resourceVersion);
}

function removePod(memory: GroupWatchMemory, pod: Pod): void {
  memory.pods.delete(pathOf(pod));
  memory.bornMs.delete(pod.uid);
  // Memory keeps no pod without a key.
  const key = ownerOf(pod) as string;
  const owner = ownerIn(memory, key);
  owner.pods.delete(pod.name);
  noteChange(owner, pod.resourceVersion);
  if (owner.pods.size === 0) memory.owners.delete(key);
}

function noteChange(owner: OwnerPods, resourceVersion: number): void {
  owner.moment = undefined;
  owner.seenThrough = Math.max(owner.seenThrough, resourceVersion);
}

/**
 * Takes over what a consistent LIST knows better. Otherwise an event that was lost would be missing until the next event of its
 * object, and every decision in between would be made on a false state.
 */
export function learnPods(memory: GroupWatchMemory, statefulSets: readonly StatefulSet[], pods: PodIndex): void {
  for (const { uid } of statefulSets) {
    // Replies overtake each other: an older list would bring back what a newer one knew to be gone.
    if (pods.listedAt < (memory.owners.get(uid)?.confirmedAt ?? 0)) continue;
    const part = { known: [...(memory.owners.get(uid)?.pods.values() ?? [])], listed: pods.byOwner.get(uid) ?? [] };
    const { byName: names, listedAt } = pods;
    const { put, remove } = compareWithList({ byPath: memory.pods, ...part, names, listedAt, reached: memory.reached });
    for (const pod of put) putPod(memory, pod, uid);
    for (const pod of remove) removePod(memory, pod);
    if (isAsListed(memory, uid, pods)) ownerIn(memory, uid).confirmedAt = pods.listedAt;
  }
}

function isAsListed({ pods, owners }: GroupWatchMemory, ownerUid: string, { byOwner }: PodIndex): boolean {
  return isUnchanged(pods, owners.get(ownerUid)?.pods.size ?? 0, byOwner.get(ownerUid) ?? []);
}

/** Feeds the pods of a memory. It calls `changed` for each pod of which a decision reads something new. */
export function podStore(memory: GroupWatchMemory, changed: (pod: Pod) => void): Store<PodObject> {
  const { clock } = memory;
  return {
    replace(objects, resourceVersion) {
      const before = [...memory.pods.values()];
      const listed = objects.map(parsePod);
      const uids = new Set(listed.map(({ uid }) => uid));
      memory.pods.clear();
      memory.owners.clear();
      for (const uid of [...memory.bornMs.keys()]) if (!uids.has(uid)) memory.bornMs.delete(uid);
      for (const pod of listed) {
        const owner = ownerOf(pod);
        if (owner !== undefined) putPod(memory, pod, owner);
      }
      noteRelist(memory, Number(resourceVersion), clock.monotonicMs());
      for (const pod of [...before, ...memory.pods.values()]) changed(pod);
    },
    apply: (event) => applyEvent(memory, event, changed),
  };
}

function applyEvent(memory: GroupWatchMemory, event: WatchEvent<PodObject>, changed: (pod: Pod) => void): void {
  const nowMs = memory.clock.monotonicMs();
  if (event.type === "BOOKMARK") {
    noteRevision(memory, Number(event.resourceVersion), nowMs);
    return;
  }
  const pod = parsePod(event.object);
  const owner = ownerOf(pod);
  const known = memory.pods.get(pathOf(pod));
  noteRevision(memory, pod.resourceVersion, nowMs);
  // A list may have told more than the watch has got to.
  const confirmed = memory.owners.get(owner ?? "")?.confirmedAt ?? 0;
  if (pod.resourceVersion <= Math.max(known?.resourceVersion ?? 0, confirmed)) return;
  const isDeleted = event.type === "DELETED";
  if (!isDeleted && owner !== undefined) putPod(memory, pod, owner);
  else if (known !== undefined) removePod(memory, { ...known, resourceVersion: pod.resourceVersion });
  if (isDeleted || !sameButRevision(known, pod)) changed(known ?? pod);
}
