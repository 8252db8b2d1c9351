/** What pods get when Sluice asks for their restart, without a person who writes it on each. Pure. */

import type { Pod } from "../shared/workloads/pods.ts";
import type { StatefulSet } from "../shared/workloads/statefulsets.ts";

/** The phase and the reason that pods of one StatefulSet get; null takes both off. */
export interface MarkTarget {
  readonly kind: "mark";
  readonly statefulSet: StatefulSet;
  readonly pods: readonly Pod[];
  readonly phase: string | null;
  readonly reason: string | null;
}

/** The first word of a reason says what has asked: other files, or a trigger. */
export const driftReason = "drift ";
export const triggerReason = "trigger ";
/** Other files have asked before, and what the pod waits for now is what a person wants. */
const askedReason = "asked ";

/** The reason of a pod whose restart has begun, or whose phase was taken off or written by a person. */
export function reasonAfter(reason: string | undefined): string | undefined {
  return reason?.startsWith(driftReason) ? `${askedReason}${reason.slice(reason.lastIndexOf(" ") + 1)}` : reason;
}

/** True for a pod that files have asked to restart, now or before. */
export function isAskedByFiles({ restartReason = "" }: Pod): boolean {
  return [driftReason, askedReason].some((word) => restartReason.startsWith(word));
}

/** True for a pod that the files of this sum have asked to restart, now or before. */
export function isAskedFor(pod: Pod, sum: string): boolean {
  return isAskedByFiles(pod) && pod.restartReason?.endsWith(` ${sum}`) === true;
}

/** True for a pod that waits for its restart because other files are expected than it was started with. */
export function isWaitingForFiles({ restart, restartReason }: Pod): boolean {
  return restart?.text?.startsWith("schedule-") === true && restartReason?.startsWith(driftReason) === true;
}
