/** The guards of volumes that are suspended, or removed later. */
import { depends, type Guards, itself, person } from "../base/guards.ts";

/** It is not the turn of a volume. */
export const turnGuards = {
  "wait-between-removals": itself(
    "another volume of the group went a short time ago",
    "nothing: the message says how long to wait",
  ),
  "wait-malformed": person(
    "Sluice cannot read the time to wait between two removals",
    "correct the annotation that the message names",
  ),
  "zone-busy": itself("something of another zone of the group goes first"),
  "mode-none": depends(
    "the mode of removal is None, or cannot be read",
    "take the annotation away when its volumes may go",
  ),
  "clock-unsure": person(
    "the clock of the API server and that of this process differ by more than 5 minutes",
    "correct the clock that is wrong: the message has both times",
  ),
} as const satisfies Guards;

/** How long a volume is kept is not known. */
export const durationGuards = {
  "duration-missing": person(
    "no annotation says how long the volume is kept",
    "write the annotation that the message names",
  ),
  "duration-malformed": person(
    "Sluice cannot read how long the volume is kept",
    "correct the annotation that the message names",
  ),
} as const satisfies Guards;

/** Nothing says that the data is not needed. */
export const proofGuards = {
  "pod-newer": person(
    "the drain that a person or a tool reported is older than the pod",
    "move the data, and then write the annotation that the message names anew",
  ),
  "claim-newer": person(
    "the drain that a person or a tool reported is older than the volume claim",
    "move the data, and then write the annotation that the message names anew",
  ),
} as const satisfies Guards;

/** The time of a volume begins anew. */
export const restartedGuards = {
  restamping: itself("the time of the volume begins anew, because a pod had it"),
  "wanted-again": depends(
    "the StatefulSet wants the pod of the volume again",
    "nothing, or find out which client wants it",
  ),
} as const satisfies Guards;
