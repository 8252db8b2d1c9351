/** Whether a pod may be evicted now: which pods of a group's reviews may go, or which guard blocks each of them. Pure. */

import { allow, askAgain, notYet } from "../shared/admission/answers.ts";
import type { AdmissionAnswer, Denied } from "../shared/admission/definition.ts";
import { formatTime } from "../shared/clock/durations.ts";
import { governing, type Surroundings } from "../shared/groups/governing.ts";
import { type PodDisruptionBudget, refusalOf, severalBudgets } from "../shared/groups/pod-disruption-budget.ts";
import type { Departed } from "../shared/groups/refuse-claim.ts";
import { claimOn, type Zone } from "../shared/groups/zones.ts";
import { type Questions, warnOfUnknown } from "../shared/health/permit.ts";
import type { Claim } from "../shared/ledger/claim.ts";
import { isGivenUp, refusalOfRenewals, yieldMs } from "../shared/ledger/renewals.ts";
import { dropAfterMs, finishAfterMs, type Refusal, type Reservation } from "../shared/ledger/reservation.ts";
import { isOwnerGroup } from "../shared/workloads/group-key.ts";
import { type Pod, podNameOf } from "../shared/workloads/pods.ts";
import { asStatefulSet, type GroupKey, type ZoneWorkload } from "../shared/workloads/statefulsets.ts";
import { type GroupThen, refuseByBudget, waitForClaim, type ZoneThen } from "./budget.ts";
import { exempt, findPod, isExempt, leaving, left, refuseForever, ungovernable, unseen } from "./decide-alone.ts";
import { needsLedger, refuseBeside, refuseBesideDeparted, refuseByQuestion, type Taken } from "./decide-asked.ts";
import type { Decision, Eviction, ReviewedEviction } from "./group-commit/sort-decisions.ts";
import { claimOnOwned, refuseBesideZones, reserveOwned } from "./owned.ts";

/** Everything on which the decision about a group's reviews rests. */
export interface EvictionSnapshot extends GroupThen {
  readonly key: GroupKey;
  /** The function that decides: it leaves alone what other functions have reserved. */
  readonly self: string;
  /** By uid the resourceVersion of each pod that a GET has shown to be down since the ledger was read. */
  readonly down?: ReadonlyMap<string, string>;
  /** By name, byte-wise ascending. */
  readonly zones: readonly Zone<ZoneWorkload>[];
  /** The claims on StatefulSets that are none of the group's any more. */
  readonly strayClaims: readonly Claim[];
  /** Pods that were allowed to go for too long and never went, by uid, and whose reservations have been dropped. */
  readonly givenUp: ReadonlyMap<string, Refusal>;
  readonly surroundings: Surroundings<ZoneWorkload>;
  readonly disruptionBudgets: readonly PodDisruptionBudget[];
  /** How many more reservations the ledger takes (rule R2). */
  readonly room: number;
  /** What asked pods have said; absent where no StatefulSet of the group asks. */
  readonly questions?: Questions | undefined;
  readonly asked: readonly ReviewedEviction[];
}

/** One decision for each review, in order. Each counts the earlier ones that allow and are no dry runs. */
export function decide(group: EvictionSnapshot): readonly Decision[] {
  const zones = group.zones.map((zone): ZoneThen => ({ ...zone, down: new Map(zone.down) }));
  let { room } = group;
  const taken: Taken[] = [];
  return group.asked.map(({ eviction, dryRun }): Decision => {
    const decision = rule(group, zones, eviction, { room, taken });
    const { reserve } = decision;
    if (reserve === undefined || dryRun) return decision;
    taken.push({ ...reserve, name: eviction.name });
    const zone = zones.find(({ workload }) => workload.name === reserve.statefulSet);
    if (zone === undefined || !isReserved(zone, reserve.ordinal)) room--;
    zone?.down.set(reserve.ordinal, "reserved");
    return decision;
  });
}

/** The room that earlier decisions have left in the ledger, and the pods that they have let go. */
interface Before {
  readonly room: number;
  readonly taken: readonly Taken[];
}

