/**
 * Which function says on a volume claim what it waits for. Both observe the same members, and one annotation holds one message.
 * If both wrote it, each write would trigger the other function, without an end. Pure.
 */

import { isRecovering, isRequested, type Member } from "../volumes/members.ts";
import { hasNewPartners } from "../volumes/owners.ts";
import { valueIn } from "../volumes/pvc.ts";
import { isPodNews } from "./drain-proof.ts";

/** How long a volume claim keeps a message before the same process overwrites it with another one, in milliseconds. */
export const keptMessageMs = 10_000;
/** When to read a blocked member again, in milliseconds, because a volume claim has no watch. */
export const blockedRequeueMs = 15_000;
/** When to check again whether a database has moved its data, in milliseconds, because no event reports that. */
export const dataRequeueMs = 10_000;

/** True if a volume claim's message only reports its pod's progress and no reason to wait, or if it has none yet. */
export function isProgress(guard: string | undefined): boolean {
  return guard === undefined || ["protecting", "suspending", "drained"].includes(guard);
}

/**
 * True where a member's volume claim was told a moment ago what it waits for: another word is written later, if it still holds
 * then. What is nowhere else is never put off: the names of the pod's other volume claims, and when the pod was made.
 */
export function keepsMessage(member: Member, recentMessages: ReadonlySet<string>): boolean {
  if (hasNewPartners(member)) return false;
  return member.pvcs.some(
    (pvc) => recentMessages.has(pvc.uid) && !isProgress(pvc.message?.guard) && !isPodNews(member.pod?.createdMs, pvc),
  );
}

/** True if each of its volume claims has a running time, or is past the point of no return. */
export function isSuspended({ pvcs }: Member): boolean {
  return pvcs.every(({ state }) => ["Suspended", "Removing"].includes(valueIn(state) ?? ""));
}

/**
 * Who writes `sluice.dev/suspend-message`: the function that takes pods, or the one that removes their volumes. A member is
 * suspended, asked for and not wanted back: then only its removal is left to wait for. Otherwise its pod is.
 */
export function reporterOf(member: Member): "suspender" | "collector" {
  const isLeft = isSuspended(member) && isRequested(member) && !isRecovering(member);
  return isLeft ? "collector" : "suspender";
}
