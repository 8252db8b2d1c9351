/** What a review says of a downscale, and what is stored of the object. */

import type { AdmissionRequest } from "../shared/admission/definition.ts";
import { noDownscale } from "../shared/annotations/scaling.ts";
import { read } from "../shared/annotations/table.ts";
import type { Downscale, SizedObject } from "../shared/scaling/downscale-review.ts";
import { originOf } from "../shared/scaling/refused-downscales.ts";
import type { GuardedDownscale } from "./decide.ts";

export const name = "guard-downscale";

/** What is asked for, and how the numbers came about. `stored` is the object, or what a scale belongs to, as it is stored. */
export function observe(
  change: Downscale,
  request: AdmissionRequest,
  stored: SizedObject["metadata"],
): GuardedDownscale {
  return { ...originOf(change, request), change, isProtected: read(noDownscale, stored) === true };
}
