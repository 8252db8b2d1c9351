/** What the store knows about each resource type, and the fields of its objects that the fake cluster reads. */

import {
  apiVersionOf,
  type ContainerStatus,
  type DiscoveredResource,
  type KnownResource,
  type Metadata,
  type ObjectTypes,
  type Resource,
  resources,
  type Toleration,
} from "../../functions/shared/kubernetes/cluster.ts";

/** How the API server treats objects of one resource type. */
export interface ResourceTraits {
  readonly group: string;
  readonly kind: string;
  /** `group/version`, or `v1` for the core group. */
  readonly apiVersion: string;
  /** The name in paths: `leases`. */
  readonly plural: string;
  /** The name that error messages use: `leases.coordination.k8s.io`. */
  readonly qualifiedName: string;
  readonly qualifiedKind: string;
  /** False: objects of the type belong to the whole cluster. */
  readonly isNamespaced: boolean;
  /** Defined by a CRD: items of its lists have a kind, and new objects must have one. */
  readonly isCustom: boolean;
  /** The type has a `status` that only the status subresource writes. */
  readonly hasStatus: boolean;
  /** The type has a `scale`: wanted replicas in its spec, existing replicas in its status. */
  readonly hasScale: boolean;
  /** The field whose changes `metadata.generation` counts; absent: no generation. */
  readonly generationCounts?: "spec" | "webhooks";
  /** A DELETE answers with the object, not with a Status. */
  readonly returnsDeletedObject: boolean;
  /** A write without a resourceVersion applies to any version. */
  readonly allowsUnconditionalUpdate: boolean;
  /** An object on a node terminates first, until its kubelet confirms. */
  readonly deletesGracefully: boolean;
}

type Served = "group" | "kind" | "apiVersion" | "plural" | "qualifiedName" | "qualifiedKind" | "isNamespaced";
type TraitChoices = Omit<ResourceTraits, Served>;

const plain: TraitChoices = {
  isCustom: false,
  hasStatus: false,
  hasScale: false,
  returnsDeletedObject: false,
  allowsUnconditionalUpdate: false,
  deletesGracefully: false,
};

const webhookConfiguration: TraitChoices = { ...plain, generationCounts: "webhooks" };
const workload: TraitChoices = {
  ...plain,
  hasStatus: true,
  hasScale: true,
  generationCounts: "spec",
  allowsUnconditionalUpdate: true,
};
const volume: TraitChoices = {
  ...plain,
  hasStatus: true,
  returnsDeletedObject: true,
  allowsUnconditionalUpdate: true,
};

const choices: Readonly<Record<KnownResource, TraitChoices>> = {
  pods: {
    ...plain,
    hasStatus: true,
    generationCounts: "spec",
    returnsDeletedObject: true,
    allowsUnconditionalUpdate: true,
    deletesGracefully: true,
  },
  statefulsets: workload,
  leases: plain,
  events: { ...plain, allowsUnconditionalUpdate: true },
  secrets: { ...plain, allowsUnconditionalUpdate: true },
  services: { ...plain, hasStatus: true, returnsDeletedObject: true, allowsUnconditionalUpdate: true },
  poddisruptionbudgets: { ...plain, hasStatus: true, generationCounts: "spec" },
  zoneawarepoddisruptionbudgets: { ...plain, isCustom: true, hasStatus: true, generationCounts: "spec" },
  mutatingwebhookconfigurations: webhookConfiguration,
  validatingwebhookconfigurations: webhookConfiguration,
  configmaps: { ...plain, allowsUnconditionalUpdate: true },
  deployments: workload,
  replicasets: workload,
  persistentvolumeclaims: volume,
  persistentvolumes: volume,
  nodes: { ...plain, hasStatus: true, allowsUnconditionalUpdate: true },
  volumeattachments: { ...plain, hasStatus: true, returnsDeletedObject: true },
  namespaces: { ...plain, hasStatus: true, allowsUnconditionalUpdate: true },
  rabbitmqclusters: { ...plain, isCustom: true, hasStatus: true, generationCounts: "spec" },
  foundationdbclusters: { ...plain, isCustom: true, hasStatus: true, generationCounts: "spec" },
};

