/** What happens to a suspended volume claim whose StatefulSet is gone: it is kept until a user decides otherwise. Pure. */

import { suspendDuration, volumeHold } from "../shared/annotations/suspension.ts";
import { formatTime } from "../shared/clock/durations.ts";
import { type Clocks, earlierMs, whyClocksUnsure } from "../shared/suspension/clocks.ts";
import { outlivesNamespace } from "../shared/suspension/outlives-namespace.ts";
import { isOurs } from "../shared/suspension/restart-time.ts";
import type { Stray } from "../shared/volumes/members.ts";
import { type Pvc, valueIn } from "../shared/volumes/pvc.ts";

export interface StrayDecision {
  /**
   * `clear`: nothing of ours stays. `release`: our finalizer goes. `unmark`: the mark of a removal goes. `stamp`, `restamp`: its
   * time begins, or waits for its users. `tell`: the volume claim says what it waits for.
   */
  readonly kind: "clear" | "release" | "answer-recover" | "unmark" | "stamp" | "restamp" | "tell" | "nothing";
  readonly guard: string;
  readonly message: string;
  /** With `release`: its PersistentVolume is kept first. */
  readonly isRetained?: boolean;
}

export interface StraySurroundings extends Clocks {
  readonly removes: boolean;
  readonly isNamespaceEnding: boolean;
}

export function decideStray({ pvc, users }: Stray, around: StraySurroundings): StrayDecision {
  const { removes, isNamespaceEnding } = around;
  const { name, hasOurFinalizer, isTerminating, isOnHold, recover, state, owned } = pvc;
  const isMarked = valueIn(state) === "Removing";
  if (!removes) return uninstall(pvc, isMarked);
  if (recover.kind !== "absent") return answer(pvc);
  if (isTerminating && hasOurFinalizer && (isNamespaceEnding || isMarked) && !isOnHold && users.length === 0)
    return remove(pvc, isNamespaceEnding);
  if (owned?.owner.kind === "malformed")
    return withMessage(pvc, "owner-malformed", `${name} is kept: ${owned.owner.message}`);
  if (!isTerminating && (isMarked || pvc.isMarkFalse === true)) {
    const message = `${name} is kept: it was marked for its removal, and is not removed, for its StatefulSet is gone`;
    return { kind: "unmark", guard: "owner-gone", message };
  }
  const isSuspending = pvc.finalizers.includes(volumeHold);
  if (!isTerminating && isSuspending && pvc.request.kind === "absent" && !isOnHold) {
    const message = `${name} is free: it does not ask for its suspension any more, and its StatefulSet is gone`;
    return { kind: "clear", guard: "withdrawn", message };
  }
  if (isTerminating && isSuspending && !pvc.isProtected) return awaitEnd(pvc, users.length > 0, around);
  const message = `${name} is kept: neither a StatefulSet nor an owner that it names has it, so that no object says how long. Recover it, or delete it and take our finalizer away`;
  if (hasOurFinalizer) return withMessage(pvc, "owner-gone", message);
  return { kind: "nothing", guard: "owner-gone", message };
}

/** Our finalizers go with Sluice. Data that another client has deleted stays, unless its removal was our own. */
function uninstall(pvc: Pvc, isMarked: boolean): StrayDecision {
  const message = `VOLUME_HOLD is remove: ${pvc.name} is not held any more`;
  const isRetained = pvc.isTerminating && (!isMarked || pvc.isOnHold || pvc.isRetained === true);
  return { kind: isOurs(pvc) ? "release" : "nothing", guard: "uninstalling", message, isRetained };
}

/** A volume claim that is being deleted goes, because no function is left that would end its removal. */
function remove(pvc: Pvc, isNamespaceEnding: boolean): StrayDecision {
  const why = isNamespaceEnding
    ? "its namespace is being deleted"
    : "its removal had begun before its StatefulSet went";
  const isRetained = pvc.isRetained === true || (isNamespaceEnding && outlivesNamespace(pvc, []));
  return { kind: "release", guard: "removing", message: `${pvc.name} goes: ${why}`, isRetained };
}

/**
 * It is deleted, which no client can take back, and kept for its time since then, and since its pod was gone (S1). Where it
 * does not ask for its removal any more, its PersistentVolume is kept at the end.
 */
function awaitEnd(pvc: Pvc, isUsed: boolean, now: Clocks): StrayDecision {
  const { name, isOnHold, suspendedMs, deletedMs = now.nowMs, drainedMs, createdMs, podCreatedMs = 0 } = pvc;
  const describeKept = (message: string) =>
    `${name} is deleted, and its StatefulSet is gone: our finalizer keeps its volume ${message}`;
  if (isOnHold) return withMessage(pvc, "on-hold", describeKept("while it is on hold"));
  if (isUsed) {
    const message = describeKept("while a pod uses it, and for its time after that");
    return suspendedMs === undefined
      ? withMessage(pvc, "in-use", message)
      : { kind: "restamp", guard: "in-use", message };
  }
  if (suspendedMs === undefined)
    return { kind: "stamp", guard: "stamping", message: describeKept("for its time: it runs from now") };
  const keptMs = keptForOf(pvc);
  if (keptMs === undefined) {
    const message = describeKept(`until a user writes ${suspendDuration.key} on it, or takes the finalizer away`);
    return withMessage(pvc, "duration-missing", message);
  }
  const unsure = whyClocksUnsure(now);
  if (unsure !== undefined) return withMessage(pvc, unsure.guard, describeKept(`for its time: ${unsure.message}`));
  const untilMs = Math.max(suspendedMs, deletedMs) + keptMs;
  const save = pvc.volumeName === undefined ? "" : `; to keep its data, save its PersistentVolume ${pvc.volumeName}`;
  if (untilMs > earlierMs(now))
    return withMessage(pvc, "owner-gone", describeKept(`until ${formatTime(untilMs)}${save}`));
  const isAsked =
    valueIn(pvc.request) === true && drainedMs !== undefined && drainedMs >= Math.max(createdMs, podCreatedMs);
  const isRetained = pvc.isRetained === true || !isAsked;
  return { kind: "release", guard: "removing", message: `${name} goes: its time is over`, isRetained };
}

/** Its own time in milliseconds, which may be longer than the last one of its StatefulSet, and never shorter. */
function keptForOf({ duration, keptForMs }: Pvc): number | undefined {
  if (duration.kind === "malformed") return undefined;
  const known = [valueIn(duration), keptForMs].filter((ms) => ms !== undefined);
  return known.length === 0 ? undefined : Math.max(...known);
}

/** It says so if another guard counts now. */
function withMessage({ message }: Pvc, guard: string, text: string): StrayDecision {
  return { kind: message?.guard === guard ? "nothing" : "tell", guard, message: text };
}

/** The answer to a request to recover: the volume claim is kept, unless it is already deleted. */
function answer({ name, isTerminating }: Pvc): StrayDecision {
  if (isTerminating)
    return { kind: "answer-recover", guard: "recover-too-late", message: `the removal of ${name} had begun` };
  return {
    kind: "clear",
    guard: "recovered",
    message: `${name} is free: no StatefulSet has it, and nothing is suspended any more`,
  };
}
