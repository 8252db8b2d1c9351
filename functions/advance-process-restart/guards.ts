/** Why this function waits, and what ends that. */
import { depends, type Guards, itself, person } from "../shared/base/guards.ts";
import { limitGuards, neverGuards, zoneGuards } from "../shared/groups/guards.ts";
import { claimGuards } from "../shared/ledger/guards.ts";
import { doneGuards } from "../shared/reconcile/guards.ts";
import { otherOperatorGuards } from "../shared/standby/guards.ts";
import { ledgerAgeGuards, ledgerGuards } from "../shared/transaction/guards.ts";

export const guards: Guards = {
  ...doneGuards,
  ...claimGuards,
  ...ledgerAgeGuards,
  ...ledgerGuards,
  ...limitGuards,
  ...neverGuards,
  ...zoneGuards,
  ...otherOperatorGuards,
  restarting: itself("the restart of a process begins"),
  "restart-manager-missing": person(
    "the StatefulSet names no process manager, or not completely",
    "write the annotation that the message names",
  ),
  "service-missing": person(
    "the StatefulSet has no serviceName, so that its pods have no names",
    "name a headless Service in the StatefulSet",
  ),
  "manager-silent": person(
    "the process manager does not answer, or refuses the token",
    "see the message; a Role must let Sluice read the Secret",
  ),
  "manager-busy": depends("the process stops already, or its runner is away", "nothing, or see the pod"),
  "pod-terminating": itself("the pod is on its way out", "nothing: the next pod is a new process"),
  "pod-missing": depends("the pod is gone", "nothing: the next pod is a new process"),
  "restart-calling": itself("the restart is under way, and the process manager is called"),
  "restart-stopping": itself("the restart is under way, and the process stops"),
  "restart-starting": itself("the restart is under way, and the process starts"),
};
