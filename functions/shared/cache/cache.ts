/**
 * A view is what a decision sees of a group's pods and StatefulSets (rule R5). It may be stale, but never older than the
 * ledger's `settled-through`. It comes from memory fed by watches where a process lives, and from LISTs where it does not.
 */

import type { StoredBudget, Surroundings } from "../groups/governing.ts";
import type { PodDisruptionBudget } from "../groups/pod-disruption-budget.ts";
import type { Cluster, ObjectKey, PodObject, StatefulSetObject, ZoneBudgetObject } from "../kubernetes/cluster.ts";
import { find, listIfServed } from "../kubernetes/find.ts";
import { type Pod, parsePod } from "../workloads/pods.ts";
import type { GroupKey, StatefulSet, ZoneWorkload } from "../workloads/statefulsets.ts";
import type { LookUps } from "./look-ups.ts";

export interface ViewNeed {
  /** The ledger's `settled-through`: every part of the view must have reached it. Undefined asks for a consistent LIST. */
  readonly settledThrough: number | undefined;
  /** The ledger's `members-through`: the view must know every StatefulSet up to this revision. Absent: what is known will do. */
  readonly membersThrough?: number | undefined;
  /**
   * Set when the decision may permit something. StatefulSets must then have been read after this moment of the monotonic
   * clock (the last time that another writer's ledger write came to be known), and a view that has received nothing for 30 s
   * is replaced by a consistent LIST.
   */
  readonly permitSinceMs: number | undefined;
  /** Ask for consistent LISTs whatever is in memory: what a sweep does. */
  readonly consistent: boolean;
  /** True if the caller needs only the names of the members, in any known state. The view may then lack pods and budgets. */
  readonly membersOnly?: boolean;
}

/** Asks for the members of a group alone, in any known state. */
export const membersNeed: ViewNeed = {
  settledThrough: 0,
  permitSinceMs: undefined,
  consistent: false,
  membersOnly: true,
};

/** The members of the group, the other StatefulSets of its namespace, and the budgets there: all in no particular order. */
export interface GroupView<W extends ZoneWorkload = ZoneWorkload> extends Surroundings<W> {
  /** Monotonic time at which the oldest StatefulSet was read; undefined if a watch delivered them. */
  readonly statefulSetsReadMs: number | undefined;
  /** The pods of a StatefulSet, or of a zone of another owner, in no particular order. */
  podsOf(workload: W): Iterable<Pod>;
  /** The pod of that name, if the view holds it: it may leave out pods that no StatefulSet of the group owns. */
  pod(name: string): Pod | undefined;
  /** Rule R8: the largest resourceVersion of any pod in the view; a LIST's own only under a ledger's first decision (R4). */
  readonly seenThrough: number;
  /** The revision from which on a watch of StatefulSets knows all members of the view. Other views must reach it (rule R5). */
  readonly membersThrough: number;
  /** The revisions of the consistent LISTs that the view is made of; undefined where it is made of anything else. */
  readonly consistentAt: { readonly pods: number; readonly statefulSets: number } | undefined;
}

export interface GroupCache {
  /** True if the process lives for long, so that its own clock can tell that it has known something for minutes. */
  readonly isLasting: boolean;
  /** A view of one group. Throws ClusterError; code 504 means that the API server has not got that far: try again. */
  read(key: GroupKey, need: ViewNeed): Promise<GroupView>;
  /**
   * Calls `listener`, as long as the process lives, when something changed in a namespace that a decision about `group` may read,
   * or about any group if none is named. Absent if no watch reports changes: every view is then made of LISTs.
   */
  onChange?(listener: (namespace: string, group: string | undefined) => void): void;
  /** Takes over the object that a write of ours was answered with, so that the next view is not from before the write. */
  learn(object: StatefulSetObject): void;
  /**
   * Every group of the namespace, or of all served ones, that has a StatefulSet. A sweep finds its work by it. `onRead` is called
   * for each of these StatefulSets.
   */
  groups(namespace?: string, onRead?: (statefulSet: StatefulSet) => void): Promise<GroupKey[]>;
  /** The group of a StatefulSet, or undefined where it is gone or in none: at most one read. */
  groupOf(namespace: string, statefulSet: string): Promise<GroupKey | undefined>;
  /** One pod as memory has it, otherwise by a GET, of `lookUps` where they are given; undefined where it is gone. */
  pod(key: ObjectKey, lookUps?: LookUps): Promise<Pod | undefined>;
  /** The StatefulSet that controls a pod, the same way. */
  ownerOf(pod: Pod, lookUps?: LookUps): Promise<StatefulSet | undefined>;
  /** The standing pods that were made for a StatefulSet of that name, its own or orphans: some, or none where none is. */
  podsMadeFor(statefulSet: ObjectKey): Promise<readonly Pod[]>;
  /** The orphans of a namespace: all standing pods that StatefulSets have released. */
  orphans(namespace: string): Promise<readonly Pod[]>;
  /** The budgets of a namespace: none where their CRD is not installed. Watched or listed within the last 30 s. */
  budgets(namespace: string): Promise<readonly StoredBudget[]>;
  /** The PodDisruptionBudgets of a namespace, the same way. */
  disruptionBudgets(namespace: string): Promise<readonly PodDisruptionBudget[]>;
}

