/** Why this function waits, and what ends that. */
import { depends, type Guards, itself, person } from "../shared/base/guards.ts";
import { limitGuards, neverGuards, zoneGuards } from "../shared/groups/guards.ts";
import { claimGuards } from "../shared/ledger/guards.ts";
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
  ...drainGuards,
  ...ownerGuards,
  ...turnGuards,
  ...durationGuards,
  ...proofGuards,
  ...restartedGuards,
  ...zoneGuards,
  ...limitGuards,
  ...neverGuards,
  ...otherOperatorGuards,
  suspended: itself("the time of the volume runs", "nothing; kubectl sluice recover keeps it"),
  removing: itself("the volume is being removed"),
  "on-hold": depends("a user wants the volume to stay", "take the annotation away when the volume may go"),
  uninstalling: depends(
    "the finalizers are being taken off, so that no volume is removed",
    "take the setting away when volumes may go",
  ),
  "namespace-ending": itself("the namespace is being deleted"),
  "drain-lost": person(
    "nothing says any more that the data of the volume is not needed",
    "write the annotation that the message names again, or recover the pod",
  ),
  "stamp-missing": person(
    "Sluice cannot tell since when the pod of the volume has been gone",
    "write what the message says",
  ),
  "in-use": depends("a pod uses the volume", "nothing, or find out which client wants it"),
  recovering: itself("the volume is wanted back"),
  stamping: itself("the volume claim gets the time from which it is kept"),
  "owner-deleting": person(
    "the StatefulSet of the volume is being deleted",
    "recover the volume, or take the finalizer of Sluice away",
  ),
  "owner-replaced": person(
    "the StatefulSet is another one than at the suspension of the volume",
    "recover the volume, or take the finalizer of Sluice away",
  ),
  "owner-gone": person("the owner of the volume is gone", "recover the volume, or take the finalizer of Sluice away"),
  "owner-malformed": person(
    "Sluice cannot tell the owner of the volume",
    "correct the annotation that the message names",
  ),
  "finalizer-foreign": person(
    "the volume claim is deleted, and a finalizer that is not Sluice's holds it",
    "find the client that owns the finalizer",
  ),
  "volume-not-retained": person(
    "the volume claim is deleted, and its PersistentVolume cannot be kept",
    "see the message: a right, or the PersistentVolume",
  ),
  recovered: itself("a volume claim without a StatefulSet was recovered"),
  "recover-too-late": itself("the removal had begun before the volume was wanted back"),
  withdrawn: itself("the request was withdrawn"),
};
