/** Whether an object may become smaller. What cannot be known holds nobody back: `observe.ts` has answered that already. */
import type { AdmissionAnswer } from "../shared/pass/definition.ts";
import { allow } from "../shared/review/answers.ts";
import { type Origin, refuseDropped, refuseProtected } from "../shared/review/refused-sizes.ts";
import type { Downscale } from "../shared/review/size-review.ts";

export interface DownscaleSnapshot extends Origin {
  readonly change: Downscale;
  /** By the label of what is stored. */
  readonly isProtected: boolean;
}

export function decide(snapshot: DownscaleSnapshot): AdmissionAnswer {
  const { change, isProtected } = snapshot;
  if (isProtected) return refuseProtected(change);
  return refuseDropped(change, snapshot) ?? allow("allowed");
}
