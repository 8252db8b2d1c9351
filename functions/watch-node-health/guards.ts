/** Why this function waits, and what ends that. */
import { depends, type Guards, itself, person } from "../shared/base/guards.ts";
import { objectGuards } from "../shared/reconcile/guards.ts";

export const guards: Guards = {
  ...objectGuards,
  ready: itself("the node is Ready"),
  counting: itself("the node is not Ready, and the message says for how long"),
  marking: itself("the node gets the mark"),
  marked: itself("the node has the mark"),
  returning: itself("the node is Ready again, and the message says for how long"),
  unmarking: itself("the node loses the mark"),
  off: itself("the function is off"),
  "node-gone": itself("the Node is gone"),
  "marked-by-others": depends("the mark is of another client", "nothing: that client takes it away, or a fence does"),
  fencing: depends("a fence of the node is under way, or has not ended", "kubectl sluice fenced"),
  "never-reported": person("the kubelet of the node has never reported a condition", "repair the start of the node"),
  "never-fenced": depends("the node excludes itself", "mark the node yourself if it is to be fenced"),
  maintenance: depends(
    "the condition MaintenanceInProgress of the node is True",
    "mark the node yourself if it is to be fenced",
  ),
  cordoned: depends("the node is cordoned", "mark the node yourself if it is to be fenced"),
  "deleting-node": itself("the node is being deleted", "mark the node yourself if it is to be fenced"),
  "foreign-fence": depends("another tool fences the node", "mark the node yourself if it is to be fenced"),
  storm: person("more nodes are unwell than FENCE_STORM permits", "repair what the nodes have in common"),
};
