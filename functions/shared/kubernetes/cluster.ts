/**
 * The whole I/O surface of Sluice: what a function may ask of the API server, and of time.
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

/** What names one object. */
export interface ObjectKey {
  /** Empty for what is of the whole cluster. */
  readonly namespace: string;
  readonly name: string;
}

export interface ListQuery {
  /** All namespaces when absent. */
  readonly namespace?: string;
  readonly labelSelector?: string;
  /**
   * Accept any state that is at least this new (`resourceVersionMatch=NotOlderThan`), which the API server answers from
   * memory. Absent: a consistent LIST. Never "0" (rule R5): that accepts any state however old, and is refused here.
   */
  readonly notOlderThan?: string;
}

export interface ObjectList<T> {
  readonly items: T[];
  /** Where a watch may continue. It moves with other resources too: never use it as `settled-through` (rule R8). */
  readonly resourceVersion: string;
}

export interface WatchQuery {
  readonly namespace?: string;
  readonly labelSelector?: string;
  /** Changes after this resourceVersion are sent. */
  readonly resourceVersion: string;
}

export type WatchEvent<T> =
  | { readonly type: "ADDED" | "MODIFIED" | "DELETED"; readonly object: T }
  | { readonly type: "BOOKMARK"; readonly resourceVersion: string };

/** Conditions of a deletion. The uid is not optional: nothing is deleted by name alone (rules R9, R13). */
export interface Preconditions {
  readonly uid: string;
  readonly resourceVersion?: string;
}

export interface CallOptions {
  /** Gives the call up: it then rejects, though the server may still carry it out. */
  readonly signal?: AbortSignal;
  /**
   * No attempt of this call, first or repeated, is sent after this moment of {@link Cluster.monotonicMs} (rule R9): it then
   * rejects with code 0. An attempt that is under way is waited for.
   */
  readonly notAfterMs?: number;
  /** It goes over a few connections of their own: many such calls keep no other one waiting. */
  readonly aside?: boolean;
}

/**
 * A cluster and its clocks. Every rejection is a {@link ClusterError}.
 *
 * Implementations: `client.ts` over the real API, the embedded world in `test/world`, and whatever a test wraps
 * around either.
 */
export interface Cluster {
  get<R extends Resource>(resource: R, key: ObjectKey, options?: CallOptions): Promise<ObjectTypes[R]>;
  list<R extends Resource>(resource: R, query: ListQuery, options?: CallOptions): Promise<ObjectList<ObjectTypes[R]>>;
  create<R extends Resource>(
    resource: R,
    namespace: string,
    body: object,
    options?: CallOptions,
  ): Promise<ObjectTypes[R]>;
  /** A JSON merge patch. One that carries `metadata.uid` and `metadata.resourceVersion` is conditional (rule R3). */
  patch<R extends Resource>(
    resource: R,
    key: ObjectKey,
    body: object,
    options?: CallOptions & { readonly subresource?: "status" },
  ): Promise<ObjectTypes[R]>;
  delete(resource: Resource, key: ObjectKey, preconditions: Preconditions, options?: CallOptions): Promise<void>;
  /**
   * The changes after a revision, in the order of that resource type. Ends without an error when the server closes the
   * watch; continue from the last revision heard. Rejects with code 410 when that revision is too old.
   */
  watch<R extends Resource>(
    resource: R,
    query: WatchQuery,
    options?: CallOptions,
  ): AsyncIterable<WatchEvent<ObjectTypes[R]>>;

  /** The API server's clock in whole milliseconds since the epoch, as well as its `Date` header tells it (about a second). */
  serverTimeMs(): number;
  /**
   * A clock of this process that never goes back, in milliseconds. The time that the machine has slept through counts, as far as
   * the wall clock tells: what must not happen later than at a moment is measured by it.
   */
  monotonicMs(): number;
  /**
   * How much of {@link monotonicMs} only the wall clock has told, which somebody may have set: it is not to be relied on by what
   * has to have lasted for a time. Absent: none.
   */
  skippedMs?(): number;
  /** Resolves after `ms`, or at once when the signal is aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** A call that did not succeed. `code` is the HTTP status; 0 means that no answer came, so that the server may have acted. */
export class ClusterError extends Error {
  readonly code: number;
  readonly reason: string;
  readonly verb: string;
  readonly resource: string;
  /** How long the server asked us to stay away, in milliseconds. */
  readonly retryAfterMs: number | undefined;
  /** How many tries of the call were sent: this answers the last of them, and an earlier one may still be carried out. */
  readonly attempts: number;

  constructor(init: {
    code: number;
    reason: string;
    message: string;
    verb: string;
    resource: string;
    retryAfterMs?: number | undefined;
    attempts?: number;
  }) {
    super(init.message);
    this.name = "ClusterError";
    this.code = init.code;
    this.reason = init.reason;
    this.verb = init.verb;
    this.resource = init.resource;
    this.retryAfterMs = init.retryAfterMs;
    this.attempts = init.attempts ?? 1;
  }
}

export function hasCode(error: unknown, ...codes: number[]): error is ClusterError {
  return error instanceof ClusterError && codes.includes(error.code);
}

/**
 * True when asking again later can help: no answer, too many requests, a server fault, a view that is not there yet. 401 too: a
 * token that has run out is renewed by whoever issues it, and nothing about the request itself was refused.
 */
export function isTransient(error: unknown): error is ClusterError {
  return hasCode(error, 0, 401, 408, 429) || (error instanceof ClusterError && error.code >= 500);
}

/** A 403 for want of a right. An admission refusal, or a namespace that is ending, is a 403 too, but no right to be granted. */
export function isRightMissing(error: unknown): error is ClusterError {
  return hasCode(error, 403) && / cannot \S+ resource /.test(error.message);
}

/** What the API server said, with the cause in front where its own words name none: of a 401 it says `Unauthorized`. */
export function wordsOf({ code, message }: ClusterError): string {
  return code === 401 ? `the API server does not accept Sluice's credentials: ${message}` : message;
}
