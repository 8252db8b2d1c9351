/** Reads a view of one group from a memory that watches feed, and asks the API server for the rest (rule R5). */

import { type StoredBudget, type Surroundings, surroundingsOf } from "../groups/governing.ts";
import type { Cluster } from "../kubernetes/cluster.ts";
import type { GroupKey, StatefulSet } from "../workloads/statefulsets.ts";
import {
  type GroupView,
  listPods,
  type MembersRead,
  rereadAfterMs,
  silentAfterMs,
  type ViewNeed,
  viewOfIndex,
} from "./cache.ts";
import { getStatefulSet, listStatefulSets, readAgain, readBehindNewPods } from "./listing.ts";
import {
  confirm,
  type GroupWatchMemory,
  hasPodsIn,
  isBehindPods,
  lastEventOfPodsMs,
  learnPods,
  reaches,
  viewOfMemory,
} from "./pod-store.ts";
import {
  isContradicted,
  knownThrough,
  lastEventOfSetsMs,
  learnStatefulSets,
  membersThrough,
} from "./statefulset-store.ts";
import { awaitProgress } from "./watch-progress.ts";

export interface ViewReader {
  readonly cluster: Cluster;
  readonly memory: GroupWatchMemory;
  /** What was last read of each StatefulSet, by `NAMESPACE/NAME`. */
  readonly reads: Map<string, StatefulSetRead>;
}

export interface StatefulSetRead {
  /** Undefined where it is gone. */
  readonly statefulSet: StatefulSet | undefined;
  /** When the GET was sent, by the monotonic clock. */
  readonly readMs: number;
}

/** The StatefulSets of a view, and when they were read: with several GETs, the time of the first. */
interface MembersWithSurroundings extends MembersRead {
  readonly surroundings: Surroundings;
}

/** A view that is at least as new as is needed. Throws ClusterError. */
export async function readView(
  reader: ViewReader,
  budgets: readonly StoredBudget[],
  key: GroupKey,
  need: ViewNeed,
): Promise<GroupView<StatefulSet>> {
  const known = await catchUpWithMembers(reader, key.namespace, need);
  const { memory } = reader;
  const surroundings = surroundingsOf(memory.membership.byPath.values(), key, budgets, hasPodsIn(memory));
  const members =
    known.askedMs === undefined && need.permitSinceMs !== undefined
      ? await readMembers(reader, key, surroundings, need.permitSinceMs)
      : { ...known, surroundings };
  return readBehindPods(reader, key, await readPods(reader, key, members, need));
}

/**
 * The view of the first lists of a memory, which were requested at `askedMs`. They count as consistent LISTs made for this view,
 * also under a ledger that has never been decided on (rule R4). Throws ClusterError.
 */
export function readAsListed(
  { cluster, memory }: Pick<ViewReader, "cluster" | "memory">,
  budgets: readonly StoredBudget[],
  key: GroupKey,
  { settledThrough }: Pick<ViewNeed, "settledThrough">,
  askedMs: number,
): Promise<GroupView<StatefulSet>> {
  const { membership, reached } = memory;
  const surroundings = surroundingsOf(membership.byPath.values(), key, budgets, hasPodsIn(memory));
  const consistentAt = { pods: reached, statefulSets: membership.reached };
  const now = viewOfMemory(memory, surroundings, askedMs);
  const seenThrough = settledThrough === undefined ? Math.max(now.seenThrough, reached) : now.seenThrough;
  const view = { ...now, seenThrough, consistentAt };
  return readBehindNewPods(cluster, key, view, askedMs);
}

/**
 * Ensures that the memory knows every StatefulSet that earlier decisions of the ledger counted. Pods of a zone that joined may be
 * reserved already, and a zone that is not known would count as neither down nor reserved.
 */
async function catchUpWithMembers(
  { cluster, memory: { membership } }: ViewReader,
  namespace: string,
  need: ViewNeed,
): Promise<MembersRead> {
  const isSilent =
    need.permitSinceMs !== undefined &&
    cluster.monotonicMs() - lastEventOfSetsMs(membership, namespace) > silentAfterMs;
  if (need.consistent || need.settledThrough === undefined || isSilent) {
    const listed = await listStatefulSets(cluster, namespace);
    if (isSilent && isContradicted(membership, namespace, listed)) membership.relist.abort();
    learnStatefulSets(membership, namespace, listed);
    return listed;
  }
  const { membersThrough: through = 0 } = need;
  const isKnown = () => knownThrough(membership, namespace) >= through;
  if (await awaitProgress(cluster, membership, isKnown)) return { askedMs: undefined };
  learnStatefulSets(membership, namespace, await listStatefulSets(cluster, namespace, through));
  return { askedMs: undefined };
}

/** Every member by a GET, after the ledger was read or for 3 s more: see {@link readStatefulSet}. */
async function readMembers(
  reader: ViewReader,
  key: GroupKey,
  { workloads, neighbours, budgets, hasPods }: Surroundings,
  sinceMs: number,
): Promise<MembersWithSurroundings> {
  const reads = await Promise.all(workloads.map((one) => readStatefulSet(reader, one, sinceMs)));
  const found = reads.flatMap(({ statefulSet }) => (statefulSet === undefined ? [] : [statefulSet]));
  return {
    surroundings: surroundingsOf([...found, ...neighbours], key, budgets, hasPods),
    askedMs: Math.min(reader.cluster.monotonicMs(), ...reads.map(({ readMs }) => readMs)),
  };
}

/**
 * Rule R5: a StatefulSet by GET after the ledger was read. One GET serves for 3 s, as long as no other writer has written
 * the ledger since (`sinceMs`): what another function did in between it would have written there first.
 */
async function readStatefulSet(
  { cluster, reads }: ViewReader,
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
  reads.set(path, fresh);
  return fresh;
}

async function readPods(
  { cluster, memory }: ViewReader,
  key: GroupKey,
  members: MembersWithSurroundings,
  need: ViewNeed,
): Promise<GroupView<StatefulSet>> {
  const { surroundings } = members;
  const { workloads } = surroundings;
  const known = membersThrough(memory.membership, workloads);
  const askedMs = cluster.monotonicMs();
  const isSilent = need.permitSinceMs !== undefined && askedMs - lastEventOfPodsMs(memory, workloads) > silentAfterMs;
  if (need.consistent || need.settledThrough === undefined || isSilent) {
    const pods = await listPods(cluster, key, workloads, { ...need, consistent: true });
    if (isSilent) confirm(memory, workloads, pods, askedMs);
    learnPods(memory, workloads, pods);
    return viewOfIndex(surroundings, members, pods, known);
  }
  if (await reaches(cluster, memory, workloads, need.settledThrough)) {
    return viewOfMemory(memory, surroundings, members.askedMs);
  }
  return viewOfIndex(surroundings, members, await listPods(cluster, key, workloads, need), known);
}

/**
 * A StatefulSet that was read before one of its pods was first known says nothing about that pod: its template may have
 * changed in between, and pods of the newest revision would be taken for outdated as fast as they come. It is read again.
 */
async function readBehindPods(
  { cluster, memory, reads }: ViewReader,
  key: GroupKey,
  view: GroupView<StatefulSet>,
): Promise<GroupView<StatefulSet>> {
  const { statefulSetsReadMs: readMs } = view;
  if (readMs === undefined) return view;
  const behind = view.workloads.filter((one) => isBehindPods(memory, one, view.podsOf(one), readMs));
  return readAgain(cluster, key, view, behind, (statefulSet, againMs) => {
    reads.set(`${statefulSet.namespace}/${statefulSet.name}`, { statefulSet, readMs: againMs });
  });
}