function rule(group: EvictionSnapshot, zones: readonly ZoneThen[], eviction: Eviction, before: Before): Decision {
  const isOwned = isOwnerGroup(group.key.group);
  const found = findPod(zones, eviction, isOwned);
  if (found === undefined) return { answer: eviction.isLeaving ? left(eviction) : unseen(eviction) };
  const { pod, zone } = found;
  const { name } = zone.workload;
  // Rule R11: an eviction that pins no uid may arrive when another pod has the name, and would take that.
  if (!eviction.isPinned && (pod.terminating || eviction.isLeaving)) return { answer: leaving(eviction, name) };
  if (isExempt(pod)) return { answer: ifPinned(eviction, exempt(pod, eviction)) };
  if (isOwned) return ruleOwned(group, zones, { zone, pod, eviction }, before);
  const governed = governing(pod, group.surroundings, group.key);
  if (governed.kind === "none" && !needsLedger(zone.workload)) {
    return { answer: ifPinned(eviction, allow("out-of-scope", { zone: name, patch: eviction.pin })) };
  }
  if (governed.kind === "ungovernable") return { answer: ungovernable(governed, name) };
  return ruleGoverned(group, zones, { zone, pod, eviction }, governed, before);
}

/** Rule R11: a pod goes without a reservation only if its eviction cannot take its successor. */
function ifPinned(eviction: Eviction, answer: AdmissionAnswer): AdmissionAnswer {
  return eviction.isPinned ? answer : unseen(eviction);
}

/** A pod that a budget governs, or that goes beside its group without one. */
function ruleGoverned(
  group: EvictionSnapshot,
  zones: readonly ZoneThen[],
  { zone, pod, eviction }: OwnedPod,
  governed: Exclude<ReturnType<typeof governing>, { kind: "ungovernable" }>,
  before: Before,
): Decision {
  const { name } = zone.workload;
  const blocked =
    (governed.kind === "one" ? refuseForever(group, pod, name, governed) : undefined) ??
    refuseClaimed(group, zone, pod) ??
    refuseByName(group, zone, pod, eviction, before.taken) ??
    refuseGivenUp(group, pod, zone, zone.reserved.get(pod.ordinal)) ??
    (governed.kind === "one"
      ? refuseByBudget(group, zones, zone, pod, governed)
      : (refuseBesideDeparted(group.departed, name) ?? refuseBeside(zones, zone, pod)));
  const revision = blocked !== undefined && ofOthers.has(blocked.guard) ? group.down?.get(pod.uid) : undefined;
  const refusal =
    (revision === undefined ? blocked : undefined) ??
    refuseByDisruptionBudget(group, pod, name) ??
    refuseOutOfOrder(group, zones, zone, pod) ??
    (revision === undefined ? refuseWithoutRoom(zone, pod, before.room) : undefined) ??
    refuseByQuestion(group.questions, zones, zone, pod, before.taken);
  if (refusal !== undefined) return { answer: refusal };
  if (revision !== undefined) return { answer: allowDown(eviction, revision, name) };
  const reserve = { statefulSet: name, ordinal: pod.ordinal, uid: pod.uid };
  const warnings = [warnOfUnknown(group.questions, pod)].filter((warning) => warning !== undefined);
  return { answer: allow("allowed", { zone: name, warnings, patch: eviction.pin }), reserve };
}

/** The guards at which a pod that is up waits for other pods. They do not apply to a pod that is already down. */
const ofOthers: ReadonlySet<string> = new Set(["zones-down", "zone-budget", "partition-budget", "zone-departed"]);

/**
 * Broken pods of two zones would otherwise wait for each other for ever, and so would the drain of a bad node
 * (kubernetes#72320). A pod that is down counts the same once it is gone, so that no function reserves it: exactly this
 * revision goes, or nothing (rule R13).
 */
