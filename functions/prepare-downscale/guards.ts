/** Why this function waits, and what ends that. */
import { allowedGuards, failureGuards, namespaceGuards, requestGuards } from "../shared/admission/guards.ts";
import { depends, type Guards, itself, person } from "../shared/base/guards.ts";
import { leavingGuards, limitGuards, neverGuards, severalBudgetsGuards, zoneGuards } from "../shared/groups/guards.ts";
import { claimGuards } from "../shared/ledger/guards.ts";
import { pacingGuards, refusedDownscaleGuards, sizeReviewGuards } from "../shared/scaling/guards.ts";
import { otherOperatorGuards } from "../shared/standby/guards.ts";
import { contendedGuards, ledgerAgeGuards, ledgerGuards } from "../shared/transaction/guards.ts";

export const guards: Guards = {
  ...allowedGuards,
  ...failureGuards,
  ...requestGuards,
  ...namespaceGuards,
  ...claimGuards,
  ...ledgerAgeGuards,
  ...ledgerGuards,
  ...contendedGuards,
  ...zoneGuards,
  ...limitGuards,
  ...severalBudgetsGuards,
  ...neverGuards,
  ...leavingGuards,
  ...sizeReviewGuards,
  ...refusedDownscaleGuards,
  ...pacingGuards,
  ...otherOperatorGuards,
  "not-prepared": itself("the StatefulSet does not ask that its pods be prepared"),
  "dry-run": itself("the request is a dry run, for which Sluice tells no pod"),
  "settings-unread": person("Sluice cannot read the settings of the StatefulSet, and told no pod", "see the warning"),
  "prepare-port-missing": person(
    "the annotation with the port of the endpoint is missing",
    "correct the StatefulSet as the message says",
  ),
  "prepare-path-missing": person(
    "the annotation with the path of the endpoint is missing",
    "correct the StatefulSet as the message says",
  ),
  "prepare-port-malformed": person(
    "Sluice cannot read the port of the endpoint",
    "correct the StatefulSet as the message says",
  ),
  "prepare-path-malformed": person(
    "Sluice cannot read the path of the endpoint",
    "correct the StatefulSet as the message says",
  ),
  "service-name-missing": person(
    "the StatefulSet has no serviceName, so that its pods have no names",
    "name a headless Service in the StatefulSet",
  ),
  "min-time-malformed": person(
    "Sluice cannot read how long to wait between the downscales of two zones",
    "correct the label that the message names",
  ),
  "zone-updating": depends(
    "the StatefulSet of another zone is behind its spec, or has pods of an older revision",
    "nothing, or mend the zone that the message names",
  ),
  "pod-unprepared": depends(
    "a pod did not answer with 2xx, or not in time",
    "see why the pod did not answer with 2xx: the message has its answer",
  ),
  "pod-missing": depends("a pod that would leave is not there", "wait for the pod, or mend it"),
  "pod-never-ready": depends("a pod that would leave has never been ready", "wait for the pod, or mend it"),
  "pod-replaced": itself("a pod was replaced while it was told", "try again"),
  "claim-lost": itself("another process has taken the claim out of the ledger, or changed it", "try again"),
  "claim-unconfirmed": itself("the pods were told, and then something broke before the second write", "try again"),
  "uid-conflict": itself("the StatefulSet was deleted and made again meanwhile", "try again"),
  "size-conflict": itself("the StatefulSet has another size by now than the review says", "try again"),
  "prepare-broken": person("a fault of Sluice ended the review, and nothing went through", "report it"),
};
