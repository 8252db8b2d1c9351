/** The guard of Sluice beside rollout-operator. */
import { depends, type Guards } from "../base/guards.ts";

/** Sluice stands by. */
export const otherOperatorGuards = {
  "other-operator": depends(
    "rollout-operator runs in the namespace, has been gone for less than 30 s, or its pods could not be listed",
    "stop one of the two",
  ),
} as const satisfies Guards;
