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

/** The first word of a reason says who has asked: other files, or a trigger. */
export const driftReason = "drift ";
export const triggerReason = "trigger ";

/** True for a pod that waits for its restart because other files are expected than it was started with. */
export function isWaitingForFiles({ restart, restartReason }: Pod): boolean {
  return restart?.text?.startsWith("schedule-") === true && restartReason?.startsWith(driftReason) === true;
}
