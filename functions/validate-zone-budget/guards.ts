/** Why this function waits, and what ends that. */
import { allowedGuards, requestGuards } from "../shared/admission/guards.ts";
import { type Guards, person } from "../shared/base/guards.ts";

export const guards: Guards = {
  ...allowedGuards,
  ...requestGuards,
  "invalid-budget": person("a field is wrong", "write what the message says"),
  "wrong-operation": person(
    "the review is neither of a CREATE nor of an UPDATE",
    "remove the other operations from the webhook's rules",
  ),
};
