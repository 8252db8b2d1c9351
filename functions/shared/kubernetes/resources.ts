/**
 * The types of objects that Sluice speaks of: what is read of each, and where the API server serves them.
 *
 * Objects are plain JSON as the API server sends it. Only the fields that decisions read are typed here; everything else
 * passes through untouched, and nothing is ever written back whole (typed models drop unknown fields).
 */

export interface OwnerReference {
  readonly apiVersion?: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
}

export interface Metadata {
  readonly name: string;
  readonly namespace?: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly generation?: number;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly OwnerReference[];
}

export interface PodObject {
  readonly metadata: Metadata;
  readonly status?: {
    readonly phase?: string;
    readonly startTime?: string;
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly lastTransitionTime?: string;
    }[];
    readonly containerStatuses?: readonly ContainerStatus[];
    readonly initContainerStatuses?: readonly ContainerStatus[];
  };
}

export interface ContainerStatus {
  readonly name?: string;
  readonly ready?: boolean;
  readonly state?: {
    readonly running?: object;
    readonly waiting?: { readonly reason?: string };
    readonly terminated?: object;
  };
}

export interface StatefulSetObject {
  readonly metadata: Metadata;
  readonly spec?: {
    readonly replicas?: number;
    readonly minReadySeconds?: number;
    readonly ordinals?: { readonly start?: number };
    readonly updateStrategy?: { readonly type?: string };
    readonly selector?: { readonly matchLabels?: Readonly<Record<string, string>> };
    readonly template?: { readonly metadata?: { readonly labels?: Readonly<Record<string, string>> } };
  };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly replicas?: number;
    readonly currentRevision?: string;
    readonly updateRevision?: string;
  };
}

export interface LeaseObject {
  readonly metadata: Metadata;
}

export interface EventObject {
  readonly metadata: Metadata;
  readonly reason?: string;
  readonly message?: string;
}

/** A ZoneAwarePodDisruptionBudget. Its spec may be anything: `budgets.ts` parses it. */
export interface ZoneBudgetObject {
  readonly kind?: string;
  readonly metadata: Metadata;
  readonly spec?: unknown;
}

export interface LabelSelector {
  readonly matchLabels?: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly {
    readonly key: string;
    readonly operator: string;
    readonly values?: readonly string[];
  }[];
}

export interface PodDisruptionBudgetObject {
  readonly metadata: Metadata;
  readonly spec?: {
    /** Absent selects nothing; an empty one every pod of the namespace. */
    readonly selector?: LabelSelector;
    readonly unhealthyPodEvictionPolicy?: string;
  };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly disruptionsAllowed?: number;
    readonly currentHealthy?: number;
    readonly desiredHealthy?: number;
  };
}

export interface SecretObject {
  readonly metadata: Metadata;
  readonly type?: string;
  /** Values in base64. */
  readonly data?: Readonly<Record<string, string>>;
}

/** A MutatingWebhookConfiguration or ValidatingWebhookConfiguration: cluster-scoped, so that its key has no namespace. */
export interface WebhookConfigurationObject {
  readonly metadata: Metadata;
  readonly webhooks?: readonly {
    readonly name: string;
    readonly failurePolicy?: string;
    readonly timeoutSeconds?: number;
    readonly clientConfig: {
      readonly url?: string;
      readonly service?: {
        readonly namespace: string;
        readonly name: string;
        readonly path?: string;
        readonly port?: number;
      };
      /** PEM in base64. */
      readonly caBundle?: string;
    };
    readonly rules?: readonly {
      readonly apiGroups?: readonly string[];
      readonly apiVersions?: readonly string[];
      readonly operations?: readonly string[];
      readonly resources?: readonly string[];
    }[];
  }[];
}

/** The resource types that Sluice speaks of, with the path that the API server serves them under. */
export const resources = {
  pods: { apiPath: "/api/v1", kind: "Pod", group: "" },
  statefulsets: { apiPath: "/apis/apps/v1", kind: "StatefulSet", group: "apps" },
  leases: { apiPath: "/apis/coordination.k8s.io/v1", kind: "Lease", group: "coordination.k8s.io" },
  events: { apiPath: "/api/v1", kind: "Event", group: "" },
  secrets: { apiPath: "/api/v1", kind: "Secret", group: "" },
  poddisruptionbudgets: { apiPath: "/apis/policy/v1", kind: "PodDisruptionBudget", group: "policy" },
  zoneawarepoddisruptionbudgets: {
    apiPath: "/apis/rollout-operator.grafana.com/v1",
    kind: "ZoneAwarePodDisruptionBudget",
    group: "rollout-operator.grafana.com",
  },
  mutatingwebhookconfigurations: {
    apiPath: "/apis/admissionregistration.k8s.io/v1",
    kind: "MutatingWebhookConfiguration",
    group: "admissionregistration.k8s.io",
  },
  validatingwebhookconfigurations: {
    apiPath: "/apis/admissionregistration.k8s.io/v1",
    kind: "ValidatingWebhookConfiguration",
    group: "admissionregistration.k8s.io",
  },
} as const;

export interface ObjectTypes {
  pods: PodObject;
  statefulsets: StatefulSetObject;
  leases: LeaseObject;
  events: EventObject;
  secrets: SecretObject;
  poddisruptionbudgets: PodDisruptionBudgetObject;
  zoneawarepoddisruptionbudgets: ZoneBudgetObject;
  mutatingwebhookconfigurations: WebhookConfigurationObject;
  validatingwebhookconfigurations: WebhookConfigurationObject;
}

export type Resource = keyof typeof resources;

/** How many replicas an object wants and has, whatever its type: `autoscaling/v1`. Its metadata is the object's own. */
export interface ScaleObject {
  readonly metadata: Metadata;
  /** Without `replicas` where none are wanted. */
  readonly spec?: { readonly replicas?: number };
  readonly status?: { readonly replicas?: number; readonly selector?: string };
}

/** What a get or a patch answers with: the object, or its scale. */
export type Answered<R extends Resource, S> = S extends "scale" ? ScaleObject : ObjectTypes[R];

/** What names one object. */
export interface ObjectKey {
  /** Empty for what is of the whole cluster. */
  readonly namespace: string;
  readonly name: string;
}

/** Where the API server serves the objects of a type, of one namespace or of all, and as which path metrics count that. */
export function collectionPath(resource: Resource, namespace: string | undefined): { path: string; label: string } {
  const { apiPath } = resources[resource];
  // A name without a namespace is one of the whole cluster.
  const scope = !namespace ? "" : `/namespaces/${encodeURIComponent(namespace)}`;
  return { path: `${apiPath}${scope}/${resource}`, label: `${labelPrefix(resource)} collection` };
}

/** The same of one object, or of a subresource of it. */
export function objectPath(resource: Resource, key: ObjectKey, subresource?: string): { path: string; label: string } {
  const path = `${collectionPath(resource, key.namespace).path}/${encodeURIComponent(key.name)}`;
  const label = `${labelPrefix(resource)} object`;
  if (subresource === undefined) return { path, label };
  return { path: `${path}/${subresource}`, label: `${label} ${subresource} subresource` };
}

/** The API server's group, version and type as rollout-operator writes them: `core/v1/pods`. */
function labelPrefix(resource: Resource): string {
  const { apiPath, group } = resources[resource];
  return `${group || "core"}/${apiPath.slice(apiPath.lastIndexOf("/") + 1)}/${resource}`;
}