function allowDown({ name, pin }: Eviction, revision: string, zone: string): AdmissionAnswer {
  const warnings = [`${name} is down already, and goes beside the budget, as it was seen`];
  const patch = [...pin, { op: "add", path: "/deleteOptions/preconditions/resourceVersion", value: revision }];
  return allow("allowed", { zone, warnings, patch });
}

interface OwnedPod {
  readonly zone: ZoneThen;
  readonly pod: Pod;
  readonly eviction: Eviction;
}

/** A pod of another owner than a StatefulSet: no budget limits it, and what its ledger holds does. */
function ruleOwned(
  group: EvictionSnapshot,
  zones: readonly ZoneThen[],
  { zone, pod, eviction }: OwnedPod,
  { room, taken }: Before,
): Decision {
  const { name } = zone.workload;
  const claim = claimOnOwned(zone, pod) ?? group.strayClaims[0];
  // A pod's reservation has a name that no zone of an owner has.
  const open = group.departed.filter((one): one is Departed & Reservation => "uid" in one);
  // The reservation of this pod, or of the one that had its name before.
  const before = open.find((one) => podNameOf(one) === pod.name);
  const others = open.map((one) => ({ uid: one.uid, name: podNameOf(one) }));
  const refusal =
    (claim && waitForClaim(claim, `${pod.name} stays until it ends`, zone)) ??
    refuseByName(group, zone, pod, eviction, taken, before) ??
    refuseGivenUp(group, pod, zone, before) ??
    refuseBesideZones(zones, zone, pod, [...others.filter((one) => one.name !== pod.name), ...taken]) ??
    refuseByDisruptionBudget(group, pod, name) ??
    (before === undefined ? refuseWithoutRoom(zone, pod, room) : undefined);
  if (refusal !== undefined) return { answer: refusal };
  return { answer: allow("allowed", { zone: name, patch: eviction.pin }), reserve: reserveOwned(pod) };
}

/**
 * Rule R11: an eviction that names no uid may be on its way to the pod that was there before, and would take this one. The
 * pod that came instead stays until no process can act on that reservation any more.
 *
 * So does a pod that is reserved itself, while what was allowed by that reservation may be on its way: this eviction would take
 * the pod that comes instead before it was ready once. This function does not know when another one sent its deletion.
 */
function refuseByName(
  group: EvictionSnapshot,
  zone: ZoneThen,
  pod: Pod,
  { isPinned }: Eviction,
  taken: readonly Taken[],
  reservation: Reservation | undefined = zone.reserved.get(pod.ordinal),
): Denied | undefined {
  if (isPinned) return undefined;
  if (taken.some(({ uid }) => uid === pod.uid)) return waitForOther(zone, pod.name, finishAfterMs);
  if (reservation === undefined) return undefined;
  if (reservation.uid === pod.uid) return refuseReserved(group, zone, pod, reservation);
  if (group.nowMs - reservation.stampMs >= dropAfterMs) return undefined;
  const message = `${pod.name} has just replaced a pod that was evicted, and is not ready yet; it may go when it is`;
  return notYet("replacement-reserved", message, zone.workload.name);
}

/** A wait for another function has no end of its own: rule R10 drops a reservation on which no process can act any more. */
function refuseReserved(
  { self, nowMs }: EvictionSnapshot,
  zone: ZoneThen,
  { name }: Pod,
  { by, stampMs }: Reservation,
): Denied | undefined {
  if (by === self) {
    const againInMs = stampMs + finishAfterMs - nowMs;
    return againInMs > 0 ? waitForOther(zone, name, againInMs) : undefined;
  }
  const until = formatTime(stampMs + dropAfterMs);
  const message = `${name} is reserved by ${by}, whose deletion may be on its way, and this eviction names no uid, so that it could take the pod that comes instead; ${name} may go when that pod is ready, or at ${until} if the deletion never comes`;
  return notYet("replacement-reserved", message, zone.workload.name);
}

