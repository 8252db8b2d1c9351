/** Whether an object may become smaller. Pure. */

import { allow } from "../shared/admission/answers.ts";
import type { AdmissionAnswer, Denied } from "../shared/admission/definition.ts";
import type { Downscale } from "../shared/scaling/downscale-review.ts";
import { type Origin, refuseDropped, refuseProtected } from "../shared/scaling/refused-downscales.ts";
import { describeSizes } from "../shared/scaling/size-changes.ts";

export interface GuardedDownscale extends Origin {
  readonly change: Downscale;
  /** The stored object has the label that protects it. */
  readonly isProtected: boolean;
}

export function decide(snapshot: GuardedDownscale): AdmissionAnswer {
  const { change, isProtected } = snapshot;
  if (isProtected) return refuseProtected(change);
  return refuseDropped(change, snapshot) ?? allow("allowed");
}

/** The refusal of a downscale whose object could not be looked up. The code and the guard are those of `refusal`. */
export function refuseUnknown(change: Downscale, refusal: Denied): Denied {
  const { resource, namespace, name, from, to } = change;
  const message = `downscale of ${resource}/${name} in ${namespace} ${describeSizes(from, to)} is not allowed: its labels are not known: ${refusal.message}`;
  return { ...refusal, message, zone: name };
}
