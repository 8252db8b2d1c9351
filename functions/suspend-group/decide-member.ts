/** The decision about one member whose volumes are to be suspended, or are wanted back (spec suspend-before-delete 3.2). Pure. */

import { suspendDuration } from "../shared/annotations/suspension.ts";
import { formatTime } from "../shared/clock/durations.ts";
import { wallClockSkewMs } from "../shared/clock/skew.ts";
import { type Clocks, laterMs } from "../shared/suspension/clocks.ts";
import { isDrained, whyUndrained } from "../shared/suspension/drain-proof.ts";
import { dataRequeueMs } from "../shared/suspension/message-reporter.ts";
import { type Anew, whyAnew } from "../shared/suspension/restart-time.ts";
import {
  describeAgreeing,
  durationOf,
  isBegun,
  isRecovering,
  isRemoving,
  isRequested,
  isSuspendedInPart,
  isUsed,
  isWantedMember,
  type Member,
  whyNeeded,
} from "../shared/volumes/members.ts";
import { type Pvc, valueIn } from "../shared/volumes/pvc.ts";
import { whyNotBegun } from "./obstacles.ts";

/** One write about one member. */
export type MemberStep =
  /** Other pods agreed that its data is not needed: its volume claims also record that. */
  | { readonly kind: "prove"; readonly member: Member; readonly pvcs: readonly Pvc[] }
  /** Its volume claims get our finalizer, before anything goes. */
  | { readonly kind: "protect"; readonly member: Member; readonly pvcs: readonly Pvc[] }
  /** Its pod is gone: the time runs from now. */
  | { readonly kind: "stamp"; readonly member: Member; readonly pvcs: readonly Pvc[] }
  /** Its pod is wanted or there, or a volume is in use: the time begins anew when that is over. */
  | { readonly kind: "restamp"; readonly member: Member; readonly anew: Anew }
  /** How long it is kept has changed, and is written down. */
  | { readonly kind: "note"; readonly member: Member; readonly pvcs: readonly Pvc[] }
  /** Nothing of ours stays on its volume claims. */
  | { readonly kind: "clear"; readonly member: Member; readonly how: "recovered" | "withdrawn" | "in-use-again" }
  /** The mark of a removal that the ledger knows nothing of goes: the time begins anew. */
  | { readonly kind: "unmark"; readonly member: Member; readonly pvcs: readonly Pvc[] }
  /** A wish that cannot be fulfilled any more. */
  | { readonly kind: "answer-recover"; readonly member: Member; readonly pvcs: readonly Pvc[] };

/** A member's wait or its next step; `goes`: its pod is to go, and its zone's turn decides when. */
export interface MemberDecision {
  readonly guard: string;
  readonly message: string;
  readonly step?: MemberStep;
  readonly wish?: "goes" | "returns";
  readonly requeueAfterMs?: number;
}

/** How soon to check whether a pod is gone, or ready, in milliseconds. No event of a pod triggers this function. */
export const podRequeueMs = 2_000;
/** How soon to check a value again that a user has to correct, in milliseconds. */
const mendRequeueMs = 30_000;

/**
 * Undefined for a member of which nothing is wanted. `protects`: volume claims may get our finalizer. What was seen of its
 * pod comes before every word. Only a step that clears the volume claims comes before it, because it takes the time away as well.
 */
export function decideMember(member: Member, now: Clocks, protects: boolean): MemberDecision | undefined {
  const decision = decideByState(member, now, protects);
  const anew = decision?.step?.kind === "clear" ? undefined : whyAnew(member);
  if (anew === undefined) return decision;
  return { guard: anew.guard, message: anew.message, step: { kind: "restamp", member, anew } };
}

