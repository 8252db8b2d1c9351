/** A partition is a slice through all zones: the pods whose names give the same one (as rollout-operator has it). */

import { isAvailable, type Pod, podNameOf } from "../workloads/pods.ts";
import { asStatefulSet, type ZoneWorkload } from "../workloads/statefulsets.ts";
import { selects } from "./governing.ts";
import type { ZoneBudget } from "./zone-budget.ts";
import { missingOrdinals, type Zone } from "./zones.ts";

/** If a zone misses more ordinals than this, their partitions are not counted: all of them count in each partition. */
export const maxMissingByPartition = 10_000;

/** The pods of a partition that are down, without the pod that is to go. */
export interface PartitionCount {
  /** Pods that are not ready, terminating, reserved, or not ready for long enough. */
  readonly notReady: number;
  /** Pods that should be there and are not, and zones that want pods and have none of the partition. */
  readonly unknown: number;
  /** When the next one counts as ready by time alone, in milliseconds from now; undefined when none will. */
  readonly nextReadyInMs: number | undefined;
}

/**
 * Counts a partition over all zones, without the pod that is to go. In the other zones a pod counts as ready only after it has
 * been ready for longer than the budget's cross-zone delay, by its Ready condition. A condition without a time never counts.
 */
export function countPartition(
  zones: readonly Zone<ZoneWorkload>[],
  leaving: Pod,
  partition: string,
  budget: ZoneBudget,
  nowMs: number,
): PartitionCount {
  const counts = zones.map((zone) => countZone(zone, leaving, partition, budget, nowMs));
  const soonestMs = Math.min(...counts.map(({ nextReadyInMs = Number.POSITIVE_INFINITY }) => nextReadyInMs));
  return {
    notReady: counts.reduce((sum, { notReady }) => sum + notReady, 0),
    unknown: counts.reduce((sum, { unknown }) => sum + unknown, 0),
    nextReadyInMs: Number.isFinite(soonestMs) ? soonestMs : undefined,
  };
}

/** The pods of one zone in the partition. */
function countZone(
  zone: Zone<ZoneWorkload>,
  going: Pod,
  partition: string,
  budget: ZoneBudget,
  nowMs: number,
): PartitionCount {
  const isInPartition = (podName: string) => budget.partitions?.partitionOf(podName) === partition;
  const { workload, leaving } = zone;
  const isOwn = workload.uid === going.ownerUid;
  const sorted = sortByPartition(zone, budget);
  const members = [
    ...(sorted.byPartition.get(partition) ?? []),
    ...leaving.filter(({ name }) => isInPartition(name)),
  ].filter(({ uid }) => uid !== going.uid);
  const pods = countPods(zone, members, isOwn ? undefined : budget.crossZoneEvictionDelayMs, nowMs);
  const absent = countReserved(zone, sorted.ordinals, isInPartition);
  const missing = absent.missing + (zone.missing > maxMissingByPartition ? zone.missing : sorted.missingOf(partition));
  // A zone of the budget that has no pod of the partition may have lost it for good (rollout-operator#370). One that is to have
  // no pods at all has lost none: a migration to partitions leaves such StatefulSets behind.
  const isEmpty = workload.replicas > 0 && members.length + absent.reserved + missing === 0;
  const isLost = !isOwn && isEmpty && selects(budget, asStatefulSet(workload).podLabels);
  const { nextReadyInMs } = pods;
  return { notReady: pods.notReady + absent.reserved, unknown: missing + (isLost ? 1 : 0), nextReadyInMs };
}

/** The pods of a partition that are down, or were ready for no longer than `delayMs`; undefined: a pod that is up counts. */
function countPods(
  { workload: { minReadySeconds }, down }: Zone<ZoneWorkload>,
  members: readonly Pod[],
  delayMs: number | undefined,
  nowMs: number,
): Pick<PartitionCount, "notReady" | "nextReadyInMs"> {
  let notReady = 0;
  let nextReadyInMs: number | undefined;
  for (const pod of members) {
    const isDown = down.has(pod.ordinal) || !isAvailable(pod, minReadySeconds, nowMs);
    const remainingMs = delayMs ? (pod.readySinceMs ?? nowMs) + delayMs - nowMs : -1;
    if (isDown || remainingMs >= 0) notReady++;
    if (isDown || remainingMs < 0) continue;
    nextReadyInMs = Math.min(nextReadyInMs ?? remainingMs + 1, remainingMs + 1);
  }
  return { notReady, nextReadyInMs };
}

interface SortedPods {
  readonly byPartition: ReadonlyMap<string | undefined, readonly Pod[]>;
  readonly ordinals: ReadonlySet<number>;
  /** How many of the zone's missing ordinals are in a partition. Their names are made when this is first asked. */
  readonly missingOf: (partition: string) => number;
}

/** A reconcile may ask for each of a thousand pods. A zone's pods never change, so they are sorted once. */
const sortedPods = new WeakMap<readonly Pod[], Map<ZoneBudget, SortedPods>>();

function sortByPartition(zone: Zone<ZoneWorkload>, budget: ZoneBudget): SortedPods {
  const { pods } = zone;
  const byBudget = sortedPods.get(pods) ?? new Map<ZoneBudget, SortedPods>();
  sortedPods.set(pods, byBudget);
  const known = byBudget.get(budget);
  if (known !== undefined) return known;
  const byPartition = Map.groupBy(pods, ({ name }) => budget.partitions?.partitionOf(name));
  let missing: ReadonlyMap<string | undefined, number> | undefined;
  const missingOf = (partition: string) => {
    missing ??= countMissing(zone, budget);
    return missing.get(partition) ?? 0;
  };
  const sorted = { byPartition, ordinals: new Set(pods.map(({ ordinal }) => ordinal)), missingOf };
  byBudget.set(budget, sorted);
  return sorted;
}

/** The ordinals that have neither a pod nor a reservation, by the partition of the names that their pods would have. */
function countMissing(zone: Zone<ZoneWorkload>, { partitions }: ZoneBudget): ReadonlyMap<string | undefined, number> {
  const counts = new Map<string | undefined, number>();
  for (const ordinal of missingOrdinals(zone)) {
    const partition = partitions?.partitionOf(podNameOf({ statefulSet: zone.workload.name, ordinal }));
    counts.set(partition, (counts.get(partition) ?? 0) + 1);
  }
  return counts;
}

/** The reserved ordinals of a partition that have no pod: `missing` if one is wanted. */
function countReserved(
  { workload, leaving, down }: Zone<ZoneWorkload>,
  ordinals: ReadonlySet<number>,
  isInPartition: (podName: string) => boolean,
): { readonly reserved: number; readonly missing: number } {
  let reserved = 0;
  let missing = 0;
  for (const [ordinal, why] of down) {
    if (ordinals.has(ordinal) || leaving.some((pod) => pod.ordinal === ordinal)) continue;
    if (!isInPartition(podNameOf({ statefulSet: workload.name, ordinal }))) continue;
    if (why === "missing") missing++;
    else reserved++;
  }
  return { reserved, missing };
}

/** The pods that are not ready or unknown, in rollout-operator's words: `1 pod not ready, 2 pods unknown in partition 3`. */
export function describeCount(notReady: number, unknown: number, place: string): string {
  const pods = (count: number) => `${count} pod${count === 1 ? "" : "s"}`;
  const parts = [notReady > 0 ? `${pods(notReady)} not ready` : "", unknown > 0 ? `${pods(unknown)} unknown` : ""];
  return `${parts.filter(Boolean).join(", ")} in ${place}`;
}
