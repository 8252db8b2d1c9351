/** What the policies of fencing have in common: whom they are about, and how they are called. */

import { unhealthy } from "../../../functions/shared/annotations/fencing.ts";
import { isOurs, literal, type Variable } from "../fence/expressions.ts";
import { policyOf, type Validation } from "../fence/policy.ts";
import { labelsOf, type Manifest } from "../object.ts";
import { agentAccount, fencingNamespace, functionAccount } from "./names.ts";

export const isByAgent = `variables.account == ${literal(agentAccount)}`;

/** The key of the mark, as the first variable: users who set `FENCE_MARK` patch their key in here. */
export const mark: Variable = { name: "mark", expression: literal(unhealthy.key) };
/** The path of the mark, for {@link variablesOf}. */
export const markPath = "['metadata.annotations[' + variables.mark + ']']";

/** Every write: a policy also decides those that an account has no right to. */
export const everyWrite = ["CREATE", "UPDATE", "DELETE"];

/** True for an object of a sort that the account writes at all. Without it an empty object could be made, and deleted. */
export const isWrittenByAccount: Validation = {
  expression: "variables.account in variables.table && variables.resource in variables.table[variables.account]",
  message: "this account of Sluice does not write such objects",
  messageExpression: "variables.account + ' does not write ' + variables.resource",
};

/** A policy on the writes of the two accounts, with its binding. */
export function fencingPolicy(about: string, spec: object): readonly Manifest[] {
  // The one place of a policy that has the namespace: `variables.ownNamespace` comes from the name of the account.
  const expression = isOurs([functionAccount, agentAccount], fencingNamespace);
  const metadata = { name: `sluice-fencing-${about}`, labels: labelsOf("fencing-policy") };
  return policyOf(metadata, { matchConditions: [{ name: "by-an-account-of-sluice", expression }], ...spec });
}
