/**
 * Whether a statement about the drain still counts: it must not be older than the pod that could have got new data since, nor
 * than the volume claim (spec suspend-before-delete 3.4, I11). Pure.
 */

import { drainedAt } from "../annotations/suspension.ts";
import { formatTime } from "../clock/durations.ts";
import { wallClockSkewMs } from "../clock/skew.ts";
import type { Member } from "../volumes/members.ts";
import type { Pvc } from "../volumes/pvc.ts";

export interface NoProof {
  readonly guard: "not-drained" | "pod-newer" | "claim-newer";
  readonly message: string;
}

/** Why it is unproven that the data of a member is not needed; undefined if each of its volume claims states it. */
export function whyUndrained(member: Member, nowMs: number): NoProof | undefined {
  for (const pvc of member.pvcs) {
    const why = whyUnproven(member, pvc, nowMs);
    if (why !== undefined) return why;
  }
  return undefined;
}

export function isDrained(member: Member, nowMs: number): boolean {
  return whyUndrained(member, nowMs) === undefined;
}

function whyUnproven(member: Member, pvc: Pvc, nowMs: number): NoProof | undefined {
  const { drainedMs } = pvc;
  // A statement in the future does not count.
  if (drainedMs === undefined || drainedMs > nowMs + wallClockSkewMs)
    return {
      guard: "not-drained",
      message: `not each of its volume claims says by ${drainedAt.key} that its data is not needed`,
    };
  const again = `move its data once more, and write ${drainedAt.key} of ${pvc.name} anew`;
  if (!(drainedMs >= pvc.createdMs)) {
    const message = `${drainedAt.key} says ${formatTime(drainedMs)}, and ${pvc.name} was made after that: ${again}`;
    return { guard: "claim-newer", message };
  }
  const podMs = newestPodMs(member, pvc);
  if (podMs === undefined || drainedMs >= podMs) return undefined;
  const creation = Number.isNaN(podMs)
    ? "Sluice does not know when it was made"
    : `it was made at ${formatTime(podMs)}`;
  const message = `${drainedAt.key} says ${formatTime(drainedMs)}, and its pod may have got new data since: ${creation}; ${again}`;
  return { guard: "pod-newer", message };
}

/** Of the pod that stands and of those that were seen; NaN where Sluice does not know when one was made. */
function newestPodMs({ pod }: Member, { podUid, podCreatedMs, isRemovalHeld, suspendedMs }: Pvc) {
  const times = [pod?.createdMs, podCreatedMs].filter((ms) => ms !== undefined);
  if (times.length > 0) return Math.max(...times);
  // A version of before took that pod, and did not write down when it was made: not after it was seen to be gone, anyway. Where
  // another function holds the removal back, that function has looked.
  return podUid === undefined || isRemovalHeld ? undefined : suspendedMs;
}

/** True if a volume claim does not have the creation time of the existing pod yet. */
export function isPodNews(createdMs: number | undefined, { podCreatedMs }: Pvc): boolean {
  return createdMs !== undefined && Number.isFinite(createdMs) && !((podCreatedMs ?? Number.NaN) >= createdMs);
}
