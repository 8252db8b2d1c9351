/** Whether a pod's budget lets it go: by zone, or by partition. Pure. */

import { askAgain, badRequest, forbidden, notYet } from "../shared/admission/answers.ts";
import type { Denied } from "../shared/admission/definition.ts";
import { allowanceOf } from "../shared/groups/governing.ts";
import { countPartition, describeCount } from "../shared/groups/partitions.ts";
import type { Departed } from "../shared/groups/refuse-claim.ts";
import type { PartitionRule, ZoneBudget } from "../shared/groups/zone-budget.ts";
import { claimOn, isUnsettled, type WhyDown, type Zone } from "../shared/groups/zones.ts";
import type { Claim } from "../shared/ledger/claim.ts";
import { describeClaim, guardOfClaim } from "../shared/ledger/claim-kinds.ts";
import { isAvailable, type Pod, podNameOf } from "../shared/workloads/pods.ts";
import { asStatefulSet, isWanted, type ZoneWorkload } from "../shared/workloads/statefulsets.ts";
import { refuseBesideDeparted } from "./decide-asked.ts";

/** What a budget counts besides the zones. */
export interface GroupThen {
  /** The API server's clock, in milliseconds since the epoch. */
  readonly nowMs: number;
  /** Pods that are down in StatefulSets that have left the group, or that were deleted without their pods. */
  readonly departed: readonly Departed[];
}

/** A zone as it will be once the evictions that were allowed before this one have happened. */
export type ZoneThen = Omit<Zone<ZoneWorkload>, "down"> & { readonly down: Map<number, WhyDown> };

export function waitForClaim(claim: Claim, besides: string, { workload }: ZoneThen): Denied {
  return askAgain(guardOfClaim(claim), `${describeClaim(claim)}: ${besides}`, workload.name);
}

export function refuseByBudget(
  group: GroupThen,
  zones: readonly ZoneThen[],
  zone: ZoneThen,
  pod: Pod,
  { name: budgetName, budget }: { readonly name: string; readonly budget: ZoneBudget },
): Denied | undefined {
  const { name } = zone.workload;
  const allowed = allowanceFor(budget, zone, pod);
  if (allowed === 0) {
    const message = `max unavailable = 0: the budget ${budgetName} allows a share of the pods of ${name}, and its controller has counted none of them yet`;
    return forbidden("max-unavailable-zero", message, { zone: name });
  }
  if (zones.length < 2) {
    const message = `minimum number of StatefulSets not found: the budget ${budgetName} needs two zones or more, and ${name} is the only one`;
    return badRequest("too-few-zones", message, { zone: name });
  }
  return isPartitioned(budget)
    ? refuseByPartition(group, zones, zone, pod, budget, allowed)
    : refuseByZone(group, zones, zone, pod, allowed);
}

/**
 * Rule R24: a percentage allows at least one pod that its StatefulSet no longer wants. Otherwise a zone that was scaled to 0
 * would have an allowance of 0, and a drain would give up at a 403 for its last pods.
 */
function allowanceFor(budget: ZoneBudget, { workload }: ZoneThen, { ordinal }: Pod): number {
  const isShare = "percent" in budget.allowance && budget.allowance.percent > 0;
  return Math.max(allowanceOf(budget, asStatefulSet(workload)), isShare && !isWanted(workload, ordinal) ? 1 : 0);
}

type PartitionedBudget = ZoneBudget & { readonly partitions: PartitionRule };

function isPartitioned(budget: ZoneBudget): budget is PartitionedBudget {
  return budget.partitions !== undefined;
}

/**
 * Zone mode: every other zone is whole, and this zone is within its budget, with the pod counted as down (invariants Z1 and
 * E1).
 */
