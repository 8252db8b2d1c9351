/** The StatefulSets in memory, fed by a watch, and how new that knowledge is (rule R5). */
import type { Cluster, StatefulSetObject, WatchEvent } from "../kubernetes/cluster.ts";
import { parseStatefulSet, type StatefulSet } from "../workloads/statefulsets.ts";
import { compareWithList, isUnchanged, pathOf, revisionOf } from "./compare-with-list.ts";
import {
  isSame,
  newProgress,
  noteRelist,
  noteRevision,
  type Store,
  sameButRevision,
  type WatchProgress,
} from "./watch-progress.ts";

/** The StatefulSets of one namespace, or of all, as a watch delivers them. */
export interface Membership extends WatchProgress {
  /** By `NAMESPACE/NAME`. */
  readonly byPath: Map<string, StatefulSet>;
  readonly byUid: Map<string, StatefulSet>;
  /**
   * By uid, the revision at which the fields that decide on membership last changed. A view that has reached it knows the
   * StatefulSet as a member. Changes of the status, which come with every pod, do not move it.
   */
  readonly since: Map<string, number>;
  /** The revision at which a consistent LIST last said the same of a namespace as this memory does, and when it was sent. */
  readonly confirmed: Map<string, { readonly revision: number; readonly askedMs: number }>;
}

export function emptyMembership(nowMs: number): Membership {
  return { ...newProgress(nowMs), byPath: new Map(), byUid: new Map(), since: new Map(), confirmed: new Map() };
}

/** A LIST of the StatefulSets of a namespace. */
export interface ListedStatefulSets {
  readonly statefulSets: readonly StatefulSet[];
  readonly revision: number;
  /** When it was asked for, by the monotonic clock. */
  readonly askedMs: number;
  readonly isConsistent: boolean;
}

/** Up to which revision the StatefulSets of a namespace are known. */
export function knownThrough(membership: Membership, namespace: string): number {
  return Math.max(membership.reached, membership.confirmed.get(namespace)?.revision ?? 0);
}

/** When a watch or a list last showed the StatefulSets of a namespace, by the monotonic clock. */
export function lastEventOfSetsMs(membership: Membership, namespace: string): number {
  return Math.max(membership.lastEventMs, membership.confirmed.get(namespace)?.askedMs ?? Number.NEGATIVE_INFINITY);
}

/** The revision that a view must have reached, to know all of these StatefulSets: the ledger's `members-through`. */
export function membersThrough(membership: Membership, members: readonly StatefulSet[]): number {
  return Math.max(
    0,
    ...members.map(({ uid, resourceVersion }) => membership.since.get(uid) ?? Number(resourceVersion)),
  );
}

/**
 * Takes over the newer state of a LIST, by its revision. Later reports of the watch stay, and a StatefulSet that the watch has
 * shown to be gone does not come back.
 */
export function learnStatefulSets(membership: Membership, namespace: string, listed: ListedStatefulSets): void {
  const { statefulSets, revision } = listed;
  const before = membership.confirmed.get(namespace);
  if (revision < (before?.revision ?? 0)) return;
  const { byPath, reached } = membership;
  const known = [...byPath.values()].filter((one) => one.namespace === namespace);
  const names = new Set(statefulSets.map(({ name }) => name));
  const part = { byPath, known, listed: statefulSets, names, listedAt: revision, reached };
  const { put: news, remove: gone } = compareWithList(part);
  for (const statefulSet of news) put(membership, statefulSet);
  for (const statefulSet of gone) remove(membership, statefulSet);
  if (isContradicted(membership, namespace, listed)) return;
  const askedMs = listed.isConsistent ? listed.askedMs : (before?.askedMs ?? Number.NEGATIVE_INFINITY);
  membership.confirmed.set(namespace, { revision, askedMs });
}

