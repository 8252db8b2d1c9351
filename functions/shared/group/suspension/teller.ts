/**
 * Which function says on a volume claim what it waits for. Both look at the same members, and one annotation holds one sentence.
 * If both wrote it, each write would wake the other function, without an end. Pure.
 */
import { meant } from "../../objects/volumes/volume-claim.ts";
import { isRecovering, isRequested, type Member } from "./members.ts";

/** Who writes `sluice.dev/suspend-message`: the function that takes pods, or the one that removes their volumes. */
export type Teller = "suspender" | "collector";

/** True where each of its volume claims has a time that runs, or is past the point of no return. */
export function isSuspended({ claims }: Member): boolean {
  return claims.every(({ state }) => ["Suspended", "Removing"].includes(meant(state) ?? ""));
}

/** A member is suspended, asked for and not wanted back: then only its removal is left to wait for. Otherwise its pod is. */
export function tellerOf(member: Member): Teller {
  const isLeft = isSuspended(member) && isRequested(member) && !isRecovering(member);
  return isLeft ? "collector" : "suspender";
}