function refuseByZone(
  group: GroupThen,
  zones: readonly ZoneThen[],
  own: ZoneThen,
  pod: Pod,
  allowed: number,
): Denied | undefined {
  const { name } = own.workload;
  const departed = refuseBesideDeparted(group.departed, name);
  if (departed !== undefined) return departed;
  for (const zone of zones) {
    if (zone === own || !isUnsettled(zone)) continue;
    const [claimed] = zone.claims;
    if (claimed !== undefined) return waitForClaim(claimed, `no pod of ${name} goes until it ends`, own);
    const { notReady, unknown } = countZone(group, zone, undefined);
    // Pods beyond the wanted size do not count as down, but their zone is not whole until they are gone.
    const leaving = notReady + unknown === 0 ? zone.leaving.length : 0;
    const count = describeCount(notReady + leaving, unknown, zone.workload.name);
    return notYet("zones-down", `${count}: no pod of ${name} goes until that zone is whole`, name);
  }
  const { notReady, unknown } = countZone(group, own, pod);
  if (notReady + unknown < allowed) return undefined;
  const [claim] = own.claims;
  const message = `${describeCount(notReady, unknown, name)}: ${allowed} may be down, so ${pod.name} stays until one is back`;
  if (claim !== undefined) return waitForClaim(claim, message, own);
  return notYet("zone-budget", message, name);
}

/** The pods of a zone that are down besides one pod: at wanted ordinals, and those that are terminating. */
function countZone(
  group: GroupThen,
  { workload, down, missing, leaving }: ZoneThen,
  besides: Pod | undefined,
): { readonly notReady: number; readonly unknown: number } {
  let notReady = 0;
  let unknown = missing;
  for (const [ordinal, why] of down) {
    if (ordinal === besides?.ordinal) continue;
    if (why === "missing") unknown++;
    else notReady++;
  }
  for (const pod of leaving) {
    const counts = pod.uid !== besides?.uid && !down.has(pod.ordinal);
    if (counts && !isAvailable(pod, workload.minReadySeconds, group.nowMs)) notReady++;
  }
  return { notReady, unknown };
}

/** Partition mode: over all zones, and with the pod counted as down, the partition is within the budget (invariant E1). */
function refuseByPartition(
  group: GroupThen,
  zones: readonly ZoneThen[],
  own: ZoneThen,
  pod: Pod,
  budget: PartitionedBudget,
  allowed: number,
): Denied | undefined {
  const zone = own.workload.name;
  const { partitions } = budget;
  const partition = partitions.partitionOf(pod.name);
  if (partition === undefined) {
    const { expression, group: number } = partitions;
    const message = `pod ${pod.name} has no partition: group ${number} of the expression ${expression} finds nothing in its name`;
    return badRequest("partition-not-identified", message, { zone });
  }
  const departed = group.departed.filter((one) => partitions.partitionOf(podNameOf(one)) === partition);
  const { notReady, unknown, nextReadyInMs } = countPartition(zones, pod, partition, budget, group.nowMs);
  const down = notReady + departed.length;
  if (down + unknown < allowed) return undefined;
  const soon =
    nextReadyInMs === undefined
      ? ""
      : `, the first of them in ${Math.ceil(nextReadyInMs / 1000)} s by the cross-zone delay`;
  const message = `${describeCount(down, unknown, `partition ${partition}`)}: ${allowed} may be down, so ${pod.name} stays until one is back${soon}`;
  const claim = claimIn(zones, (podName) => partitions.partitionOf(podName) === partition);
  if (claim !== undefined) return waitForClaim(claim, message, own);
  return notYet("partition-budget", message, zone, nextReadyInMs);
}

/** The first claim by which a pod of a partition counts as down. */
function claimIn(zones: readonly ZoneThen[], isInPartition: (podName: string) => boolean): Claim | undefined {
  for (const zone of zones) {
    for (const [ordinal, why] of zone.down) {
      if (why === "claimed" && isInPartition(podNameOf({ statefulSet: zone.workload.name, ordinal })))
        return claimOn(zone, ordinal);
    }
  }
  return undefined;
}
