/** What a review says of a budget. The object is parsed at the border: `decide` never reads a field that may be wrong. */

import type { AdmissionRequest } from "../shared/admission/definition.ts";
import { fieldsOf } from "../shared/base/fields.ts";
import { parseZoneBudget } from "../shared/groups/zone-budget.ts";
import type { Submission } from "./decide.ts";

export const name = "validate-zone-budget";

export function observe({ operation, object, oldObject }: AdmissionRequest): Submission {
  const { spec, metadata } = fieldsOf(object) ?? {};
  const parsed = parseZoneBudget(object);
  const isZoneMode = "budget" in parsed && parsed.budget.partitions === undefined;
  return {
    operation,
    parsed,
    isLeaving:
      typeof fieldsOf(metadata)?.deletionTimestamp === "string" &&
      JSON.stringify(spec) === JSON.stringify(fieldsOf(oldObject)?.spec),
    hasIdleGroup: isZoneMode && fieldsOf(spec)?.podNameRegexGroup !== undefined,
  };
}
