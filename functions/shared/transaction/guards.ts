/** The guards of the ledger itself: it is new, is not of this cluster, or cannot be used. */
import { type Guards, itself, person } from "../base/guards.ts";

/** Nothing is permitted yet: the ledger is new, or of another cluster, or its group has just got a StatefulSet. */
export const ledgerAgeGuards = {
  "ledger-new": itself("the ledger was made less than 41 s ago, and this process has known it for less than 10 s"),
  "ledger-elsewhere": itself(
    "the ledger names revisions that this cluster has not reached: it comes from another cluster, or from a backup",
    "nothing: it starts anew in 10 s",
  ),
  "zone-joined": itself("a StatefulSet has joined the group less than 10 s ago"),
} as const satisfies Guards;

/** The ledger cannot be used. */
export const ledgerGuards = {
  "ledger-full": person(
    "1,000 pods of the group are reserved, or the annotations of the Lease, those of others included, would pass 192 KiB",
    "wait until some pods are back, or remove the annotations that are not Sluice's",
  ),
  "ledger-refused": person(
    "the API server, a webhook or a policy refuses to have the ledger written",
    "change what refuses",
  ),
  "ledger-unwritable": person(
    "what would be written into the ledger could not be read again",
    "correct what the message names, such as the name of a pod",
  ),
  "ledger-unreadable": person(
    "another client has written something into the ledger that Sluice cannot read",
    "correct the annotation that the message names",
  ),
} as const satisfies Guards;

/** Other clients were faster. */
export const contendedGuards = {
  "ledger-contended": itself("others wrote the ledger five times while this was decided"),
} as const satisfies Guards;
