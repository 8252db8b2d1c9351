/** Whether a pod may be evicted now: which pods of a group's reviews may go, or which guard holds each of them back. */

import { isAsked, type Questions, warnOfUnknown } from "../shared/group/asking.ts";
import { allowanceOf, governing, type Surroundings } from "../shared/group/governing.ts";
import { countPartition, describeCount } from "../shared/group/partitions.ts";
import { claimOn, isUnsettled, type WhyDown, type Zone } from "../shared/group/zones.ts";
import type { Claim } from "../shared/ledger/claim.ts";
import { describeClaim, guardOfClaim } from "../shared/ledger/kinds.ts";
import { isGivenUp, refusalOfRenewals, turnMs } from "../shared/ledger/renewals.ts";
import { dropAfterMs, type Refusal, type Reservation } from "../shared/ledger/reservation.ts";
import type { PartitionRule, ZoneBudget } from "../shared/objects/budgets.ts";
import { type PodDisruptionBudget, refusalOf, refusingBudget } from "../shared/objects/disruption-budgets.ts";
import { isAvailable, type Pod, podNameOf } from "../shared/objects/pods.ts";
import { type GroupKey, isWanted } from "../shared/objects/statefulsets.ts";
import type { Denied } from "../shared/pass/definition.ts";
import { allow, askAgain, badRequest, forbidden, notYet } from "../shared/review/answers.ts";
import type { Ruling } from "../shared/review/commit.ts";
import { refuseBeside, refuseByQuestion, type Taken } from "./ask.ts";
import { type Eviction, exempt, findPod, isExempt, refuseForever, ungovernable, unseen } from "./choose.ts";

export interface Asked {
  readonly eviction: Eviction;
  readonly dryRun: boolean;
}

/** All that the reviews of one group are judged by. */
export interface EvictionSnapshot {
  readonly key: GroupKey;
  /** The API server's clock, in milliseconds since the epoch. */
  readonly nowMs: number;
  /** By name, byte-wise ascending. */
  readonly zones: readonly Zone[];
  /** Open reservations in StatefulSets that have left the group. */
  readonly departed: readonly Reservation[];
  /** The claims on StatefulSets that are none of the group's any more. */
  readonly strayClaims: readonly Claim[];
  /** Pods that were allowed to go for too long and never went, by uid, and whose reservations have been dropped. */
  readonly givenUp: ReadonlyMap<string, Refusal>;
  readonly surroundings: Surroundings;
  readonly disruptionBudgets: readonly PodDisruptionBudget[];
  /** How many more reservations the ledger takes (rule R2). */
  readonly room: number;
  /** What asked pods have said; absent where no StatefulSet of the group asks. */
  readonly questions?: Questions | undefined;
  readonly asked: readonly Asked[];
}

/** A zone as it will be once the evictions that were allowed before this one have happened. */
type ZoneThen = Omit<Zone, "down"> & { readonly down: Map<number, WhyDown> };

/** One ruling for each review, in order: each counts those before it that were allowed and are no dry runs. */
export function decide(group: EvictionSnapshot): readonly Ruling[] {
  const zones = group.zones.map((zone): ZoneThen => ({ ...zone, down: new Map(zone.down) }));
  let { room } = group;
  const taken: Taken[] = [];
  return group.asked.map(({ eviction, dryRun }): Ruling => {
    const ruling = rule(group, zones, eviction, { room, taken });
    const { reserve } = ruling;
    if (reserve === undefined || dryRun) return ruling;
    taken.push({ ...reserve, name: eviction.name });
    const zone = zones.find(({ statefulSet }) => statefulSet.name === reserve.statefulSet) as ZoneThen;
    if (!isReserved(zone, reserve.ordinal)) room--;
    zone.down.set(reserve.ordinal, "reserved");
    return ruling;
  });
}

/** What the rulings before one have left of the ledger, and those whom they have let go. */
interface Before {
  readonly room: number;
  readonly taken: readonly Taken[];
}

