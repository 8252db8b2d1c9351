/** Why this function waits, and what ends that. */
import { depends, type Guards, itself, person } from "../shared/base/guards.ts";
import { doneGuards } from "../shared/reconcile/guards.ts";
import { otherOperatorGuards } from "../shared/standby/guards.ts";

export const guards: Guards = {
  ...doneGuards,
  ...otherOperatorGuards,
  rebalanced: itself("a node has accepted the request"),
  settling: itself("the nodes are new, or were rebalanced a moment ago"),
  "pods-not-ready": depends("a pod is away, not ready or on its way out", "nothing, or mend the pod"),
  "rollout-under-way": itself("there are pods of two revisions"),
  "rebalance-under-way": itself("a process has claimed the request in the last minute"),
  "operator-first": itself("its RabbitmqCluster has the mark, and the operator has five minutes"),
  "state-contended": itself("others write the StatefulSet at this moment"),
  "state-refused": person("the annotation may not be written", "change what refuses: the message names it"),
  "rebalance-refused": person(
    "a node refused, or something else answered",
    "see the message: the tags of the user, the port",
  ),
  "rebalance-unanswered": depends("no answer came in time, or a process ended before the answer", "see the message"),
  "credentials-missing": person(
    "the Secret is not there, may not be read, or has not both keys",
    "write the Secret and the Role",
  ),
  "not-rabbitmq": person(
    "the StatefulSet does not ask the health question of RabbitMQ",
    "write the annotation of the question, or remove the label",
  ),
  "question-malformed": person("Sluice cannot read an annotation of the question", "write what the message says"),
  "label-malformed": person("Sluice cannot read the label", "write what the message says"),
};
