/** What becomes of a suspended volume claim whose StatefulSet is gone: it is kept, until somebody says otherwise. Pure. */

import { suspendDuration, volumeHold } from "../shared/annotations/suspension.ts";
import { formatTime } from "../shared/clock/durations.ts";
import { type Clocks, earlierMs, whyClocksUnsure } from "../shared/suspension/clocks.ts";
import { outlivesNamespace } from "../shared/suspension/outlives-namespace.ts";
import { isOurs } from "../shared/suspension/restart-time.ts";
import type { Stray } from "../shared/volumes/members.ts";
import { meant, type VolumeClaim } from "../shared/volumes/pvc.ts";

export interface StrayFate {
  /**
   * `clear`: nothing of ours stays. `release`: our finalizer goes. `unmark`: the mark of a removal goes. `stamp`, `restamp`: its
   * time begins, or waits for its users. `tell`: the volume claim says what it waits for.
   */
  readonly kind: "clear" | "release" | "answer-recover" | "unmark" | "stamp" | "restamp" | "tell" | "nothing";
  readonly guard: string;
  readonly sentence: string;
  /** With `release`: its PersistentVolume is kept first. */
  readonly isRetained?: boolean;
}

export interface StraySurroundings extends Clocks {
  readonly removes: boolean;
  readonly isNamespaceEnding: boolean;
}

export function decideStray({ claim, users }: Stray, around: StraySurroundings): StrayFate {
  const { removes, isNamespaceEnding } = around;
  const { name, isHeld, isTerminating, isOnHold, recover, state, owned } = claim;
  const isMarked = meant(state) === "Removing";
  if (!removes) {
    const sentence = `VOLUME_HOLD is remove: ${name} is not held any more`;
    const isRetained = isTerminating && (!isMarked || isOnHold || claim.isRetained === true);
    return { kind: isOurs(claim) ? "release" : "nothing", guard: "uninstalling", sentence, isRetained };
  }
  if (recover.kind !== "absent") return answer(claim);
  if (isTerminating && isHeld && (isNamespaceEnding || isMarked) && !isOnHold && users.length === 0) {
    const why = isNamespaceEnding
      ? "its namespace is being deleted"
      : "its removal had begun before its StatefulSet went";
    const isRetained = claim.isRetained === true || (isNamespaceEnding && outlivesNamespace(claim, []));
    return { kind: "release", guard: "removing", sentence: `${name} goes: ${why}`, isRetained };
  }
  if (owned?.owner.kind === "malformed")
    return tell(claim, "owner-malformed", `${name} is kept: ${owned.owner.sentence}`);
  if (!isTerminating && (isMarked || claim.isMarkFalse === true)) {
    const sentence = `${name} is kept: it was marked for its removal, and is not removed, for its StatefulSet is gone`;
    return { kind: "unmark", guard: "owner-gone", sentence };
  }
  const isSuspending = claim.finalizers.includes(volumeHold);
  if (!isTerminating && isSuspending && claim.request.kind === "absent" && !isOnHold) {
    const sentence = `${name} is free: nobody asks for its suspension any more, and its StatefulSet is gone`;
    return { kind: "clear", guard: "withdrawn", sentence };
  }
  if (isTerminating && isSuspending && !claim.isProtected) return awaitEnd(claim, users.length > 0, around);
  const sentence = `${name} is kept: neither a StatefulSet nor an owner that it names has it, so that nobody says how long. Recover it, or delete it and take our finalizer away`;
  if (isHeld) return tell(claim, "owner-gone", sentence);
  return { kind: "nothing", guard: "owner-gone", sentence };
}

/**
 * It is deleted, which nobody can take back, and kept for its time since then, and since its pod was gone (S1). Where nobody asks
 * for its removal any more, its PersistentVolume is kept at the end.
 */
function awaitEnd(claim: VolumeClaim, isUsed: boolean, now: Clocks): StrayFate {
  const { name, isOnHold, suspendedMs, deletedMs = now.nowMs, drainedMs, createdMs, podCreatedMs = 0 } = claim;
  const words = (sentence: string) =>
    `${name} is deleted, and its StatefulSet is gone: our finalizer keeps its volume ${sentence}`;
  if (isOnHold) return tell(claim, "on-hold", words("while it is on hold"));
  if (isUsed) {
    const sentence = words("while a pod uses it, and for its time after that");
    return suspendedMs === undefined ? tell(claim, "in-use", sentence) : { kind: "restamp", guard: "in-use", sentence };
  }
  if (suspendedMs === undefined)
    return { kind: "stamp", guard: "stamping", sentence: words("for its time: it runs from now") };
  const keptMs = keptForOf(claim);
  if (keptMs === undefined) {
    const sentence = words(`until somebody writes ${suspendDuration.key} on it, or takes the finalizer away`);
    return tell(claim, "duration-missing", sentence);
  }
  const unsure = whyClocksUnsure(now);
  if (unsure !== undefined) return tell(claim, unsure.guard, words(`for its time: ${unsure.sentence}`));
  const untilMs = Math.max(suspendedMs, deletedMs) + keptMs;
  const save =
    claim.volumeName === undefined ? "" : `; whoever needs its data saves its PersistentVolume ${claim.volumeName}`;
  if (untilMs > earlierMs(now)) return tell(claim, "owner-gone", words(`until ${formatTime(untilMs)}${save}`));
  const isAsked =
    meant(claim.request) === true && drainedMs !== undefined && drainedMs >= Math.max(createdMs, podCreatedMs);
  const isRetained = claim.isRetained === true || !isAsked;
  return { kind: "release", guard: "removing", sentence: `${name} goes: its time is over`, isRetained };
}

/** Its own time may be longer than what its StatefulSet said last, and never shorter. In milliseconds. */
function keptForOf({ duration, keptForMs }: VolumeClaim): number | undefined {
  if (duration.kind === "malformed") return undefined;
  const known = [meant(duration), keptForMs].filter((ms) => ms !== undefined);
  return known.length === 0 ? undefined : Math.max(...known);
}

/** It says so where another guard holds now. */
function tell({ message }: VolumeClaim, guard: string, sentence: string): StrayFate {
  return { kind: message?.guard === guard ? "nothing" : "tell", guard, sentence };
}

/** Until it is deleted, whoever wants it back has it. */
function answer({ name, isTerminating }: VolumeClaim): StrayFate {
  if (isTerminating)
    return { kind: "answer-recover", guard: "recover-too-late", sentence: `the removal of ${name} had begun` };
  return {
    kind: "clear",
    guard: "recovered",
    sentence: `${name} is free: no StatefulSet has it, and nothing is suspended any more`,
  };
}
