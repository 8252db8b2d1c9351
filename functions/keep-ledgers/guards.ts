/** Why this function waits, and what ends that. */
import { depends, type Guards } from "../shared/base/guards.ts";
import { doneGuards } from "../shared/reconcile/guards.ts";
import { otherOperatorGuards } from "../shared/standby/guards.ts";

export const guards: Guards = {
  ...doneGuards,
  ...otherOperatorGuards,
  "ledger-held": depends(
    "a reservation has not settled, or there is a claim",
    "nothing; if pods were left behind, delete them",
  ),
  "ledger-in-use": depends(
    "an annotation of Sluice is there that only another function, or a later version, understands",
    "nothing, or find out which client wrote it",
  ),
};
