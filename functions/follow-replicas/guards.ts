/** Why this function waits, and what ends that. */
import { type Guards, itself, person } from "../shared/base/guards.ts";
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
  resizing: itself("the size of the StatefulSet is being changed"),
  "leader-not-ready": itself("not all pods of the leader are ready yet", "nothing, or mend the pods of the leader"),
  "size-refused": person("the API server refused the new size", "find what refuses: the message quotes its answer"),
};