/** The finalizer of every volume claim, which keeps it while a pod uses it. */
export const claimProtection = "kubernetes.io/pvc-protection";

/** True for a namespace that its controller has not emptied yet: no deletion removes it. */
export function isFinalizingNamespace({ kind, spec }: StoredObject): boolean {
  return (
    kind === "Namespace" && ((spec as { finalizers?: readonly string[] } | undefined)?.finalizers ?? []).length > 0
  );
}

/** Every resource type that `functions/shared/kubernetes/cluster.ts` names: each fake cluster has all of them. */
export const resourceNames = Object.keys(resources) as KnownResource[];

const traits = new Map<Resource, ResourceTraits>(
  resourceNames.map((resource) => [
    resource,
    { ...servedAs(apiVersionOf(resource), resource, resources[resource]), ...choices[resource] },
  ]),
);

/** How an API server treats a type. Throws Error for one that no fake cluster has. */
export function traitsOf(resource: Resource): ResourceTraits {
  const found = traits.get(resource);
  if (found === undefined) throw new Error(`no world has ${resource}`);
  return found;
}

/** True for a type of the table, and for one that some fake cluster has defined. */
export function isDefined(resource: Resource): boolean {
  return traits.has(resource);
}

/** The fields of a CustomResourceDefinition for one version. A scale uses `spec.replicas` and `status.replicas`. */
export interface KindDefinition {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly isNamespaced: boolean;
  /** Absent: it has no scale. */
  readonly hasScale?: boolean;
}

/** The type that a definition makes. It has the same traits in every fake cluster. */
export function typeOf(definition: KindDefinition): DiscoveredResource {
  const { group, version, plural, hasScale = false } = definition;
  const resource: DiscoveredResource = `/apis/${group}/${version}/${plural}`;
  const served = servedAs(`${group}/${version}`, plural, definition);
  traits.set(resource, { ...plain, ...served, isCustom: true, hasStatus: true, hasScale, generationCounts: "spec" });
  return resource;
}

function servedAs(
  apiVersion: string,
  plural: string,
  { kind, group, isNamespaced }: Pick<KindDefinition, "kind" | "group" | "isNamespaced">,
): Pick<ResourceTraits, Served> {
  const qualifiedName = group === "" ? plural : `${plural}.${group}`;
  const qualifiedKind = group === "" ? kind : `${kind}.${group}`;
  return { group, kind, apiVersion, plural, qualifiedName, qualifiedKind, isNamespaced };
}

export interface StoredMetadata extends Metadata {
  readonly generateName?: string;
  readonly deletionGracePeriodSeconds?: number;
  readonly finalizers?: readonly string[];
}

export interface NamespacedMetadata extends StoredMetadata {
  readonly namespace: string;
}

/** Any stored object. Objects are never changed in place: a write stores a new object, which shares the unchanged parts. */
export interface StoredObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: StoredMetadata;
  readonly spec?: object;
  readonly status?: object;
  /** For webhook configurations. */
  readonly webhooks?: readonly object[];
}

interface NamespacedObject extends StoredObject {
  readonly metadata: NamespacedMetadata;
}

export interface ContainerSpec {
  readonly name: string;
  readonly image: string;
}

export interface PodSpec {
  readonly nodeName?: string;
  readonly terminationGracePeriodSeconds?: number;
  readonly containers: readonly ContainerSpec[];
  readonly nodeSelector?: Readonly<Record<string, string>>;
  readonly tolerations?: readonly Toleration[];
  readonly volumes?: readonly {
    readonly name: string;
    readonly persistentVolumeClaim?: { readonly claimName: string };
  }[];
}

export interface PodCondition {
  readonly type: string;
  readonly status: "True" | "False" | "Unknown";
  readonly lastTransitionTime: string;
  readonly reason?: string;
}