/** Rule R5: a view that has received nothing for this long is replaced before it may permit anything. */
export const silentAfterMs = 30_000;
/** A StatefulSet's GET serves further decisions for this long, so that an act within 2 s of it keeps Z3's five seconds. */
export const rereadAfterMs = 3_000;

/**
 * The LISTs that make up a view of a group's pods: one for each StatefulSet, by its own selector.
 *
 * They are consistent, or at least as new as the ledger asks for. Under a ledger that has never been decided on (rule R4)
 * the lists' own revision counts as seen: pods that a lost ledger's reservations took away leave no other trace, and a view
 * from before they went must not be taken for one that knows of them.
 */
export async function listPods(
  cluster: Cluster,
  key: GroupKey,
  statefulSets: readonly StatefulSet[],
  { settledThrough, consistent }: Pick<ViewNeed, "settledThrough" | "consistent">,
): Promise<PodIndex> {
  const oldest = consistent || !settledThrough ? {} : { notOlderThan: String(settledThrough) };
  const lists = await Promise.all(
    statefulSets.map(({ matchLabels }) =>
      cluster.list("pods", { namespace: key.namespace, labelSelector: selectorOf(matchLabels), ...oldest }),
    ),
  );
  const revisions = lists.map((list) => Number(list.resourceVersion));
  const index = indexPods(
    lists.flatMap((list) => list.items),
    Math.min(...revisions),
  );
  const newest = Math.max(0, ...revisions);
  const consistentAt = consistent && revisions.length > 0 ? newest : undefined;
  if (settledThrough !== undefined) return { ...index, consistentAt };
  return { ...index, consistentAt, seenThrough: Math.max(index.seenThrough, newest) };
}

export interface PodIndex {
  readonly byName: ReadonlyMap<string, Pod>;
  readonly byOwner: ReadonlyMap<string, readonly Pod[]>;
  readonly seenThrough: number;
  /** The revision that the oldest of the lists is of. */
  readonly listedAt: number;
  /** The revision of the newest of them, where all are consistent. */
  readonly consistentAt: number | undefined;
}

/** Pods by name and by owner. `listedAt` is the revision that they were listed at; 0 where none is known. */
export function indexPods(objects: Iterable<PodObject>, listedAt = 0): PodIndex {
  const byName = new Map<string, Pod>();
  const byOwner = new Map<string, Pod[]>();
  let seenThrough = 0;
  for (const object of objects) {
    const pod = parsePod(object);
    seenThrough = Math.max(seenThrough, pod.resourceVersion);
    byName.set(pod.name, pod);
  }
  for (const pod of byName.values()) {
    if (pod.ownerUid === undefined) continue;
    const siblings = byOwner.get(pod.ownerUid);
    if (siblings === undefined) byOwner.set(pod.ownerUid, [pod]);
    else siblings.push(pod);
  }
  return { byName, byOwner, seenThrough, listedAt, consistentAt: undefined };
}

export function selectorOf(matchLabels: Readonly<Record<string, string>>): string {
  return Object.entries(matchLabels)
    .map(([label, value]) => `${label}=${value}`)
    .join(",");
}

/** The budgets of a namespace, or of all, by a consistent LIST; none where the CRD is not installed. Throws ClusterError. */
export function listBudgets(cluster: LookUps, namespace: string | undefined): Promise<readonly ZoneBudgetObject[]> {
  return listIfServed(cluster, "zoneawarepoddisruptionbudgets", namespace);
}

/** A pod by a GET; undefined where it is gone. Throws ClusterError. */
export async function getPod(cluster: LookUps, key: ObjectKey): Promise<Pod | undefined> {
  const object = await find(cluster, "pods", key);
  return object === undefined ? undefined : parsePod(object);
}

/** When and by which LIST the StatefulSets of a view were read. */
export interface MembersRead {
  /** Monotonic time of the request; undefined if a watch delivered them. */
  readonly askedMs: number | undefined;
  /** The revision of the LIST that they are from, if they are. */
  readonly revision?: number;
}

/** A view of lists. */
export function viewOfIndex(
  surroundings: Surroundings,
  { askedMs, revision }: MembersRead,
  pods: PodIndex,
  membersThrough = Math.max(0, ...surroundings.workloads.map(({ resourceVersion }) => Number(resourceVersion))),
): GroupView<StatefulSet> {
  return {
    ...surroundings,
    statefulSetsReadMs: askedMs,
    podsOf: ({ uid }) => pods.byOwner.get(uid) ?? [],
    pod: (name) => pods.byName.get(name),
    seenThrough: pods.seenThrough,
    membersThrough,
    consistentAt:
      pods.consistentAt === undefined || revision === undefined
        ? undefined
        : { pods: pods.consistentAt, statefulSets: revision },
  };
}
