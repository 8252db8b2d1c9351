/** How many pods of a zone may be down by a choice of ours, and what a pod's budget objects to besides. Pure. */

import type { Pod } from "../workloads/pods.ts";
import { allowanceOf, type Governed } from "./governing.ts";
import { countPartition, describeCount } from "./partitions.ts";
import { describeDown, type Zone } from "./zones.ts";

/** How many pods of a zone may be down, and which limit says so. */
export interface ZoneLimit {
  readonly guard: string;
  readonly pods: number;
  /** For a message; empty where it is the rollout's own. */
  readonly by: string;
}

/** The reason for which a pod stays. */
export interface PodBlocked {
  readonly guard: string;
  readonly message: string;
  /** True when it is the zone that has too many pods down, and nothing about this pod. */
  readonly isLimit: boolean;
  /** When the pod may be free by time alone, in milliseconds; undefined when it will not be. */
  readonly nextInMs: number | undefined;
}

/** The zones of a group at one moment. */
export interface ZonesNow {
  /** The API server's clock, in milliseconds since the epoch. */
  readonly nowMs: number;
  readonly zones: readonly Zone[];
}

/** The limit that the annotation of the zone's StatefulSet sets. */
export function ownLimitOf({ workload }: Pick<Zone, "workload">): ZoneLimit {
  return { guard: "budget", pods: workload.maxUnavailable, by: "" };
}

/**
 * Zone mode: the smaller limit counts, and an allowance of 0 only blocks evictions (as in rollout-operator). A rollout never
 * waits for what a budget can never allow (rule R25): its own limit, and that of a partition, are at least one pod.
 */
export function limitOf({ workload }: Pick<Zone, "workload">, governed: Governed, own: ZoneLimit): ZoneLimit {
  if (governed.kind !== "one" || governed.budget.partitions !== undefined) return own;
  const allowance = allowanceOf(governed.budget, workload) || own.pods;
  if (allowance >= own.pods) return own;
  const by = ` by the budget ${governed.name}, although the StatefulSet allows ${own.pods}`;
  return { guard: "zone-budget", pods: allowance, by };
}

/** The message if a zone has as many pods down as its limit allows. */
export function blockedByLimit(zone: Zone, { guard, pods, by }: ZoneLimit): PodBlocked {
  const message = `${describeDown(zone)}, ${pods} may be down${by}`;
  return { guard, message, isLimit: true, nextInMs: undefined };
}

/**
 * The objection of a pod's budget besides the zone's limit: Sluice cannot keep the budget, or the pod's partition has no
 * allowance left.
 */
export function blockedByBudget(
  group: ZonesNow,
  zone: Zone,
  pod: Pod,
  governed: Governed,
  taken: readonly Pod[],
): PodBlocked | undefined {
  if (governed.kind === "none") return undefined;
  if (governed.kind === "ungovernable") {
    return { guard: governed.guard, message: governed.message, isLimit: false, nextInMs: undefined };
  }
  const { name, budget } = governed;
  const { partitions } = budget;
  if (partitions === undefined) return undefined;
  const partition = partitions.partitionOf(pod.name);
  if (partition === undefined) {
    const message = `${pod.name} waits: group ${partitions.group} of the expression ${partitions.expression} in the budget ${name} finds nothing in its name, so its partition is not known`;
    return { guard: "partition-not-identified", message, isLimit: false, nextInMs: undefined };
  }
  const { notReady, unknown, nextReadyInMs } = countPartition(group.zones, pod, partition, budget, group.nowMs);
  const leaving = taken.filter((one) => !zone.down.has(one.ordinal) && partitions.partitionOf(one.name) === partition);
  const down = notReady + leaving.length;
  const allowed = allowanceOf(budget, zone.workload) || 1;
  if (down + unknown < allowed) return undefined;
  const soon =
    nextReadyInMs === undefined
      ? ""
      : `, the first of them in ${Math.ceil(nextReadyInMs / 1000)} s by its cross-zone delay`;
  const count = describeCount(down, unknown, `partition ${partition}`);
  const message = `${pod.name} waits: ${count}, and the budget ${name} lets ${allowed} be down there${soon}`;
  return { guard: "partition-budget", message, isLimit: false, nextInMs: nextReadyInMs };
}
