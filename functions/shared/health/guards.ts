/** The guards of questions that are not asked. */
import { type Guards, itself, person } from "../base/guards.ts";

/** Why a pod was not asked about its health. */
export const questionGuards = {
  "health-not-asked": itself(
    "Sluice asked other pods of the group first, and no time was left for this one",
    "nothing: Sluice asks it again",
  ),
  "question-malformed": person(
    "Sluice cannot read an annotation of the question",
    "correct the annotation that the message names",
  ),
} as const satisfies Guards;
