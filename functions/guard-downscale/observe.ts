/** The basis of a downscale's decision: the review, and the stored object. */

import type { AdmissionRequest } from "../shared/admission/definition.ts";
import { noDownscale } from "../shared/annotations/scaling.ts";
import { read } from "../shared/annotations/table.ts";
import type { Downscale, SizedObject } from "../shared/scaling/downscale-review.ts";
import { originOf } from "../shared/scaling/refused-downscales.ts";
import type { GuardedDownscale } from "./decide.ts";

export const name = "guard-downscale";

/** `stored`: metadata of the stored object, or of the stored object that a scale belongs to. */
export function observe(
  change: Downscale,
  request: AdmissionRequest,
  stored: SizedObject["metadata"],
): GuardedDownscale {
  return { ...originOf(change, request), change, isProtected: read(noDownscale, stored) === true };
}