function decideByState(member: Member, now: Clocks, protects: boolean): MemberDecision | undefined {
  const { name, pvcs } = member;
  const unmarking = decideMarks(member);
  if (unmarking !== undefined) return unmarking;
  if (isRemoving(member)) return decideRemoving(member);
  const deleted = pvcs.find(({ isTerminating }) => isTerminating);
  if (deleted !== undefined) return decideDeleted(member, deleted, now, protects);
  const unreadable = pvcs.find(({ state }) => state.kind === "malformed");
  if (unreadable?.state.kind === "malformed")
    return { guard: "state-malformed", message: `${name} stays as it is: ${unreadable.state.message}` };
  if (isRecovering(member)) return decideReturning(member, "recovered");
  const request = pvcs.map((pvc) => pvc.request).find(({ kind }) => kind === "malformed");
  if (request?.kind === "malformed")
    return { guard: "request-malformed", message: `${name} stays as it is: ${request.message}` };
  if (!isRequested(member)) return decideUnrequested(member);
  return decideRequested(member, now, protects);
}

/** A mark that the ledger does not know is removed. */
function decideMarks(member: Member): MemberDecision | undefined {
  const pvcs = member.pvcs.filter((one) => one.isMarkFalse);
  const [state] = pvcs.map((one) => one.state);
  if (state?.kind !== "malformed") return undefined;
  const message = `no volume of ${member.name} is removed by that mark: ${state.message}; the time begins anew`;
  return { guard: "mark-unknown", message, step: { kind: "unmark", member, pvcs } };
}

/** A request after the point of no return is answered once, with a refusal. */
function decideRemoving(member: Member): MemberDecision | undefined {
  const { name, pvcs, pod } = member;
  if (pod !== undefined && pvcs.some(({ isTerminating }) => !isTerminating) && isWantedMember(member)) {
    const step: MemberStep = { kind: "clear", member, how: "in-use-again" };
    return { guard: "in-use-again", message: `${name} is there again: its volumes are not removed`, step };
  }
  if (!isRecovering(member)) return undefined;
  if (pvcs.some(({ isTerminating }) => !isTerminating)) {
    const message = `${name} is wanted again, and its removal has begun: gc-suspended-groups takes that back first, unless it has deleted it`;
    return { guard: "recovering", message, requeueAfterMs: podRequeueMs };
  }
  const message = `${name} cannot come back with its volume: the removal of its volume claim has begun`;
  return { guard: "recover-too-late", message, step: { kind: "answer-recover", member, pvcs: member.pvcs } };
}

/** Another client has deleted a volume claim, which cannot be undone. Its volume is kept as long as it would have been. */
function decideDeleted(
  member: Member,
  { name: claim }: Pvc,
  now: Clocks,
  protects: boolean,
): MemberDecision | undefined {
  const { name, pod } = member;
  if (isRecovering(member)) {
    const lost = `another client has deleted the volume claim ${claim}, which cannot be undone; save its PersistentVolume`;
    const pvcs = member.pvcs.filter(({ isTerminating, recover }) => isTerminating && recover.kind !== "absent");
    if (pvcs.length > 0) {
      const message = `${name} cannot come back with its volume: ${lost}`;
      return { guard: "recover-too-late", message, step: { kind: "answer-recover", member, pvcs } };
    }
    // The request for the others stands, and keeps them.
    const message = `${name} comes back with its other volumes when ${claim} is gone: ${lost}, and take our finalizer from it`;
    return { guard: "deleted-by-others", message };
  }
  if (!isBegun(member)) return undefined;
  if (pod === undefined && !isWantedMember(member) && isRequested(member))
    return decideRequested(member, now, protects);
  const message = `another client has deleted the volume claim ${claim} of ${name}: our finalizer keeps its volume${untilWhen(member)}, or until a user takes the finalizer away`;
  return { guard: "deleted-by-others", message };
}

/** The end of a deleted volume claim's time, since its deletion and since its pod was gone. */
function untilWhen(member: Member): string {
  const keptMs = valueIn(durationOf(member));
  const sinceMs = Math.max(
    ...member.pvcs.map(({ deletedMs = 0, suspendedMs = 0 }) => Math.max(deletedMs, suspendedMs)),
  );
  return keptMs === undefined ? " for its time" : ` until ${formatTime(sinceMs + keptMs)}`;
}

