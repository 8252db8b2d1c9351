/** What blocks the removal of a suspended volume, and whether its time is over (suspend-before-delete 3.2; S1 and S2). Pure. */

import { drainedAt, hold } from "../shared/annotations/suspension.ts";
import { type Clocks, earlierMs, whyClocksUnsure } from "../shared/suspension/clocks.ts";
import { whyUndrained } from "../shared/suspension/drain-proof.ts";
import { longestGapMs } from "../shared/suspension/looks.ts";
import { blockedRequeueMs, dataRequeueMs, isSuspended } from "../shared/suspension/message-reporter.ts";
import { whyFrozen } from "../shared/suspension/removal-turn.ts";
import { ageOf, describeSpan, durationNow } from "../shared/suspension/time-left.ts";
import { isRecovering, isRemoving, isUsed, isWantedMember, type Member, whyNeeded } from "../shared/volumes/members.ts";
import { whyUnclear } from "../shared/volumes/owners.ts";
import { type Pvc, valueIn } from "../shared/volumes/pvc.ts";

export interface RemovalBlocked {
  readonly guard: string;
  readonly message: string;
  readonly requeueAfterMs?: number;
}

/** The moment of an observation. */
export interface Now extends Clocks {
  /** Since when observations have had no gap. */
  readonly seenSinceMs: number;
}

function stays({ name }: Member, guard: string, why: string): RemovalBlocked {
  return { guard, message: `the volumes of ${name} stay: ${why}` };
}

/** How soon to check whether a volume is gone, in milliseconds; its event triggers a reconcile. */
export const goneRequeueMs = 2_000;

/** The PersistentVolume should stay when its claim goes. */
export function isRetained({ set }: Pick<Member, "set">, pvc: Pvc): boolean {
  return pvc.isRetained ?? set.policy.isRetained;
}

/** Those of a member's marked volume claims whose PersistentVolumes should stay. Undefined if the member is not to go now. */
export function findRetained(member: Member, marked: readonly Pvc[]): readonly Pvc[] | undefined {
  if (!isRemoving(member) || whyKept(member) !== undefined || whyFrozen(member) !== undefined) return undefined;
  return marked.filter((pvc) => isRetained(member, pvc));
}

export function isOnHold({ set, pvcs }: Member): boolean {
  return set.policy.isOnHold || pvcs.some((pvc) => pvc.isOnHold);
}

/** `due`: its time is over and nothing blocks it. Undefined for a member that is not suspended, or that comes back. */
export function whyBlocked(member: Member, now: Now): RemovalBlocked | "due" | undefined {
  if (!isSuspended(member)) return undefined;
  const removing = isRemoving(member);
  // Before the point of no return a recover wins (invariant S2), and a volume claim without a request is not removed either.
  if (!removing && (isRecovering(member) || member.pvcs.some(({ request }) => valueIn(request) !== true)))
    return undefined;
  // A removal that has begun also waits while the mode is None (spec 3.3).
  const obstacle = removing ? (whyKept(member) ?? whyFrozen(member)) : whyNotYet(member, now);
  if (obstacle !== undefined) return obstacle;
  // All its volume claims are deleted, and are waited for.
  if (removing && member.pvcs.every(({ isTerminating }) => isTerminating)) return whyLingering(member);
  return whyTimeUnsure(member, now) ?? "due";
}

/** What blocks a volume before the point of no return. Other pods are asked about its data when nothing else blocks it (I11). */
function whyNotYet(member: Member, now: Now): RemovalBlocked | undefined {
  const blocked =
    whyUntimedOnHold(member) ??
    whyKept(member) ??
    whyTimeUnsure(member, now) ??
    whyUnsure(member, now) ??
    whyTooNew(member, now);
  if (blocked !== undefined) return blocked;
  const needed = whyNeeded(member);
  if (needed === undefined) return undefined;
  return { ...stays(member, needed.guard, needed.message), requeueAfterMs: dataRequeueMs };
}

/** A hold is what a user wants. A duration that is missing or malformed is a mistake, so the volume claim says that first. */
function whyUntimedOnHold(member: Member): RemovalBlocked | undefined {
  return isOnHold(member) ? whyUntimed(member) : undefined;
}

/** What blocks the removal of a volume at any time. */
function whyKept(member: Member): RemovalBlocked | undefined {
  const { name, set, pvcs, others } = member;
  if (isOnHold(member))
    return stays(member, "on-hold", `${hold.key} says so, or says something that Sluice cannot read`);
  if (pvcs.some(({ ownerUid }) => ownerUid !== set.uid))
    return stays(member, "owner-replaced", `${set.name} is another one than they were suspended from`);
  if (set.isDeleting) return stays(member, "owner-deleting", `${set.name} is being deleted`);
  if (isWantedMember(member) && set.owner === undefined)
    return stays(member, "wanted-again", `${set.name} wants that pod again`);
  if (!isUsed(member)) return undefined;
  const users = member.pod === undefined ? others.map((pod) => pod.name).join(", ") : name;
  return stays(member, "in-use", `${users || "a pod"} uses one of them`);
}

/**
 * Why a removal that was begun does not go on. While one volume claim is not deleted, its user can take the removal back. After
 * that a hold, the mode None, or a pod that came back keep our finalizer there.
 */
