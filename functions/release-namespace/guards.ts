/** Why this function waits, and what ends that. */
import { type Guards, itself } from "../shared/base/guards.ts";

export const guards: Guards = {
  "namespace-stays": itself("the namespace is not being deleted"),
  releasing: itself("the objects that the message names lose Sluice's finalizers now"),
  "labels-first": itself("owners keep their finalizer for 3 s, while mark-skip-label labels their pods"),
  released: itself(
    "no finalizer of Sluice holds the namespace any more",
    "if it stays, look at its conditions: others hold it",
  ),
};
