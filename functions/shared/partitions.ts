/** A partition is one slice through all zones: the pods whose names give the same partition (rollout-operator section 4.5, step 10). */
import type { ZoneBudget } from "./budgets.ts";
import { isAvailable, type Pod } from "./pods.ts";
import type { Zone } from "./zones.ts";

/** What is down of a partition, besides the pod that is to go. */
export interface PartitionCount {
  /** Pods that are not ready, on their way out, reserved, or not ready for long enough. */
  readonly notReady: number;
  /** Pods that should be there and are not, and zones that have no pod of the partition at all. */
  readonly unknown: number;
  /** When the next one counts as ready by time alone, in milliseconds from now; undefined when none will. */
  readonly nextReadyInMs: number | undefined;
}

/**
 * Counts a partition over all zones, the pod that is to go aside. In the other zones a pod counts as ready only after it has
 * been ready for longer than the budget's cross-zone delay, by its Ready condition (section 4.6): one without a time never does.
 */
export function countPartition(
  zones: readonly Zone[],
  leaving: Pod,
  partition: string,
  { partitions, crossZoneEvictionDelayMs }: ZoneBudget,
  nowMs: number,
): PartitionCount {
  let notReady = 0;
  let unknown = 0;
  let nextReadyInMs: number | undefined;
  const isInPartition = (podName: string) => partitions?.partitionOf(podName) === partition;
  for (const zone of zones) {
    const isOwn = zone.statefulSet.uid === leaving.ownerUid;
    let present = 0;
    for (const pod of [...zone.pods, ...zone.leaving]) {
      if (pod.uid === leaving.uid || !isInPartition(pod.name)) continue;
      present++;
      const isDown = zone.down.has(pod.ordinal) || !isAvailable(pod, zone.statefulSet.minReadySeconds, nowMs);
      const remainingMs = isOwn ? -1 : (pod.readySinceMs ?? nowMs) + crossZoneEvictionDelayMs - nowMs;
      if (isDown) notReady++;
      else if (crossZoneEvictionDelayMs > 0 && remainingMs >= 0) {
        notReady++;
        if (Number.isFinite(remainingMs)) nextReadyInMs = Math.min(nextReadyInMs ?? remainingMs + 1, remainingMs + 1);
      }
    }
    const absent = countAbsent(zone, leaving, isInPartition);
    notReady += absent.reserved;
    unknown += absent.missing;
    // A zone that has no pod of the partition may have lost it for good (rollout-operator#370).
    if (!isOwn && present + absent.reserved + absent.missing === 0) unknown++;
  }
  return { notReady, unknown, nextReadyInMs };
}

function countAbsent(
  { statefulSet, pods, leaving: unwanted, down }: Zone,
  leaving: Pod,
  isInPartition: (podName: string) => boolean,
): { readonly reserved: number; readonly missing: number } {
  const there = new Set([...pods, ...unwanted].map(({ ordinal }) => ordinal));
  let reserved = 0;
  let missing = 0;
  for (const [ordinal, why] of down) {
    if (there.has(ordinal)) continue;
    const name = `${statefulSet.name}-${ordinal}`;
    if (name === leaving.name || !isInPartition(name)) continue;
    if (why === "missing") missing++;
    else reserved++;
  }
  return { reserved, missing };
}

/** What is not as it should be, in rollout-operator's words: `1 pod not ready, 2 pods unknown in partition 3`. */
export function describeCount(notReady: number, unknown: number, place: string): string {
  const pods = (count: number) => `${count} pod${count === 1 ? "" : "s"}`;
  const parts = [notReady > 0 ? `${pods(notReady)} not ready` : "", unknown > 0 ? `${pods(unknown)} unknown` : ""];
  return `${parts.filter(Boolean).join(", ")} in ${place}`;
}