/** True if a LIST differs from this memory: after silence the watch has then stopped without an error. */
export function isContradicted(
  membership: Membership,
  namespace: string,
  { statefulSets }: Pick<ListedStatefulSets, "statefulSets">,
): boolean {
  let count = 0;
  for (const known of membership.byPath.values()) if (known.namespace === namespace) count++;
  return !isUnchanged(membership.byPath, count, statefulSets);
}

/** One StatefulSet as an answer of the API server has it, unless the watch has delivered a newer state. */
export function learnStatefulSet(membership: Membership, statefulSet: StatefulSet): void {
  const known = membership.byPath.get(pathOf(statefulSet));
  if (known !== undefined && revisionOf(known) >= revisionOf(statefulSet)) return;
  put(membership, statefulSet);
}

function put(membership: Membership, statefulSet: StatefulSet, isNext = false): void {
  const path = pathOf(statefulSet);
  const known = membership.byPath.get(path);
  if (known !== undefined && known.uid !== statefulSet.uid) remove(membership, known);
  membership.byPath.set(path, statefulSet);
  membership.byUid.set(statefulSet.uid, statefulSet);
  // A watch leaves no change out, but between a list and the state before it a StatefulSet may have left its group and come
  // back.
  const isSameMember = known !== undefined && isNext && decidesTheSame(known, statefulSet);
  const isSameState = known?.resourceVersion === statefulSet.resourceVersion;
  if (!isSameMember && !isSameState) membership.since.set(statefulSet.uid, revisionOf(statefulSet));
}

function remove(membership: Membership, { uid, namespace, name }: StatefulSet): void {
  membership.byUid.delete(uid);
  membership.since.delete(uid);
  if (membership.byPath.get(`${namespace}/${name}`)?.uid === uid) membership.byPath.delete(`${namespace}/${name}`);
}

function decidesTheSame(one: StatefulSet, other: StatefulSet): boolean {
  return (
    one.uid === other.uid &&
    one.group === other.group &&
    one.deleting === other.deleting &&
    isSame(one.podLabels, other.podLabels)
  );
}

/** Feeds the membership. It calls `changed` for each StatefulSet of which a decision reads something new. */
export function statefulSetStore(
  membership: Membership,
  cluster: Pick<Cluster, "monotonicMs">,
  changed: (statefulSet: StatefulSet) => void,
): Store<StatefulSetObject> {
  return {
    replace(objects, resourceVersion) {
      const before = [...membership.byPath.values()];
      const listed = objects.map(parseStatefulSet);
      const uids = new Set(listed.map(({ uid }) => uid));
      for (const known of before) if (!uids.has(known.uid)) remove(membership, known);
      for (const statefulSet of listed) put(membership, statefulSet);
      membership.confirmed.clear();
      noteRelist(membership, Number(resourceVersion), cluster.monotonicMs());
      for (const statefulSet of [...before, ...listed]) changed(statefulSet);
    },
    apply: (event) => applyEvent(membership, event, cluster.monotonicMs(), changed),
  };
}

function applyEvent(
  membership: Membership,
  event: WatchEvent<StatefulSetObject>,
  nowMs: number,
  changed: (statefulSet: StatefulSet) => void,
): void {
  if (event.type === "BOOKMARK") {
    noteRevision(membership, Number(event.resourceVersion), nowMs);
    return;
  }
  const statefulSet = parseStatefulSet(event.object);
  const known = membership.byPath.get(pathOf(statefulSet));
  const confirmed = membership.confirmed.get(statefulSet.namespace)?.revision ?? 0;
  const isNews = revisionOf(statefulSet) > Math.max(Number(known?.resourceVersion ?? 0), confirmed);
  const isDeleted = event.type === "DELETED";
  if (isNews && isDeleted) remove(membership, statefulSet);
  else if (isNews) put(membership, statefulSet, true);
  // The change is stored first, because a decision that waits for this revision goes on at once.
  noteRevision(membership, revisionOf(statefulSet), nowMs);
  if (!isNews || (!isDeleted && sameButRevision(known, statefulSet))) return;
  changed(statefulSet);
  if (known !== undefined && known.group !== statefulSet.group) changed(known);
}
