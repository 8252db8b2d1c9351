/** Whether an object may be stored as a budget, by the object alone. */

import { allow, badRequest } from "../shared/admission/answers.ts";
import type { AdmissionAnswer } from "../shared/admission/definition.ts";
import type { InvalidBudget, ZoneBudget } from "../shared/groups/zone-budget.ts";

export interface Submission {
  readonly operation: string;
  /** What the object is, or why it is no budget. */
  readonly parsed: { readonly budget: ZoneBudget } | InvalidBudget;
  /** The object is being deleted and keeps its spec, so that only its finalizers change. */
  readonly isLeaving: boolean;
  /** `podNameRegexGroup` is written without an expression that it could belong to. */
  readonly hasIdleGroup: boolean;
}

const reviewed = ["CREATE", "UPDATE"];

export function decide({ operation, parsed, isLeaving, hasIdleGroup }: Submission): AdmissionAnswer {
  if (!reviewed.includes(operation)) {
    const what = operation === "" ? "no operation" : `the operation ${JSON.stringify(operation.slice(0, 20))}`;
    const message = `the review is of ${what}: register this webhook for CREATE and UPDATE of zoneawarepoddisruptionbudgets alone`;
    return badRequest("wrong-operation", message);
  }
  // If it were refused, the budget could never be deleted, because its deletion waits for its finalizers.
  if (operation === "UPDATE" && isLeaving) return allow("allowed");
  if ("field" in parsed) return badRequest("invalid-budget", parsed.message, { field: parsed.field });
  const warnings: string[] = [];
  if (parsed.budget.matchLabels.size === 0) {
    warnings.push("spec.selector.matchLabels is empty: the budget governs every pod of the namespace");
  }
  if (hasIdleGroup) {
    warnings.push("spec.podNameRegexGroup means nothing without spec.podNamePartitionRegex, and is not read");
  }
  return allow("allowed", { warnings });
}