/** The request is gone, although the suspension has begun: it is taken back. */
function decideUnrequested(member: Member): MemberDecision | undefined {
  if (!isBegun(member)) {
    const { name, pvcs } = member;
    const asked = pvcs.some(({ request }) => valueIn(request) === true);
    const message = `${name} has several volume claims, and not each of them asks`;
    return asked ? { guard: "request-incomplete", message, requeueAfterMs: mendRequeueMs } : undefined;
  }
  return decideReturning(member, "withdrawn");
}

/** Its pod comes back; only when it is ready on the same volume claims are Sluice's annotations removed. */
function decideReturning(member: Member, how: "recovered" | "withdrawn"): MemberDecision {
  const { name, pod, pvcs, set } = member;
  if (how === "recovered" && pvcs.some(({ isRemovalHeld }) => isRemovalHeld)) {
    const message = `${name} is wanted again: ${set.owner ?? set.name} is first to give up its removal`;
    return { guard: "recovering", message, requeueAfterMs: podRequeueMs };
  }
  if (!isBegun(member)) return clearing(member, how, `${name} is not suspended: there is nothing to take back`);
  // Another owner brings its pod back itself.
  if (!isWantedMember(member) && member.set.owner === undefined) {
    const message = `${name} is to come back with the same volume`;
    return { guard: "recovering", message, wish: "returns", requeueAfterMs: podRequeueMs };
  }
  if (pod === undefined || pod.isTerminating || !pod.isReady) {
    const what = pod === undefined ? awaited(member) : pod.isTerminating ? "on its way out" : "not ready yet";
    return { guard: "recovering", message: `${name} is wanted again, and ${what}`, requeueAfterMs: podRequeueMs };
  }
  return clearing(member, how, `${name} is ready, with the same volume`);
}

function awaited({ set }: Member): string {
  return set.owner === undefined ? "not there yet" : `not there yet: ${set.owner} is to bring it back`;
}

function clearing(member: Member, how: "recovered" | "withdrawn" | "in-use-again", message: string): MemberDecision {
  return { guard: how, message, step: { kind: "clear", member, how } };
}

function decideRequested(member: Member, now: Clocks, protects: boolean): MemberDecision | undefined {
  const { name } = member;
  const duration = durationOf(member);
  if (duration.kind === "malformed")
    return { guard: "duration-malformed", message: `${name} stays as it is: ${duration.message}` };
  if (duration.kind === "absent") {
    const lacking =
      member.set.owner === undefined
        ? `${member.set.name} has no ${suspendDuration.key}`
        : `not each of its volume claims has ${suspendDuration.key}`;
    const message = `${name} stays as it is: ${lacking}, so that Sluice does not know how long a volume is kept`;
    return { guard: "duration-missing", message };
  }
  if (isSuspendedInPart(member))
    return decideSuspended(member, now, protects) ?? decideUnfinalized(member, protects) ?? decideKept(member);
  const why = whyNotBegun(member);
  if (why !== undefined) return { ...why, requeueAfterMs: mendRequeueMs };
  const replaced = decideReplaced(member);
  if (replaced !== undefined) return replaced;
  const undrained = decideDrain(member, now.nowMs);
  if (undrained !== undefined) return undrained;
  const unfinalized = decideUnfinalized(member, protects);
  if (unfinalized !== undefined) return unfinalized;
  if (!protects) return uninstalling(member);
  return decideSuspending(member);
}

function uninstalling({ name }: Member): MemberDecision {
  return { guard: "uninstalling", message: `${name} stays: VOLUME_HOLD is remove` };
}

/** If other pods are asked, their answer counts until its StatefulSet has given the pod up; it is then recorded. */
function decideDrain(member: Member, nowMs: number): MemberDecision | undefined {
  const { name, set, pvcs } = member;
  const needed = whyNeeded(member);
  const isLeaving = isBegun(member) && !isWantedMember(member);
  if (isLeaving && isDrained(member, nowMs)) return undefined;
  if (needed !== undefined)
    return { guard: needed.guard, message: `${name} stays: ${needed.message}`, requeueAfterMs: dataRequeueMs };
  if (isDrained(member, nowMs)) return undefined;
  if (set.policy.drain.kind === "value") {
    const step: MemberStep = { kind: "prove", member, pvcs };
    return { guard: "drained", message: describeAgreeing(member) ?? name, step };
  }
  const why = whyUndrained(member, nowMs);
  return why && { guard: why.guard, message: `${name} stays: ${why.message}` };
}

