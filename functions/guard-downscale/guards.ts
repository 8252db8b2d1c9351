/** Why this function waits, and what ends that. */
import { allowedGuards, failureGuards, requestGuards } from "../shared/admission/guards.ts";
import { type Guards, person } from "../shared/base/guards.ts";
import { refusedDownscaleGuards, sizeReviewGuards } from "../shared/scaling/guards.ts";

export const guards: Guards = {
  ...allowedGuards,
  ...failureGuards,
  ...requestGuards,
  ...sizeReviewGuards,
  ...refusedDownscaleGuards,
  "object-unknown": person(
    "a look-up broke by a fault of Sluice, and the change went through with a warning",
    "report it",
  ),
};
