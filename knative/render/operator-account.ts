/**
 * The rights for the account of rollout-operator's own Helm chart, for users who keep that chart and change its image: what the
 * functions of the preset `rollout-operator` need in the namespace. The chart's ClusterRole has what they need outside of it.
 */

import { usualSecretName } from "../../functions/shared/certificates/settings.ts";
import type { Definition, FunctionDefinition } from "../../functions/shared/contract/definition.ts";
import { isClusterScoped } from "../../functions/shared/kubernetes/cluster.ts";
import { alwaysServed, presets } from "../../triggers/table.ts";
import { watchNeed } from "./events.ts";
import { labelsOf, type Manifest, placeholderNamespace } from "./object.ts";
import { boundTo, tlsPortNeeds, union } from "./rights.ts";

/** Not the name of the chart's Role, which has the account's name. */
const name = "rollout-operator-sluice";
/** A placeholder, because the chart calls the account after the release: users write the one subject of the RoleBinding. */
const account = "rollout-operator";
/** The defaults of the operator's flag and of the chart's `webhooks.selfSignedCertSecretName`. */
const secretNames = [usualSecretName, "certificate"];

/** The functions that take the operator's place, and those of every choice. */
const chosen = new Set([...(presets["rollout-operator"] ?? []), ...alwaysServed].map((one) => one.name));
const isChosen = ({ name: one }: Definition): boolean => chosen.has(one);

/** The Role and its RoleBinding. `others`: functions that no change of an object triggers. Throws Error for a wildcard. */
export function operatorAccountOf(
  triggered: readonly FunctionDefinition[],
  others: readonly Definition[],
): readonly Manifest[] {
  const watches = triggered.filter(isChosen).flatMap((one) => one.watches.map(watchNeed));
  const needs = [
    ...[...triggered, ...others].filter(isChosen).flatMap((one) => one.needs),
    ...watches,
    ...tlsPortNeeds,
  ];
  const own = union(needs)
    .filter((need) => !isClusterScoped(need))
    .map((need) => (need.names?.includes(usualSecretName) ? { ...need, names: secretNames } : need));
  const bound = boundTo({ kind: "ServiceAccount", name: account, namespace: placeholderNamespace });
  return bound("Role", { binding: name, role: name, labels: labelsOf("operator-account") }, own);
}
