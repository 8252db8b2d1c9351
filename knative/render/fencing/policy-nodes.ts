/** The policy on Nodes: the functions write their own taints and annotations, and the agents write none. */

import { fenceTaint, ourOutOfServicePrefix, outOfServiceTaint } from "../../../functions/shared/annotations/fencing.ts";
import type { Need } from "../../../functions/shared/contract/definition.ts";
import { resources } from "../../../functions/shared/kubernetes/cluster.ts";
import { literal, type Variable, variablesOf } from "../fence/expressions.ts";
import { onlyListedChanges, tableOf } from "../fence/fence.ts";
import { ruleFor, type Validation } from "../fence/policy.ts";
import type { Manifest } from "../object.ts";
import { functionAccount } from "./names.ts";
import { everyWrite, fencingPolicy, isWrittenByAccount, mark, markPath } from "./policy-accounts.ts";

const { group } = resources.nodes;
const isNode = (need: Need) => need.group === group && need.resource === "nodes";

const taintsOf = (when: string) =>
  `'spec' in variables.${when} && 'taints' in variables.${when}.spec ? variables.${when}.spec.taints : []`;
const hasKey = (key: string) => `t.key == ${literal(key)}`;
const isOutOfService = `${hasKey(outOfServiceTaint.key)} && 'value' in t && t.value.startsWith(${literal(ourOutOfServicePrefix)})`;
const isFence = `${hasKey(fenceTaint.key)} && t.effect == ${literal(fenceTaint.effect)}`;
const foreign = (when: string) =>
  `variables.taints${when}.filter(t, !(${hasKey(fenceTaint.key)} || ${isOutOfService}))`;

const variables: readonly Variable[] = [
  { name: "taintsBefore", expression: taintsOf("before") },
  { name: "taintsAfter", expression: taintsOf("after") },
];

const taints: Validation = {
  expression: `request.operation == 'DELETE' || ${foreign("After")} == ${foreign("Before")}`,
  message: "taints of others stay as they are",
};
/** A Node that its kubelet has registered meanwhile gets back what it had. */
const restoredTaints: Validation = {
  expression: `request.operation == 'DELETE' || ${foreign("Before")}.all(one, one in ${foreign("After")})`,
  message: "taints of others stay",
};

/** Kubernetes takes a Node for stopped from then on, so no new pod may come to it any more. */
const underOwnTaint: Validation = {
  expression:
    `!variables.taintsAfter.exists(t, ${isOutOfService}) || variables.taintsBefore.exists(t, ${isOutOfService}) ||\n` +
    `variables.taintsBefore.exists(t, ${isFence})`,
  message: "a Node without the taint of a fence is not put out of service",
};
const deletedUnderOwnTaint: Validation = {
  expression: `request.operation != 'DELETE' || variables.taintsBefore.exists(t, ${isFence})`,
  message: "a Node without the taint of a fence is not deleted",
};
const patchedAlone: Validation = {
  expression: "request.operation == 'UPDATE'",
  message: "the functions make and delete no Node",
};
/** A create may have a status, of which these two fields are always there. */
const withoutStatus: Validation = {
  expression:
    "request.operation != 'CREATE' || !('status' in variables.after) ||\n" +
    "variables.after.status.all(f, f == 'daemonEndpoints' ||\n" +
    "  f == 'nodeInfo' && variables.after.status.nodeInfo.all(i, variables.after.status.nodeInfo[i] == ''))",
  message: "a Node is made without a status: its kubelet reports one",
};

/** Their subresources as well: no account of Sluice reports the status of a Node. */
export function nodesPolicy(needs: readonly Need[]): readonly Manifest[] {
  const table = tableOf({ covers: isNode }, [{ name: functionAccount, needs }]);
  const deletesNodes = needs.some((need) => isNode(need) && need.verbs.includes("delete"));
  const own = deletesNodes ? [restoredTaints, deletedUnderOwnTaint, withoutStatus] : [taints, patchedAlone];
  const listed = deletesNodes
    ? onlyListedChanges(table, { isDeleted: true, besides: ["status"] })
    : onlyListedChanges(table, {});
  return fencingPolicy("nodes", {
    matchConstraints: { resourceRules: [ruleFor(group, everyWrite, ["nodes", "nodes/*"])] },
    variables: [mark, ...variablesOf(table, { free: markPath }), ...variables],
    validations: [isWrittenByAccount, underOwnTaint, ...own, ...listed],
  });
}