export function whyTakenBack(member: Member, now: Now): RemovalBlocked | undefined {
  const { name, pod, pvcs } = member;
  const isDeleted = pvcs.every(({ isTerminating }) => isTerminating);
  // A second volume claim may have lost its mark when the pod was seen.
  const isMarkedDeleted = pvcs.every(({ state, isTerminating }) => isTerminating || valueIn(state) !== "Removing");
  if (isMarkedDeleted && pod !== undefined && isWantedMember(member)) {
    const message = `${name} came back after the removal of its volume had begun: its volume is kept for its time when that pod goes`;
    return { guard: "in-use", message };
  }
  const frozen = whyFrozen(member);
  if (isDeleted) return isOnHold(member) ? whyKept(member) : frozen;
  const blocked = whyKept(member) ?? frozen ?? whyTimeUnsure(member, now) ?? whyUnsure(member, now);
  if (blocked !== undefined) return blocked;
  const isUntouched = !pvcs.some(({ isTerminating }) => isTerminating);
  const unwanted = `${name} was marked for its removal${isUntouched ? ", of which nothing is deleted yet" : ""}: it is not removed, for`;
  if (isRecovering(member)) return { guard: "recovering", message: `${unwanted} a user wants it back` };
  const isAsked = pvcs.every(({ request }) => valueIn(request) === true);
  return isAsked ? undefined : { guard: "withdrawn", message: `${unwanted} not every volume claim asks for that` };
}

/** True if it is deleted and not on hold, and waits for a removal that does not come. Its end then depends only on time. */
export function isStuck(member: Member, nowMs: number): boolean {
  if (isOnHold(member)) return false;
  const { set, pvcs } = member;
  const isAsked = pvcs.every(({ request }) => valueIn(request) === true);
  const isReplaced = pvcs.some(({ ownerUid }) => ownerUid !== undefined && ownerUid !== set.uid);
  return !isAsked || isReplaced || isWantedMember(member) || whyUndrained(member, nowMs) !== undefined;
}

/**
 * Until when a deleted volume claim is kept that no pod can use any more, in milliseconds since the epoch: for its time since it
 * was deleted, and since its pod was gone. Undefined where its duration is missing or malformed.
 */
export function keptUntil(member: Member, { deletedMs, suspendedMs = 0 }: Pvc): number | undefined {
  const duration = durationNow(member);
  return duration.kind === "value" && deletedMs !== undefined
    ? Math.max(deletedMs, suspendedMs) + duration.value
    : undefined;
}

function whyUnsure(member: Member, { nowMs }: Now): RemovalBlocked | undefined {
  const unclear = whyUnclear(member);
  if (unclear !== undefined) return unclear;
  const undrained = whyUndrained(member, nowMs);
  // Another pod's fresh answer that the data is not needed is newer than any annotation.
  const isAsked = member.drain !== undefined && whyNeeded(member) === undefined;
  if (undrained !== undefined && undrained.guard !== "not-drained" && !isAsked)
    return stays(member, undrained.guard, undrained.message);
  if (undrained?.guard === "not-drained")
    return stays(member, "drain-lost", `${drainedAt.key} does not say any more that their data is not needed`);
  return whyUntimed(member);
}

function whyUntimed(member: Member): RemovalBlocked | undefined {
  const duration = durationNow(member);
  return duration.kind === "value" ? undefined : stays(member, duration.guard, duration.message);
}

/**
 * If the clocks contradict each other, nothing is marked or deleted. This guard comes before those that compare times, because
 * for a clock that is behind, each time is in the future.
 */
export function whyTimeUnsure(member: Member, now: Now): RemovalBlocked | undefined {
  const why = whyClocksUnsure(now);
  return why && { ...stays(member, why.guard, why.message), requeueAfterMs: blockedRequeueMs };
}

/** True if its duration is known, and is over by every witness of its pod's absence. */
export function isOver(member: Member, now: Now): boolean {
  return durationNow(member).kind === "value" && whyTooNew(member, now) === undefined;
}

function whyTooNew(member: Member, now: Now): RemovalBlocked | undefined {
  const keptFor = durationNow(member);
  const ageMs = ageOf(member, earlierMs(now), now.seenSinceMs);
  if (keptFor.kind !== "value") return undefined;
  if (ageMs === undefined) return stays(member, "stamp-missing", "Sluice cannot tell since when its pod has been gone");
  const leftMs = keptFor.value - ageMs;
  if (leftMs <= 0) return undefined;
  const kept = `the volumes of ${member.name} are kept for ${describeSpan(leftMs)} more`;
  const duration = describeSpan(keptFor.value);
  // The time begins in the future only after a change of the size by another client.
  const isAhead = leftMs > keptFor.value && (member.set.resizedMs ?? 0) + longestGapMs > earlierMs(now);
  const message = isAhead
    ? `${kept}: another client changed the size of ${member.set.name}, and their ${duration} begin up to 10 minutes later`
    : `${kept}, of ${duration}`;
  return { guard: "suspended", message, requeueAfterMs: leftMs };
}

/** It is deleted and not gone, because another finalizer or a pod keeps it. */
function whyLingering({ name, pvcs }: Member): RemovalBlocked | undefined {
  const foreign = pvcs.find(({ hasOurFinalizer, finalizers }) => !hasOurFinalizer && finalizers.length > 0);
  if (foreign === undefined)
    return { guard: "removing", message: `the volumes of ${name} go`, requeueAfterMs: goneRequeueMs };
  const message = `${foreign.name} is deleted and not gone: ${foreign.finalizers.join(", ")} holds it, which is not ours to take away`;
  return { guard: "finalizer-foreign", message, requeueAfterMs: blockedRequeueMs };
}
