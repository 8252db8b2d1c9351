/** What becomes of a suspended volume claim whose StatefulSet is gone: it is kept, until somebody says otherwise. Pure. */
import { isOurs } from "../shared/group/suspension/anew.ts";
import type { Stray } from "../shared/group/suspension/members.ts";
import { meant } from "../shared/objects/volumes/volume-claim.ts";

export interface StrayFate {
  /** `clear`: nothing of ours stays. `release`: our finalizer goes. `tell`: the volume claim says what it waits for. */
  readonly kind: "clear" | "release" | "answer-recover" | "tell" | "nothing";
  readonly guard: string;
  readonly sentence: string;
  /** With `release`: its PersistentVolume is kept first. */
  readonly isRetained?: boolean;
}

export function decideStray(
  { claim, users }: Stray,
  { removes, isNamespaceEnding }: { readonly removes: boolean; readonly isNamespaceEnding: boolean },
): StrayFate {
  const { name, isHeld, isTerminating, isOnHold, recover, state, message, owned } = claim;
  if (!removes) {
    const sentence = `VOLUME_HOLD is remove: ${name} is not held any more`;
    const isRetained = isTerminating && (meant(state) !== "Removing" || isOnHold || claim.isRetained === true);
    return { kind: isOurs(claim) ? "release" : "nothing", guard: "uninstalling", sentence, isRetained };
  }
  if (recover.kind !== "absent") return answer(claim);
  const isOver = isNamespaceEnding || meant(state) === "Removing";
  if (isTerminating && isHeld && isOver && !isOnHold && users.length === 0) {
    const why = isNamespaceEnding
      ? "its namespace is being deleted"
      : "its removal had begun before its StatefulSet went";
    const isRetained = claim.isRetained === true;
    return { kind: "release", guard: "removing", sentence: `${name} goes: ${why}`, isRetained };
  }
  if (owned?.owner.kind === "malformed") {
    const isNews = !isTerminating && message?.guard !== "owner-malformed";
    const sentence = `${name} is kept: ${owned.owner.sentence}`;
    return { kind: isNews ? "tell" : "nothing", guard: "owner-malformed", sentence };
  }
  const sentence = `${name} is kept: neither a StatefulSet nor an owner that it names has it, so that nobody says how long. Recover it, or delete it and take our finalizer away`;
  const isNews = isHeld && !isTerminating && message?.guard !== "owner-gone";
  return { kind: isNews ? "tell" : "nothing", guard: "owner-gone", sentence };
}

function answer({ name, isTerminating, state }: Stray["claim"]): StrayFate {
  const isLate = isTerminating || meant(state) === "Removing";
  if (isLate)
    return { kind: "answer-recover", guard: "recover-too-late", sentence: `the removal of ${name} had begun` };
  return {
    kind: "clear",
    guard: "recovered",
    sentence: `${name} is free: no StatefulSet has it, and nothing is suspended any more`,
  };
}
