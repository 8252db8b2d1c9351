/**
 * The installation of fencing, once in a cluster and in a namespace of its own: opt-in functions whose keys are Nodes, and the
 * agents. The standard installation has none of it, and no right to Nodes.
 */

import { type FunctionDefinition, isStandard, type Need } from "../../../functions/shared/contract/definition.ts";
import { sourcesOf } from "../events.ts";
import { editNeed } from "../fence/guard.ts";
import { type ListedKinds, needsOfKinds } from "../kinds.ts";
import { labelsOf, type Manifest, placeholderNamespace } from "../object.ts";
import { boundTo, rightsOf, union, withoutWatches } from "../rights.ts";
import { agentsOf } from "./agents.ts";
import { functionsDeployment, functionsOnKnative } from "./functions.ts";
import { fencingMonitors, fencingRule } from "./monitoring.ts";
import { fencingNamespace, functionAccount } from "./names.ts";
import { namespaceOfFencing } from "./namespace.ts";
import { fencingPoliciesOf } from "./policy.ts";

/** The files of each folder below `knative/base`, without their endings. */
export type Folders = Readonly<Record<string, Readonly<Record<string, readonly Manifest[]>>>>;

/**
 * The guard policies of a standard installation do not know the account: by this right they let it write the ledgers of the
 * namespaces that they guard. To which changes it is limited then, is in `fencing-policy`.
 */
const editEverywhere: Need = { ...editNeed, scope: "every-namespace" };

/** True for a function that is installed with fencing. */
export function concernsNodes(definition: FunctionDefinition): boolean {
  return !isStandard(definition) && definition.keyedBy === "nodes";
}

/**
 * The folders of the installation; none without such functions. Objects name their namespace themselves.
 *
 * @param kinds those that users may name; absent: none
 */
export function fencingFolders(definitions: readonly FunctionDefinition[], kinds?: ListedKinds): Folders {
  const served = definitions.filter(concernsNodes);
  if (served.length === 0) return {};
  const names = served.map(({ name }) => name);
  const all = served.flatMap(({ needs, kindNeeds = [] }) => [
    ...needs,
    ...(kinds === undefined ? [] : needsOfKinds(kindNeeds, kinds)),
  ]);
  const workload = { name: functionAccount, needs: union([...all, editEverywhere]) };
  const onKnative = { ...workload, needs: withoutWatches(workload.needs) };
  return {
    fencing: { functions: [...inFencingNamespace(rightsOf(workload)), ...functionsDeployment(names)] },
    "fencing-knative": {
      functions: inFencingNamespace([...rightsOf(onKnative), functionsOnKnative(names)]),
      sources: inFencingNamespace(served.flatMap((definition) => sourcesOf(definition, functionAccount))),
    },
    "fencing-agents": { namespace: namespaceOfFencing(), agents: inFencingNamespace(agentsOf()) },
    "fencing-monitoring": { alerts: [fencingRule()], scraping: fencingMonitors() },
    "fencing-policy": { policies: fencingPoliciesOf(all) },
    ...partsOf(served, all),
  };
}

/**
 * A folder for each part of a function that needs more rights: it gives those that `fencing` does not give, and stands in the
 * place of `fencing-policy`.
 */
function partsOf(served: readonly FunctionDefinition[], usual: readonly Need[]): Folders {
  const parts = served.flatMap(({ optionalNeeds = {} }) => Object.entries(optionalNeeds));
  const bound = boundTo({ kind: "ServiceAccount", name: functionAccount, namespace: fencingNamespace });
  const labels = labelsOf(functionAccount);
  const folders = parts.map(([part, needs]) => {
    const role = `sluice:fencing-${part}`;
    const rights = bound("ClusterRole", { binding: role, role, labels }, beyond(usual, needs));
    return [`fencing-${part}`, { rights, policies: fencingPoliciesOf([...usual, ...needs]) }] as const;
  });
  return Object.fromEntries(folders);
}

/** What of these needs the usual ones do not have. */
function beyond(usual: readonly Need[], needs: readonly Need[]): readonly Need[] {
  const isUsual = ({ group, resource, scope }: Need, verb: string) =>
    usual.some(
      (one) => one.group === group && one.resource === resource && one.scope === scope && one.verbs.includes(verb),
    );
  return needs.map((need) => ({ ...need, verbs: need.verbs.filter((verb) => !isUsual(need, verb)) }));
}

const ofCluster = /^(ClusterRole|ClusterRoleBinding|FlowSchema)$/;

/** Does for objects what the component `knative/namespace` and an overlay do for those of a namespace that users choose. */
function inFencingNamespace(manifests: readonly Manifest[]): readonly Manifest[] {
  return manifests.map((manifest) => {
    const { name, ...more } = manifest.metadata;
    const placed = ofCluster.test(manifest.kind) ? more : { namespace: fencingNamespace, ...more };
    const metadata = { name: name.replace(new RegExp(`:${placeholderNamespace}$`), `:${fencingNamespace}`), ...placed };
    if (manifest.subjects === undefined) return { ...manifest, metadata };
    const subjects = (manifest.subjects as readonly object[]).map((one) => ({ ...one, namespace: fencingNamespace }));
    return { ...manifest, metadata, subjects };
  });
}
