/** The guards of volumes: the answers of a database about its data, and owners that Sluice cannot tell. */
import { depends, type Guards, itself, person } from "../base/guards.ts";

/** What a database said that was asked whether data is still needed. */
export const drainGuards = {
  "drain-refused": depends("a pod that Sluice asked says that the data is needed", "move the data: see the message"),
  "drain-unknown": person(
    "a pod that Sluice asked gave no answer",
    "see the message: the pod, the password or a right to the Secret",
  ),
  "drain-not-asked": itself("no time was left to ask about this volume", "nothing: Sluice asks again"),
  "drain-question-malformed": person(
    "Sluice cannot read the annotations of the question",
    "correct the annotation that the message names",
  ),
} as const satisfies Guards;

/** The owner of a volume is not clear. */
export const ownerGuards = {
  "owner-mixed": person(
    "the volumes of one pod name different owners or zones",
    "correct the annotation that the message names",
  ),
  "zone-malformed": person(
    "Sluice cannot read the zone of the volume",
    "correct the annotation that the message names",
  ),
  "selector-malformed": person(
    "Sluice cannot read which pods the owner of the volume has",
    "correct the annotation that the message names",
  ),
} as const satisfies Guards;
