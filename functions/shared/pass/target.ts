/** What a verdict has done to a cluster. */
import type { Pod } from "../objects/pods.ts";
import type { StatefulSet } from "../objects/statefulsets.ts";
import type { ActReport } from "./report.ts";

/** One act of a verdict, and what it is done to. */
export type Target =
  /** Reserved first (rule R8), then deleted by uid (rule R9). */
  | { readonly action: "delete"; readonly statefulSet: StatefulSet; readonly pod: Pod }
  /**
   * Broken and outdated: deleted as it was seen, by uid and resourceVersion, without a reservation (rule R13). The cause
   * follows "the pod was".
   */
  | { readonly action: "repair"; readonly statefulSet: StatefulSet; readonly pod: Pod; readonly cause: string }
  /** All pods run the update revision: say so in `status.currentRevision`, which Kubernetes does not do for OnDelete. */
  | { readonly action: "record-revision"; readonly statefulSet: StatefulSet };

/** The uid of what a target changes: refusals are remembered by it. */
export function subjectOf(target: Target): string {
  return target.action === "record-revision" ? target.statefulSet.uid : target.pod.uid;
}

/** A target as reports name it. */
export function nameOf(target: Target): Pick<ActReport, "action" | "object"> {
  return { action: target.action, object: "pod" in target ? target.pod.name : target.statefulSet.name };
}