export interface PodStatus {
  readonly phase: "Pending" | "Running" | "Succeeded" | "Failed" | "Unknown";
  readonly startTime?: string;
  readonly conditions?: readonly PodCondition[];
  readonly containerStatuses?: readonly (ContainerStatus & { readonly name: string; readonly image: string })[];
  readonly reason?: string;
  readonly [field: string]: unknown;
}

export interface StoredPod extends NamespacedObject {
  readonly spec: PodSpec;
  readonly status: PodStatus;
}

export interface PodTemplate {
  readonly metadata?: {
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly finalizers?: readonly string[];
  };
  readonly spec: PodSpec;
}

export interface ClaimTemplate {
  readonly metadata: {
    readonly name: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec?: object;
}

export interface StatefulSetSpec {
  readonly replicas: number;
  readonly selector: { readonly matchLabels?: Readonly<Record<string, string>> };
  readonly template: PodTemplate;
  readonly serviceName?: string;
  readonly podManagementPolicy: "OrderedReady" | "Parallel";
  readonly updateStrategy: {
    readonly type: "OnDelete" | "RollingUpdate";
    readonly rollingUpdate?: { readonly partition?: number };
  };
  readonly minReadySeconds?: number;
  readonly ordinals?: { readonly start?: number };
  readonly volumeClaimTemplates?: readonly ClaimTemplate[];
  readonly persistentVolumeClaimRetentionPolicy?: {
    readonly whenDeleted?: "Retain" | "Delete";
    readonly whenScaled?: "Retain" | "Delete";
  };
}

export interface StatefulSetStatus {
  readonly replicas: number;
  readonly observedGeneration?: number;
  readonly readyReplicas?: number;
  readonly availableReplicas: number;
  readonly currentReplicas?: number;
  readonly updatedReplicas?: number;
  readonly currentRevision?: string;
  readonly updateRevision?: string;
  readonly collisionCount?: number;
}

export interface StoredStatefulSet extends NamespacedObject {
  readonly spec: StatefulSetSpec;
  /** Only `replicas` and `availableReplicas` until the controller has seen the object. */
  readonly status: StatefulSetStatus;
}

/** The stored type of each resource type, assignable to the types of `Cluster`. */
export type StoredTypes = {
  readonly [R in keyof ObjectTypes]: R extends "pods"
    ? StoredPod
    : R extends "statefulsets"
      ? StoredStatefulSet
      : StoredObject & ObjectTypes[R];
};

/** The condition of that type. */
export function conditionOf(pod: StoredPod, type: string): PodCondition | undefined {
  const conditions = pod.status.conditions;
  if (conditions === undefined) return undefined;
  for (const condition of conditions) if (condition.type === type) return condition;
  return undefined;
}

/** True if the condition Ready is True. A terminating pod can still be Ready. */
export function isReady(pod: StoredPod): boolean {
  return conditionOf(pod, "Ready")?.status === "True";
}

/** What the API server selects Events by as their `source`. */
export function sourceOf(event: object): string {
  const { source, reportingComponent } = event as {
    readonly source?: { readonly component?: string };
    readonly reportingComponent?: string;
  };
  return source?.component || reportingComponent || "";
}

/** Uid of the controller of an object; "" for an orphan. */
export function controllerUidOf(metadata: Metadata): string {
  const owners = metadata.ownerReferences;
  if (owners !== undefined) for (const owner of owners) if (owner.controller === true) return owner.uid;
  return "";
}

let lastSecond = Number.NaN;
let lastText = "";

/** A time as Kubernetes writes it: RFC 3339 with whole seconds. */
export function rfc3339(ms: number): string {
  const second = Math.floor(ms / 1000);
  if (second !== lastSecond) {
    lastSecond = second;
    lastText = `${new Date(second * 1000).toISOString().slice(0, 19)}Z`;
  }
  return lastText;
}