function rule(group: EvictionSnapshot, zones: readonly ZoneThen[], eviction: Eviction, before: Before): Ruling {
  const found = findPod(zones, eviction);
  if (found === undefined) return { answer: unseen(eviction) };
  const { pod, zone } = found;
  const { name } = zone.statefulSet;
  // Rule R11: by the time an eviction that pins no uid gets there, it may take the pod that has come instead.
  if (isExempt(pod)) return { answer: eviction.isPinned ? exempt(pod, eviction) : unseen(eviction) };
  const governed = governing(pod, group.surroundings, group.key);
  if (governed.kind === "none" && !isAsked(zone.statefulSet)) {
    const answer = allow("out-of-scope", { zone: name, patch: eviction.pin });
    return { answer: eviction.isPinned ? answer : unseen(eviction) };
  }
  if (governed.kind === "ungovernable") return { answer: ungovernable(governed, name) };
  const refusal =
    (governed.kind === "one" ? refuseForever(group, pod, name, governed) : undefined) ??
    refuseClaimed(group, zone, pod) ??
    refuseReplacement(group, zone, pod, eviction) ??
    refuseGivenUp(group, zone, pod) ??
    (governed.kind === "one" ? refuseByBudget(group, zones, zone, pod, governed) : refuseBeside(zones, zone, pod)) ??
    refuseByDisruptionBudget(group, pod, name) ??
    refuseOutOfTurn(group, zones, zone, pod) ??
    refuseWithoutRoom(zone, pod, before.room) ??
    refuseByQuestion(group.questions, { zones, zone, pod, taken: before.taken });
  if (refusal !== undefined) return { answer: refusal };
  const reserve = { statefulSet: name, ordinal: pod.ordinal, uid: pod.uid };
  const warnings = [warnOfUnknown(group.questions, pod)].filter((words) => words !== undefined);
  return { answer: allow("allowed", { zone: name, warnings, patch: eviction.pin }), reserve };
}

/**
 * Rule R11: an eviction that names no uid may be on its way to the pod that was there before, and would take this one. Until
 * nobody can act on that reservation any more, the pod that came instead stays.
 */
function refuseReplacement(
  group: EvictionSnapshot,
  zone: ZoneThen,
  pod: Pod,
  { isPinned }: Eviction,
): Denied | undefined {
  const reservation = zone.reserved.get(pod.ordinal);
  if (isPinned || reservation === undefined || reservation.uid === pod.uid) return undefined;
  if (group.nowMs - reservation.stampMs >= dropAfterMs) return undefined;
  const sentence = `${pod.name} has just replaced a pod that was evicted, and is not ready yet; it may go when it is`;
  return notYet("replacement-reserved", sentence, zone.statefulSet.name);
}

/**
 * Rule R12 has an end: a pod that was allowed again and again, and still stands, is refused by somebody behind us. It is neither
 * renewed, so that its reservation lapses (rule R10), nor reserved anew before its siblings have had their turn.
 */
function refuseGivenUp({ givenUp }: EvictionSnapshot, zone: ZoneThen, pod: Pod): Denied | undefined {
  const reservation = zone.reserved.get(pod.ordinal);
  const isStanding = reservation?.uid === pod.uid && isGivenUp(reservation);
  const refusal = isStanding ? refusalOfRenewals(reservation) : givenUp.get(pod.uid);
  if (refusal === undefined) return undefined;
  return askAgain("eviction-not-carried-out", refusal.sentence, zone.statefulSet.name);
}

/**
 * Rule R18: a pod that a claim names is its function's, and nobody else takes it. Of a claim on a StatefulSet that the group has
 * none of, nobody here can tell what it takes down, so that all wait for it.
 */
function refuseClaimed({ strayClaims }: EvictionSnapshot, zone: ZoneThen, { name, ordinal }: Pod): Denied | undefined {
  const claim = claimOn(zone, ordinal) ?? strayClaims[0];
  return claim && waitForClaim(claim, `${name} stays until it ends`, zone);
}

function waitForClaim(claim: Claim, besides: string, { statefulSet }: ZoneThen): Denied {
  return askAgain(guardOfClaim(claim), `${describeClaim(claim)}: ${besides}`, statefulSet.name);
}

