/** ServiceAccounts, and the least rights for each: a function's `needs`, neither a verb more nor a wildcard. */

import { usualSecretName } from "../../functions/shared/certificates/settings.ts";
import type { Need } from "../../functions/shared/contract/definition.ts";
import { isClusterScoped, resources } from "../../functions/shared/kubernetes/cluster.ts";
import { labelsOf, type Manifest, placeholderNamespace, type Workload } from "./object.ts";

const rbac = "rbac.authorization.k8s.io";
const { group: admissionGroup } = resources.mutatingwebhookconfigurations;

/**
 * The needs of a process for its TLS port besides those of its functions: the certificate, and the configurations that trust
 * it.
 */
export const tlsPortNeeds: readonly Need[] = [
  { group: "", resource: "secrets", verbs: ["get"], names: [usualSecretName] },
  { group: admissionGroup, resource: "mutatingwebhookconfigurations", verbs: ["list", "watch"] },
  { group: admissionGroup, resource: "validatingwebhookconfigurations", verbs: ["list", "watch"] },
];

/** The reads of `kubectl sluice why`, for users who run it in a pod of Sluice, with the pod's account. */
export const pluginNeeds: readonly Need[] = [
  { group: resources.leases.group, resource: "leases", verbs: ["get", "list"] },
  { group: resources.statefulsets.group, resource: "statefulsets", verbs: ["get", "list"] },
  { group: "", resource: "pods", verbs: ["get", "list"] },
  {
    group: resources.zoneawarepoddisruptionbudgets.group,
    resource: "zoneawarepoddisruptionbudgets",
    verbs: ["list"],
  },
  { group: resources.poddisruptionbudgets.group, resource: "poddisruptionbudgets", verbs: ["list"] },
  { group: "", resource: "events", verbs: ["get"] },
];

/** The rights if views are lists, because nothing is watched then. */
export function withoutWatches(needs: readonly Need[]): readonly Need[] {
  return needs
    .map((need) => ({ ...need, verbs: need.verbs.filter((verb) => verb !== "watch") }))
    .filter(({ verbs }) => verbs.length > 0);
}

/** The needs of several functions as one list: a line for each resource, or for named objects of it. */
export function union(needs: readonly Need[]): readonly Need[] {
  const lines = new Map<string, Need>();
  for (const need of needs) {
    const key = JSON.stringify([need.group, need.resource, need.names, need.namesOfNamespace, need.scope]);
    const verbs = [...(lines.get(key)?.verbs ?? []), ...need.verbs];
    lines.set(key, { ...need, verbs: [...new Set(verbs)] });
  }
  return [...lines.values()];
}

/**
 * The ServiceAccount of a workload with its Role. What it needs of cluster-scoped objects, and in every namespace, is in a
 * ClusterRole; what it needs in the namespace `default` is in a second Role there.
 */
export function rightsOf({ name, needs }: Workload): readonly Manifest[] {
  const labels = labelsOf(name);
  const isOfCluster = (need: Need) => isClusterScoped(need) || need.scope === "every-namespace";
  const namespaced = needs.filter((need) => !isOfCluster(need));
  const own = namespaced.filter(({ scope }) => scope === undefined);
  const inDefault = namespaced.filter(({ scope }) => scope === "default");
  const clusterWide = needs.filter(isOfCluster);
  const isOfNamespace = ({ namesOfNamespace }: Need) => namesOfNamespace !== undefined;
  const bound = boundTo({ kind: "ServiceAccount", name, namespace: placeholderNamespace });
  const ofNamespace = `sluice:${name}-webhooks:${placeholderNamespace}`;
  return [
    { apiVersion: "v1", kind: "ServiceAccount", metadata: { name, labels } },
    ...bound("Role", { binding: name, role: name, labels }, own),
    // Not by its own name, which the Role above has where the process runs in that namespace. The field `namespace` of a
    // kustomization would move this Role to another namespace.
    ...bound("Role", { binding: `sluice:${name}`, role: `sluice:${name}`, labels, namespace: "default" }, inDefault),
    // Several namespaces may have a Sluice: what they may list is the same for all of them, the binding is not.
    ...bound(
      "ClusterRole",
      { binding: `sluice:${name}:${placeholderNamespace}`, role: `sluice:${name}`, labels },
      clusterWide.filter((need) => !isOfNamespace(need)),
    ),
    // The changes are not the same. By its label the component `knative/namespace` knows where to write the namespace.
    ...bound(
      "ClusterRole",
      { binding: ofNamespace, role: ofNamespace, labels: labelsOf("own-webhooks") },
      clusterWide.filter(isOfNamespace),
    ),
  ];
}

/** The ServiceAccount of a workload that acts in every namespace: all its needs are in a ClusterRole. */
export function clusterRightsOf({ name, needs }: Workload, labels: Naming["labels"]): readonly Manifest[] {
  const bound = boundTo({ kind: "ServiceAccount", name, namespace: placeholderNamespace });
  return [
    { apiVersion: "v1", kind: "ServiceAccount", metadata: { name, labels } },
    ...bound("ClusterRole", { binding: `sluice:${name}`, role: `sluice:${name}`, labels }, needs),
  ];
}

interface Naming {
  readonly binding: string;
  readonly role: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Absent: an overlay says where. */
  readonly namespace?: string;
}

/** Returns a function that makes a role of some rules, and binds it; nothing without rules. */
export function boundTo(subject: object) {
  return (kind: string, { binding, role, ...place }: Naming, rules: readonly Need[]): Manifest[] => {
    if (rules.length === 0) return [];
    const roleRef = { apiGroup: rbac, kind, name: role };
    const apiVersion = `${rbac}/v1`;
    return [
      { apiVersion, kind, metadata: { name: role, ...place }, rules: union(rules).map((need) => ruleOf(need)) },
      { apiVersion, kind: `${kind}Binding`, metadata: { name: binding, ...place }, roleRef, subjects: [subject] },
    ];
  };
}

/**
 * One rule of a role. Throws Error for a wildcard.
 * @param nameOf what an object is called that is called after the namespace; absent: after the placeholder
 */
export function ruleOf(
  { group, resource, verbs, names, namesOfNamespace }: Need,
  nameOf = (name: string) => `${name}-${placeholderNamespace}`,
): object {
  if ([group, resource, ...verbs].some((word) => word.includes("*")))
    throw new Error(
      `a right to ${verbs.join(", ")} ${resource} of group "${group}" is a wildcard: name what is needed`,
    );
  const resourceNames = names ?? namesOfNamespace?.map(nameOf);
  const rule = { apiGroups: [group], resources: [resource], verbs };
  return resourceNames === undefined ? rule : { ...rule, resourceNames };
}
