/** Why this function waits, and what ends that. */
import { depends, type Guards, itself, person } from "../shared/base/guards.ts";
import { doneGuards, objectGuards } from "../shared/reconcile/guards.ts";
import { otherOperatorGuards } from "../shared/standby/guards.ts";
import { durationGuards } from "../shared/suspension/guards.ts";

/** The name that Events and metrics have. */
const keptGuard = "held";

export const guards: Guards = {
  ...doneGuards,
  ...objectGuards,
  ...durationGuards,
  ...otherOperatorGuards,
  holding: itself("the process group is held back"),
  annotating: itself("the volume claims get their owner and zone"),
  "letting-go": itself("the operator may remove the process group"),
  "not-excluded": itself("FoundationDB moves the data of the process group first"),
  [keptGuard]: itself(
    "the process group is held back, and its time runs",
    "nothing; kubectl sluice suspended shows what a volume waits for",
  ),
  removing: itself("the volume of the process group is being removed"),
  recovering: itself("the process group is wanted back"),
  withdrawn: itself("the process group is not to be removed any more"),
  protecting: itself("volume claims get the finalizer of Sluice"),
  releasing: itself("the finalizer of Sluice is taken off volume claims"),
  "blocked-by-user": depends(
    "a user has blocked this removal",
    "take the id out of spec.buggify.blockRemoval, or leave it",
  ),
  "exclusion-skipped": person(
    "the process group is removed without an exclusion, and its data may be nowhere else",
    "recover the process group, or exclude it first",
  ),
  "group-unlisted": depends(
    "the status of the operator does not list the process group, though its volume is there",
    "nothing, or have the operator list it again",
  ),
  "pod-newer": person(
    "the pod of the process group is newer than its exclusion",
    "have the process group excluded again",
  ),
  "removal-begun": person(
    "the operator was faster, and the volume stays if it is protected",
    "save the PersistentVolume",
  ),
  "claim-deleted": person("a user was faster, and the volume stays if it is protected", "save the PersistentVolume"),
  "block-list-full": depends("the operator takes 1,000 blocks", "wait, or shorten the duration"),
  "record-malformed": person(
    "Sluice cannot read which process groups it holds back, and adds or lifts no block",
    "correct the annotation that the message names",
  ),
  "protection-malformed": person(
    "Sluice cannot read which volumes it protects, and no finalizer comes or goes",
    "correct the annotation that the message names",
  ),
  "removal-mode-unknown": person("Sluice cannot tell how the volumes go", "write what the message names"),
  "volume-unfound": person("Sluice cannot tell whose a volume is", "write what the message names"),
  "owner-deleting": person("the cluster is being deleted", "save the PersistentVolumes that are still needed"),
  "owner-gone": person("the cluster is gone", "save the PersistentVolumes that are still needed"),
  uninstalling: depends(
    "the finalizers are being taken off, so that nothing is held back",
    "take the setting away when volumes are to be kept",
  ),
};