/** Another eviction of the same pod was allowed a moment ago. */
function waitForOther({ workload }: ZoneThen, pod: string, againInMs: number): Denied {
  const message = `${pod} was allowed to go a moment ago, and this eviction names no uid, so that it could take the pod that comes instead; if ${pod} is still there it may go in ${Math.ceil(againInMs / 1000)} s`;
  return notYet("replacement-reserved", message, workload.name, againInMs);
}

/**
 * Rule R12 has an end: if a pod was allowed again and again and still exists, another webhook or the API server refuses its
 * eviction. Its reservation is not renewed, so that it lapses (rule R10), and the pod gets no new one before its siblings'
 * turn.
 */
function refuseGivenUp(
  { givenUp }: EvictionSnapshot,
  pod: Pod,
  zone: ZoneThen,
  reservation: Reservation | undefined,
): Denied | undefined {
  const isStanding = reservation?.uid === pod.uid && isGivenUp(reservation);
  const refusal = isStanding ? refusalOfRenewals(reservation) : givenUp.get(pod.uid);
  if (refusal === undefined) return undefined;
  return askAgain("eviction-not-carried-out", refusal.message, zone.workload.name);
}

/**
 * Rule R18: a pod that a claim names belongs to the claim's function, and no other function takes it. This function cannot know
 * which pods a claim on a StatefulSet outside the group takes down, so that every pod waits for its end.
 */
function refuseClaimed({ strayClaims }: EvictionSnapshot, zone: ZoneThen, { name, ordinal }: Pod): Denied | undefined {
  const claim = claimOn(zone, ordinal) ?? strayClaims[0];
  return claim && waitForClaim(claim, `${name} stays until it ends`, zone);
}

/**
 * Rule R15: an eviction that the API server would refuse afterwards is not reserved, because the client's retries would renew
 * it for ever.
 */
function refuseByDisruptionBudget({ disruptionBudgets }: EvictionSnapshot, pod: Pod, zone: string): Denied | undefined {
  const several = severalBudgets(pod, disruptionBudgets);
  if (several !== undefined) return askAgain("never-possible", `${pod.name} stays: ${several}`, zone);
  const why = refusalOf(pod, disruptionBudgets);
  const message = `pod ${pod.name} could go within its zone's budget, but ${why}`;
  return why === undefined ? undefined : notYet("pod-disruption-budget", message, zone);
}

/**
 * Where something behind Sluice refuses every eviction of a group, drains of several pods would hold it one after the other, and
 * ask more often than a rollout reconciles. So once one of them was given up, a rollout that has something to do has its turn.
 */
function refuseOutOfOrder(
  { givenUp, nowMs }: EvictionSnapshot,
  zones: readonly ZoneThen[],
  own: ZoneThen,
  pod: Pod,
): Denied | undefined {
  if (own.reserved.get(pod.ordinal)?.uid === pod.uid) return undefined;
  if (!zones.some(({ workload, outdated }) => outdated.length > 0 && !asStatefulSet(workload).paused)) return undefined;
  // The turn lasts until the pod that was given up last lets it end.
  const [last] = [...givenUp.values()].sort((one, other) => other.stampMs - one.stampMs);
  if (last === undefined || nowMs - last.stampMs >= yieldMs) return undefined;
  const inMs = last.stampMs + yieldMs - nowMs;
  const message = `something behind Sluice refused the evictions of ${last.pod}, so the rollout of its group goes first for ${Math.ceil(inMs / 1000)} s more; ${pod.name} may go then`;
  return askAgain("rollout-first", message, own.workload.name);
}

function refuseWithoutRoom(zone: ZoneThen, pod: Pod, room: number): Denied | undefined {
  if (room > 0 || isReserved(zone, pod.ordinal)) return undefined;
  const message = "the ledger holds as many reservations as it can, and no more are made until some pods are back";
  return askAgain("ledger-full", message, zone.workload.name);
}

/** It is reserved in the ledger, or by an earlier decision. */
function isReserved({ reserved, down }: ZoneThen, ordinal: number): boolean {
  return reserved.has(ordinal) || down.get(ordinal) === "reserved";
}
