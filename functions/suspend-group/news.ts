/** What is reported about a volume claim, on itself and in an Event about it. */

import { formatTime } from "../shared/clock/durations.ts";
import type { Context } from "../shared/contract/context.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import { normal, type PvcNews, warning } from "../shared/suspension/writing.ts";
import { durationOf, type Member } from "../shared/volumes/members.ts";
import { type Pvc, valueIn } from "../shared/volumes/pvc.ts";
import type { MemberStep } from "./decide-member.ts";

export function untilWhen(member: Member, nowMs: number): string {
  const keptMs = valueIn(durationOf(member));
  const until = keptMs === undefined ? "" : `, not before ${formatTime(nowMs + keptMs)}`;
  return `${member.name} is gone: its volume is removed later${until}`;
}

/** Words on a volume claim that is being deleted: its time runs, and a user who needs its data must save the volume. */
export function lostOf({ isTerminating, volumeName }: Pvc): string {
  if (!isTerminating) return "";
  const volume = volumeName === undefined ? "its PersistentVolume" : `its PersistentVolume ${volumeName}`;
  return `; another client has deleted its volume claim: to keep its data, save ${volume}`;
}

export function markUnknown({ state }: Pvc): string {
  const why = state.kind === "malformed" ? state.message : "";
  return `${why}: it was copied, restored or written by hand; nothing is removed by it, and the time begins anew`;
}

export function tooLate({ name: claim, volumeName }: Pvc): string {
  const volume =
    volumeName === undefined ? "it has no PersistentVolume" : `its PersistentVolume ${volumeName} may be saved`;
  return `the removal of ${claim} had begun before it was wanted back; ${volume}`;
}

export function newsOf(context: Context, target: Exclude<MemberStep, { kind: "restamp" }>, pvc: Pvc): PvcNews {
  const { member } = target;
  const since = pvc.suspendedMs ?? 0;
  switch (target.kind) {
    case "clear": {
      // The time is gone as soon as the pod is seen; the pod is another one each time.
      const identity = `${target.how} ${member.pod?.uid ?? since}`;
      const back = `${member.name} has its volume back: nothing is suspended any more`;
      const old = `a user or another controller brought ${member.name} back: its volume is not suspended any more, and may hold old data`;
      return target.how === "in-use-again"
        ? warning(eventReasons.recoveredByOthers, old, identity)
        : normal(eventReasons.volumeRecovered, back, identity);
    }
    case "unmark":
      return warning(eventReasons.removalMarkUnknown, markUnknown(pvc), "mark unknown");
    case "answer-recover":
      return warning(eventReasons.recoverTooLate, tooLate(pvc), "too late");
    default: {
      const message = untilWhen(member, context.cluster.serverTimeMs());
      return normal(eventReasons.volumeSuspended, message, `${target.kind} ${since}`);
    }
  }
}