function refuseByBudget(
  group: EvictionSnapshot,
  zones: readonly ZoneThen[],
  zone: ZoneThen,
  pod: Pod,
  { name: budgetName, budget }: { readonly name: string; readonly budget: ZoneBudget },
): Denied | undefined {
  const { name } = zone.statefulSet;
  const allowed = allowanceFor(budget, zone, pod);
  if (allowed === 0) {
    const sentence = `max unavailable = 0: the budget ${budgetName} allows a share of the pods of ${name}, and its controller has counted none of them yet`;
    return forbidden("max-unavailable-zero", sentence, { zone: name });
  }
  if (zones.length < 2) {
    const sentence = `minimum number of StatefulSets not found: the budget ${budgetName} needs two zones or more, and ${name} is the only one`;
    return badRequest("too-few-zones", sentence, { zone: name });
  }
  return isPartitioned(budget)
    ? refuseByPartition(group, zones, zone, pod, budget, allowed)
    : refuseByZone(group, zones, zone, pod, allowed);
}

/**
 * Rule R24: of a share, at least one for a pod that nobody wants any more. A zone that was scaled to nothing has no share left,
 * and a drain gives up on its last pods at a 403.
 */
function allowanceFor(budget: ZoneBudget, { statefulSet }: ZoneThen, { ordinal }: Pod): number {
  const isShare = "percent" in budget.allowance && budget.allowance.percent > 0;
  return Math.max(allowanceOf(budget, statefulSet), isShare && !isWanted(statefulSet, ordinal) ? 1 : 0);
}

type PartitionedBudget = ZoneBudget & { readonly partitions: PartitionRule };

function isPartitioned(budget: ZoneBudget): budget is PartitionedBudget {
  return budget.partitions !== undefined;
}

/** Zone mode: every other zone is whole, and this one, with the pod, within its budget (invariants Z1 and E1). */
function refuseByZone(
  group: EvictionSnapshot,
  zones: readonly ZoneThen[],
  own: ZoneThen,
  pod: Pod,
  allowed: number,
): Denied | undefined {
  const { name } = own.statefulSet;
  const [departed] = group.departed;
  if (departed !== undefined) {
    const gone = podNameOf(departed);
    const sentence = `1 pod not ready in ${departed.statefulSet}: ${gone} is reserved, but its StatefulSet has left the group or is gone; no other zone is touched until that pod is gone or back, and no pod without a StatefulSet is left`;
    return askAgain("zone-departed", sentence, name);
  }
  for (const zone of zones) {
    if (zone === own || !isUnsettled(zone)) continue;
    const [claimed] = zone.claims;
    if (claimed !== undefined) return waitForClaim(claimed, `no pod of ${name} goes until it ends`, own);
    const { notReady, unknown } = countZone(group, zone, undefined);
    // Pods that are being scaled away are none of those that count, and their zone is not whole until they are gone.
    const leaving = notReady + unknown === 0 ? zone.leaving.length : 0;
    const count = describeCount(notReady + leaving, unknown, zone.statefulSet.name);
    return notYet("zones-down", `${count}: no pod of ${name} goes until that zone is whole`, name);
  }
  const { notReady, unknown } = countZone(group, own, pod);
  if (notReady + unknown < allowed) return undefined;
  const [claim] = own.claims;
  const sentence = `${describeCount(notReady, unknown, name)}: ${allowed} may be down, so ${pod.name} stays until one is back`;
  if (claim !== undefined) return waitForClaim(claim, sentence, own);
  return notYet("zone-budget", sentence, name);
}

/** What is down in a zone besides one pod: at wanted ordinals, and pods on their way out. */
function countZone(
  group: EvictionSnapshot,
  { statefulSet, down, missing, leaving }: ZoneThen,
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
    if (counts && !isAvailable(pod, statefulSet.minReadySeconds, group.nowMs)) notReady++;
  }
  return { notReady, unknown };
}

