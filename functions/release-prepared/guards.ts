/** Why this function waits, and what ends that. */
import { depends, type Guards, itself, person } from "../shared/base/guards.ts";
import { doneGuards } from "../shared/reconcile/guards.ts";
import { otherOperatorGuards } from "../shared/standby/guards.ts";
import { contendedGuards, ledgerGuards } from "../shared/transaction/guards.ts";

export const guards: Guards = {
  ...doneGuards,
  ...ledgerGuards,
  ...contendedGuards,
  ...otherOperatorGuards,
  "downscale-under-way": itself("the pods are leaving, or the change may still come"),
  "downscale-done": itself("the pods are gone, the time is noted, and the claim is over"),
  "downscale-taken-back": itself(
    "the downscale never came, and its pods were told that they stay",
    "nothing, or ask why it did not come",
  ),
  "prepared-untold": depends(
    "the downscale never came, and a pod has not answered its DELETE, or has no address",
    "correct the pod that the message names, or its annotations",
  ),
  "prepared-given-up": person(
    "the downscale never came, and after 30 minutes of failed tries no pod is left that could be told",
    "see whether the pods that the message names accept work",
  ),
  "claim-gone": itself("another process was first, or the ledger is new"),
};