/** Our finalizer comes before anything else; a volume claim that is being deleted takes none, and may have one of ours. */
function decideUnfinalized(member: Member, protects: boolean): MemberDecision | undefined {
  const pvcs = member.pvcs.filter(({ state, hasOurFinalizer, isTerminating }) =>
    isTerminating ? hasOurFinalizer && state.kind === "absent" : state.kind === "absent" || !hasOurFinalizer,
  );
  if (pvcs.length === 0 || !protects) return undefined;
  const step: MemberStep = { kind: "protect", member, pvcs };
  return { guard: "protecting", message: `the volume claims of ${member.name} get our finalizer first`, step };
}

/** Its pod was taken, and another one stands in its place before the time has begun. */
function decideReplaced(member: Member): MemberDecision | undefined {
  const { name, pod, pvcs } = member;
  const isOther = pod !== undefined && pvcs.some(({ podUid }) => podUid !== undefined && podUid !== pod.uid);
  if (!isOther || pod.isTerminating || !isWantedMember(member)) return undefined;
  return clearing(member, "in-use-again", `${name} is there again, as another pod: it is not suspended`);
}

/** Protected; its pod goes in its turn, and its absence starts the time. */
function decideSuspending(member: Member): MemberDecision {
  const { name, pod, pvcs } = member;
  if (isWantedMember(member)) {
    if (pod === undefined || pod.isTerminating)
      return { guard: "pod-missing", message: `${name} is wanted and not there`, requeueAfterMs: podRequeueMs };
    return { guard: "suspending", message: `${name} is to go`, wish: "goes" };
  }
  if (pod !== undefined)
    return { guard: "pod-leaving", message: `${name} is on its way out`, requeueAfterMs: podRequeueMs };
  if (isUsed(member)) {
    const message = `${name} is gone, and the API server still shows one of its volumes in use (condition Unused)`;
    return { guard: "pod-leaving", message, requeueAfterMs: podRequeueMs };
  }
  const step: MemberStep = { kind: "stamp", member, pvcs };
  return { guard: "stamping", message: `${name} is gone: the time runs from now`, step };
}

/** A user has changed how long a volume is kept, which also counts when its StatefulSet is gone. */
function decideKept(member: Member): MemberDecision | undefined {
  const duration = durationOf(member);
  // For another owner the volume claim itself sets it.
  if (duration.kind !== "value" || member.set.owner !== undefined) return undefined;
  const keptMs = Math.ceil(duration.value / 1_000) * 1_000;
  const pvcs = member.pvcs.filter((one) => valueIn(one.state) === "Suspended" && one.keptForMs !== keptMs);
  if (pvcs.length === 0) return undefined;
  const message = `the volumes of ${member.name} are kept for ${keptMs / 1_000} s, also when its StatefulSet is gone`;
  return { guard: "suspended", message, step: { kind: "note", member, pvcs } };
}

function decideSuspended(member: Member, now: Clocks, protects: boolean): MemberDecision | undefined {
  const { name, pod, pvcs } = member;
  if (pod !== undefined && pvcs.some(({ podUid }) => podUid !== pod.uid))
    return clearing(member, "in-use-again", `${name} is there again: its volumes are in use`);
  // A stamp that is of the future by both clocks counts from now: it does not tell since when the pod has been gone. By a clock
  // that is days behind every stamp would be of the future. One of several volume claims that is marked for its removal stays so:
  // the collector goes on.
  const unstamped = pvcs.filter(
    ({ suspendedMs, state }) =>
      suspendedMs === undefined || suspendedMs > laterMs(now) + wallClockSkewMs || valueIn(state) === "Suspending",
  );
  if (unstamped.length === 0 || isUsed(member)) return undefined;
  if (!protects) return uninstalling(member);
  const message = `Sluice cannot tell since when ${name} has been gone: its time runs from now`;
  return { guard: "stamping", message, step: { kind: "stamp", member, pvcs: unstamped } };
}
