/** ServiceAccounts, and the least rights for each: a function's `needs`, neither a verb more nor a wildcard. */
import { usualSecretName } from "../functions/shared/certificates.ts";
import { resources } from "../functions/shared/cluster.ts";
import type { Need } from "../functions/shared/definition.ts";
import { labelsOf, type Manifest, placeholderNamespace, type Workload } from "./manifests-object.ts";

const rbac = "rbac.authorization.k8s.io";
/** Of all resources that functions need, those of this group alone are of no namespace. */
const clusterWideGroup = resources.mutatingwebhookconfigurations.group;

/** What a process needs for its TLS port besides what its functions need: the certificate, and who trusts it. */
export const tlsPortNeeds: readonly Need[] = [
  { group: "", resource: "secrets", verbs: ["get"], names: [usualSecretName] },
  { group: clusterWideGroup, resource: "mutatingwebhookconfigurations", verbs: ["list", "watch"] },
  { group: clusterWideGroup, resource: "validatingwebhookconfigurations", verbs: ["list", "watch"] },
];

/** What is needed where views are lists: whoever comes and goes never watches. */
export function withoutWatches(needs: readonly Need[]): readonly Need[] {
  return needs
    .map((need) => ({ ...need, verbs: need.verbs.filter((verb) => verb !== "watch") }))
    .filter(({ verbs }) => verbs.length > 0);
}

/** The needs of several functions as one list: a line for each resource, or for named objects of it. */
export function union(needs: readonly Need[]): readonly Need[] {
  const lines = new Map<string, Need>();
  for (const need of needs) {
    const key = JSON.stringify([need.group, need.resource, need.names]);
    const verbs = [...(lines.get(key)?.verbs ?? []), ...need.verbs];
    lines.set(key, { ...need, verbs: [...new Set(verbs)] });
  }
  return [...lines.values()];
}

/** The ServiceAccount of a workload with its Role, and a ClusterRole where it needs something that is of no namespace. */
export function rightsOf({ name, needs }: Workload): readonly Manifest[] {
  const labels = labelsOf(name);
  const own = needs.filter(({ group }) => group !== clusterWideGroup);
  const clusterWide = needs.filter(({ group }) => group === clusterWideGroup);
  const subjects = [{ kind: "ServiceAccount", name, namespace: placeholderNamespace }];
  const bound = (kind: string, binding: string, role: string, rules: readonly Need[]): Manifest[] => {
    if (rules.length === 0) return [];
    const roleRef = { apiGroup: rbac, kind, name: role };
    return [
      { apiVersion: `${rbac}/v1`, kind, metadata: { name: role, labels }, rules: union(rules).map(ruleOf) },
      { apiVersion: `${rbac}/v1`, kind: `${kind}Binding`, metadata: { name: binding, labels }, roleRef, subjects },
    ];
  };
  return [
    { apiVersion: "v1", kind: "ServiceAccount", metadata: { name, labels } },
    ...bound("Role", name, name, own),
    // Several namespaces may have a Sluice: the role is the same for all of them, the binding is not.
    ...bound("ClusterRole", `sluice:${name}:${placeholderNamespace}`, `sluice:${name}`, clusterWide),
  ];
}

function ruleOf({ group, resource, verbs, names }: Need): object {
  const rule = { apiGroups: [group], resources: [resource], verbs };
  return names === undefined ? rule : { ...rule, resourceNames: names };
}
