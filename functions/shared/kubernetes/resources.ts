/** The resource types that Sluice uses, and where the API server serves them. */
import type { DiscoveredResource, ObjectTypes, ScaleObject } from "./objects.ts";

/** How the API server serves the objects of one type. */
export interface ResourceType {
  readonly apiPath: string;
  readonly kind: string;
  /** Empty for the core group. */
  readonly group: string;
  /** False for cluster-scoped objects. A ClusterRole grants rights to them, and their keys have no namespace. */
  readonly isNamespaced: boolean;
  /** The operator that brings its CRD, and may not be installed. Absent: the type is always served. */
  readonly broughtBy?: string;
}

const core = { apiPath: "/api/v1", group: "", isNamespaced: true };
const inGroup = (group: string, version: string) => ({
  apiPath: `/apis/${group}/${version}`,
  group,
  isNamespaced: true,
});
const apps = inGroup("apps", "v1");
const admissionRegistration = { ...inGroup("admissionregistration.k8s.io", "v1"), isNamespaced: false };

export const resources = {
  pods: { ...core, kind: "Pod" },
  statefulsets: { ...apps, kind: "StatefulSet" },
  leases: { ...inGroup("coordination.k8s.io", "v1"), kind: "Lease" },
  events: { ...core, kind: "Event" },
  secrets: { ...core, kind: "Secret" },
  services: { ...core, kind: "Service" },
  poddisruptionbudgets: { ...inGroup("policy", "v1"), kind: "PodDisruptionBudget" },
  zoneawarepoddisruptionbudgets: {
    ...inGroup("rollout-operator.grafana.com", "v1"),
    kind: "ZoneAwarePodDisruptionBudget",
  },
  mutatingwebhookconfigurations: { ...admissionRegistration, kind: "MutatingWebhookConfiguration" },
  validatingwebhookconfigurations: { ...admissionRegistration, kind: "ValidatingWebhookConfiguration" },
  configmaps: { ...core, kind: "ConfigMap" },
  deployments: { ...apps, kind: "Deployment" },
  replicasets: { ...apps, kind: "ReplicaSet" },
  persistentvolumeclaims: { ...core, kind: "PersistentVolumeClaim" },
  persistentvolumes: { ...core, kind: "PersistentVolume", isNamespaced: false },
  nodes: { ...core, kind: "Node", isNamespaced: false },
  namespaces: { ...core, kind: "Namespace", isNamespaced: false },
  volumeattachments: { ...inGroup("storage.k8s.io", "v1"), kind: "VolumeAttachment", isNamespaced: false },
  rabbitmqclusters: { ...inGroup("rabbitmq.com", "v1beta1"), kind: "RabbitmqCluster", broughtBy: "rabbitmq" },
  foundationdbclusters: {
    ...inGroup("apps.foundationdb.org", "v1beta2"),
    kind: "FoundationDBCluster",
    broughtBy: "foundationdb",
  },
} as const satisfies Readonly<Record<string, ResourceType>>;

/** A type of the table, which a function may watch or use for its keys. */
export type KnownResource = keyof typeof resources;

/** What the verbs of a `Cluster` take. */
export type Resource = KnownResource | DiscoveredResource;

/** A kind that the API server serves, by its discovery. */
export interface ServedKind extends ResourceType {
  /** What the verbs of a `Cluster` take for its objects: its name in the table if it is there. */
  readonly resource: Resource;
  /** As in paths and rights, such as `replicatemplates`. */
  readonly plural: string;
  readonly version: string;
  readonly hasScale: boolean;
}

/** What a get or a patch answers with: the object, or its scale. */
export type AnsweredObject<R extends Resource, S> = S extends "scale" ? ScaleObject : ObjectTypes[R];

/** What names one object. */
export interface ObjectKey {
  /** Empty for cluster-scoped objects. */
  readonly namespace: string;
  readonly name: string;
}

/** Path of the objects of a type, in one namespace or in all, and its label in metrics. */
export function collectionPath(resource: Resource, namespace: string | undefined): { path: string; label: string } {
  const { apiPath, plural } = servedAt(resource);
  const scope = !namespace ? "" : `/namespaces/${encodeURIComponent(namespace)}`;
  return { path: `${apiPath}${scope}/${plural}`, label: `${labelPrefix(resource)} collection` };
}

/** Path of one object or of its subresource, and its label in metrics. */
export function objectPath(resource: Resource, key: ObjectKey, subresource?: string): { path: string; label: string } {
  const path = `${collectionPath(resource, key.namespace).path}/${encodeURIComponent(key.name)}`;
  const label = `${labelPrefix(resource)} object`;
  if (subresource === undefined) return { path, label };
  return { path: `${path}/${subresource}`, label: `${label} ${subresource} subresource` };
}

/** The API server's group, version and type as rollout-operator writes them: `core/v1/pods`. */
function labelPrefix(resource: Resource): string {
  return `${groupOf(resource) === "" ? "core/" : ""}${apiVersionOf(resource)}/${servedAt(resource).plural}`;
}

/** The `apiVersion` of its objects: the group and the version, or the version alone for the core group. */
export function apiVersionOf(resource: Resource): string {
  return servedAt(resource).apiPath.replace(/^\/apis?\//, "");
}

/** The API group of a type; empty for the core group. */
export function groupOf(resource: Resource): string {
  const [group = "", version] = apiVersionOf(resource).split("/");
  return version === undefined ? "" : group;
}

/** True for a name of the table. */
export function isKnown(resource: string): resource is KnownResource {
  return Object.hasOwn(resources, resource);
}

/** True for the path of any other type. */
export function isDiscovered(resource: string): resource is DiscoveredResource {
  return resource.startsWith("/api");
}

function servedAt(resource: Resource): { apiPath: string; plural: string } {
  if (isKnown(resource)) return { apiPath: resources[resource].apiPath, plural: resource };
  const end = resource.lastIndexOf("/");
  return { apiPath: resource.slice(0, end), plural: resource.slice(end + 1) };
}

/** What the verbs of a `Cluster` take for the objects that are served under a path. */
export function resourceAt(apiPath: DiscoveredResource, plural: string): Resource {
  if (isKnown(plural) && resources[plural].apiPath === apiPath) return plural;
  return `${apiPath}/${plural}`;
}

/** True for cluster-scoped types of the table, and for their subresources. Other types count as namespaced. */
export function isClusterScoped({ group, resource }: { readonly group: string; readonly resource: string }): boolean {
  const name = resource.replace(/\/.*$/, "");
  return isKnown(name) && resources[name].group === group && !resources[name].isNamespaced;
}
