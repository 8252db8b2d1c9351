/** Why this function waits, and what ends that. */
import { depends, type Guards, itself, person } from "../shared/base/guards.ts";
import { leavingGuards, limitGuards, zoneGuards } from "../shared/groups/guards.ts";
import { questionGuards } from "../shared/health/guards.ts";
import { claimGuards, healthGuards } from "../shared/ledger/guards.ts";
import { doneGuards } from "../shared/reconcile/guards.ts";
import { delayGuards, followerGuards, pacingGuards } from "../shared/scaling/guards.ts";
import { otherOperatorGuards } from "../shared/standby/guards.ts";
import { ledgerAgeGuards, ledgerGuards } from "../shared/transaction/guards.ts";

export const guards: Guards = {
  ...doneGuards,
  ...claimGuards,
  ...healthGuards,
  ...questionGuards,
  ...ledgerAgeGuards,
  ...ledgerGuards,
  ...zoneGuards,
  ...limitGuards,
  ...leavingGuards,
  ...pacingGuards,
  ...followerGuards,
  ...delayGuards,
  ...otherOperatorGuards,
  lowering: itself("the size of the StatefulSet is being lowered"),
  "delay-running": itself("the pods have been told, and the delay runs", "nothing: the message says until when"),
  "pod-not-prepared": depends(
    "a pod has not confirmed that it may leave",
    "look at the pod that the message names, and at its endpoint",
  ),
  "downscale-refused": person(
    "the API server refused the new size",
    "find what refuses: the message quotes its answer",
  ),
  "pods-not-told": itself("in shadow mode Sluice tells pods nothing"),
  "service-missing": person(
    "the StatefulSet has no serviceName, so that its pods have no names",
    "name a headless Service in the StatefulSet",
  ),
};