/** Partition mode: the partition, over all zones and with the pod, is within the budget (invariant E1). */
function refuseByPartition(
  group: EvictionSnapshot,
  zones: readonly ZoneThen[],
  own: ZoneThen,
  pod: Pod,
  budget: PartitionedBudget,
  allowed: number,
): Denied | undefined {
  const zone = own.statefulSet.name;
  const { partitions } = budget;
  const partition = partitions.partitionOf(pod.name);
  if (partition === undefined) {
    const { expression, group: number } = partitions;
    const sentence = `pod ${pod.name} has no partition: group ${number} of the expression ${expression} finds nothing in its name`;
    return badRequest("partition-not-identified", sentence, { zone });
  }
  const departed = group.departed.filter((one) => partitions.partitionOf(podNameOf(one)) === partition);
  const { notReady, unknown, nextReadyInMs } = countPartition(zones, pod, partition, budget, group.nowMs);
  const down = notReady + departed.length;
  if (down + unknown < allowed) return undefined;
  const soon =
    nextReadyInMs === undefined
      ? ""
      : `, the first of them in ${Math.ceil(nextReadyInMs / 1000)} s by the cross-zone delay`;
  const sentence = `${describeCount(down, unknown, `partition ${partition}`)}: ${allowed} may be down, so ${pod.name} stays until one is back${soon}`;
  const claim = claimIn(zones, (podName) => partitions.partitionOf(podName) === partition);
  if (claim !== undefined) return waitForClaim(claim, sentence, own);
  return notYet("partition-budget", sentence, zone, nextReadyInMs);
}

/** The first claim by which a pod of a partition counts as down. */
function claimIn(zones: readonly ZoneThen[], isInPartition: (podName: string) => boolean): Claim | undefined {
  for (const zone of zones) {
    for (const [ordinal, why] of zone.down) {
      if (why === "claimed" && isInPartition(podNameOf({ statefulSet: zone.statefulSet.name, ordinal })))
        return claimOn(zone, ordinal);
    }
  }
  return undefined;
}

/** Rule R15: what the API server would refuse after us is not reserved, or the client's retries would renew it for ever. */
function refuseByDisruptionBudget({ disruptionBudgets }: EvictionSnapshot, pod: Pod, zone: string): Denied | undefined {
  const why = refusalOf(pod, disruptionBudgets);
  const sentence = `pod ${pod.name} could go within its zone's budget, but ${why}`;
  // Of two that select it, time cures nothing.
  const refuse = refusingBudget(pod, disruptionBudgets) === undefined ? askAgain : notYet;
  return why === undefined ? undefined : refuse("pod-disruption-budget", sentence, zone);
}

/**
 * Where every eviction of a group is refused behind us, drains of several pods would hold it one after the other, and ask more
 * often than a rollout looks: once one of them was given up, a rollout that has something to do has its turn.
 */
function refuseOutOfTurn(
  { givenUp, nowMs }: EvictionSnapshot,
  zones: readonly ZoneThen[],
  own: ZoneThen,
  pod: Pod,
): Denied | undefined {
  if (own.reserved.get(pod.ordinal)?.uid === pod.uid) return undefined;
  if (!zones.some(({ statefulSet, outdated }) => outdated.length > 0 && !statefulSet.paused)) return undefined;
  // The turn lasts until the one that was given up last lets it end.
  const [last] = [...givenUp.values()].sort((one, other) => other.stampMs - one.stampMs);
  if (last === undefined || nowMs - last.stampMs >= turnMs) return undefined;
  const inMs = last.stampMs + turnMs - nowMs;
  const sentence = `something behind Sluice refused the evictions of ${last.pod}, so the rollout of its group goes first for ${Math.ceil(inMs / 1000)} s more; ${pod.name} may go then`;
  return askAgain("rollout-first", sentence, own.statefulSet.name);
}

function refuseWithoutRoom(zone: ZoneThen, pod: Pod, room: number): Denied | undefined {
  if (room > 0 || isReserved(zone, pod.ordinal)) return undefined;
  const sentence = "the ledger holds as many reservations as it can, and no more are made until some pods are back";
  return askAgain("ledger-full", sentence, zone.statefulSet.name);
}

/** In the ledger, or by an earlier ruling. */
function isReserved({ reserved, down }: ZoneThen, ordinal: number): boolean {
  return reserved.has(ordinal) || down.get(ordinal) === "reserved";
}
