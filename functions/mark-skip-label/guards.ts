/** Why this function waits, and what ends that. */
import { type Guards, itself, person } from "../shared/base/guards.ts";
import { doneGuards, objectGuards } from "../shared/reconcile/guards.ts";
import { otherOperatorGuards } from "../shared/standby/guards.ts";

export const guards: Guards = {
  ...doneGuards,
  ...objectGuards,
  ...otherOperatorGuards,
  holding: itself("the owner is kept until the pods have the label"),
  "letting-alone": itself("a pod of the owner lives on without the label"),
  labelling: itself("the pods of the owner get the label"),
  released: itself("the finalizer is taken off the owner"),
  "marker-unseen": itself(
    "a pod got its label so lately that its hook may not see it yet",
    "nothing: the message says until when",
  ),
  "label-refused": person(
    "the API server, or a webhook, does not take the label of a pod",
    "change what refuses: the message quotes it",
  ),
  "label-taken": person("another label uses the key", "remove the other label, or choose another key"),
  "skip-label-malformed": person(
    "the annotation names no label, or one that is not permitted",
    "correct the annotation, or SKIP_LABEL_KEYS",
  ),
  "deadline-passed": person(
    "the owner goes, and the message says what was left undone",
    "look at the pods that the message names",
  ),
  "namespace-ending": itself("the namespace is being deleted, and the pods have the label"),
  stopping: itself("the pods have the label because of stop-all", "remove that when they may be protected again"),
  "labels-withdrawn": itself("the annotation stop-all is gone, and the labels go"),
};
