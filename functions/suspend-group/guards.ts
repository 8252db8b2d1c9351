/** Why this function waits, and what ends that. */
import { depends, type Guards, itself, person } from "../shared/base/guards.ts";
import { leavingGuards, limitGuards, neverGuards, zoneGuards } from "../shared/groups/guards.ts";
import { questionGuards } from "../shared/health/guards.ts";
import { claimGuards, healthGuards } from "../shared/ledger/guards.ts";
import { doneGuards } from "../shared/reconcile/guards.ts";
import { otherOperatorGuards } from "../shared/standby/guards.ts";
import { durationGuards, proofGuards, restartedGuards, turnGuards } from "../shared/suspension/guards.ts";
import { ledgerAgeGuards, ledgerGuards } from "../shared/transaction/guards.ts";
import { drainGuards, ownerGuards } from "../shared/volumes/guards.ts";

export const guards: Guards = {
  ...doneGuards,
  ...ledgerAgeGuards,
  ...ledgerGuards,
  ...claimGuards,
  ...healthGuards,
  ...questionGuards,
  ...drainGuards,
  ...ownerGuards,
  ...turnGuards,
  ...durationGuards,
  ...proofGuards,
  ...restartedGuards,
  ...zoneGuards,
  ...limitGuards,
  ...leavingGuards,
  ...neverGuards,
  ...otherOperatorGuards,
  suspended: itself("the pod is gone, and the time of the volume runs", "nothing; kubectl sluice recover keeps it"),
  suspending: itself("the pod of the volume goes"),
  protecting: itself("the volume claim gets a finalizer"),
  "pod-leaving": itself("the pod of the volume is on its way out"),
  stamping: itself("the volume claim gets the time from which it is kept"),
  recovering: itself("the pod of the volume is brought back"),
  "pod-missing": depends("the pod of the volume is to come back, and is not there yet", "nothing"),
  drained: itself("the pod is gone, and nothing needs the data"),
  "not-drained": person(
    "nothing says that the data is not needed",
    "write the annotation that the message names once the data is not needed any more",
  ),
  "request-incomplete": person("an annotation of the request is missing", "write what the message says"),
  "request-malformed": person("Sluice cannot read the request", "write what the message says"),
  "state-malformed": person("Sluice cannot read what it wrote itself", "write what the message says"),
  "mark-unknown": itself(
    "the mark of a removal is a copy, without a claim of the ledger",
    "nothing: Sluice removes a false mark, and the time begins anew",
  ),
  "not-top-ordinal": person("the pod cannot go without a pod above it", "suspend the pods above it first"),
  "retention-conflict": person(
    "the StatefulSet deletes the volumes of pods that go",
    "correct the policy that the message names",
  ),
  "volume-shared": person("another pod uses the volume", "see the message"),
  "size-led": person(
    "another object says the size of the StatefulSet, and would bring the pod back",
    "see the message",
  ),
  "owner-statefulset": person("the named owner is a StatefulSet", "see the message"),
  "owner-not-controller": person("the named owner does not control the pod", "see the message"),
  uninstalling: depends(
    "the finalizers are being taken off, so that no pod is taken",
    "take the setting away when pods may go",
  ),
  "recover-lower-first": person("a lower ordinal is also suspended", "recover the lower one first"),
  "below-start": person("the ordinal is below the first one of the StatefulSet", "write what the message says"),
  "recover-too-late": person("the removal had begun before the volume was wanted back", "see the message"),
  "in-use-again": person("a user or another controller brought the pod back", "see the message"),
  "deleted-by-others": person("another client has deleted the volume claim", "see the message"),
  "owner-deleting": person("the owner of the volume is being deleted", "see the message"),
  "owner-replaced": person("the owner is another one than at the suspension of the volume", "see the message"),
  "disruption-budget": depends(
    "a PodDisruptionBudget keeps a pod of another owner",
    "kubectl get poddisruptionbudgets -n {namespace}",
  ),
  "size-refused": person("the API server refused the new size", "find what refuses: the message quotes its answer"),
  "delete-refused": person("the API server refused a deletion", "find what refuses: the message quotes its answer"),
};
