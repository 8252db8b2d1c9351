/**
 * What a contract case gets: a cluster, a namespace of its own, and the few operations that no function may ask of a cluster.
 */
import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import {
  type Cluster,
  ClusterError,
  type LeaseObject,
  type Metadata,
  type PodObject,
  type StatefulSetObject,
} from "../../functions/shared/kubernetes/cluster.ts";
import type { KindDefinition } from "../fake-cluster/objects.ts";

/** A StatefulSet with the fields of `status` and `spec` that decisions do not read. */
export interface FullStatefulSet extends StatefulSetObject {
  readonly spec: StatefulSetObject["spec"] & { readonly template: { readonly spec: object } };
  readonly status: StatefulSetObject["status"] & {
    readonly replicas?: number;
    readonly readyReplicas?: number;
    readonly availableReplicas?: number;
    readonly currentReplicas?: number;
    readonly updatedReplicas?: number;
  };
}

export interface StatefulSetOptions {
  readonly name?: string;
  readonly replicas?: number;
  readonly image?: string;
  readonly start?: number;
  readonly minReadySeconds?: number;
  readonly podManagementPolicy?: "Parallel" | "OrderedReady";
}

/** What each case gets from the cluster that it runs on. */
export interface Fixture {
  readonly cluster: Cluster;
  /** Existing namespace of this case only. */
  readonly namespace: string;
  /** A second one. */
  readonly otherNamespace: string;
  /** Makes a pod not Ready, with its containers waiting for `reason`. */
  breakPod(name: string, reason: string): Promise<void>;
  /** Makes the pod Ready again. */
  healPod(name: string): Promise<void>;
  /** Deletes the CRD of ZoneAwarePodDisruptionBudgets with all budgets. Disturbs all cases that run. */
  removeBudgetType(): Promise<void>;
  /** Applies the CRD again. Resolves when budgets can be listed. */
  restoreBudgetType(): Promise<void>;
  /** Creates a CRD. Resolves when it is accepted. */
  defineKind(kind: KindDefinition): Promise<void>;
  /** Deletes the CRD with all objects. */
  removeKind(kind: KindDefinition): Promise<void>;
  /** Makes the cluster forget its history, so that no watch can begin before now. Disturbs all cases that run. */
  forgetHistory(): Promise<void>;
}

/** The answer to an eviction: a Status, whatever its code. */
export interface EvictionAnswer {
  readonly code: number;
  readonly status: {
    readonly status: "Success" | "Failure";
    readonly reason?: string;
    readonly message?: string;
    readonly details?: {
      readonly causes?: readonly { readonly reason?: string; readonly message: string }[];
      readonly retryAfterSeconds?: number;
    };
  };
  /** The header Retry-After. */
  readonly retryAfter: string | undefined;
}

/** A request that no function makes: a path with its query, and JSON. */
export interface RawRequest {
  readonly method: "PATCH" | "PUT";
  readonly path: string;
  readonly body: object;
  readonly headers?: Readonly<Record<string, string>>;
}

/** For clusters that speak HTTP: evictions, and requests that functions do not make. */
export interface EvictionFixture extends Fixture {
  /** A PATCH is a JSON merge patch. Resolves to an object or a Status. */
  send(request: RawRequest): Promise<{ readonly code: number; readonly body: RawAnswer }>;
  /** POSTs the Eviction of a pod in the namespace. `query`: without its question mark. */
  evict(name: string, eviction?: object, query?: string): Promise<EvictionAnswer>;
}

export interface RawAnswer {
  readonly kind: string;
  readonly metadata: Metadata;
  readonly spec?: { readonly replicas?: number };
  readonly message?: string;
}

export interface Case<F extends Fixture = Fixture> {
  readonly name: string;
  /** True: runs when no other case does. */
  readonly alone?: boolean;
  /** True: takes more than a minute in a real cluster, and no setting can shorten that. It begins first. */
  readonly slow?: boolean;
  run(fixture: F): Promise<void>;
}

/** Reads until a value satisfies the condition, and resolves to it. Fails the case after `limitMs`. */
export async function eventually<T>(
  what: string,
  read: () => Promise<T>,
  satisfies: (value: T) => boolean,
  limitMs = 15_000,
): Promise<T> {
  const endsMs = performance.now() + limitMs;
  for (;;) {
    const value = await read();
    if (satisfies(value)) return value;
    if (performance.now() > endsMs) assert.fail(`${what} did not come in ${limitMs} ms: ${JSON.stringify(value)}`);
    await delay(25);
  }
}

export async function createLease(
  { cluster, namespace }: Fixture,
  name: string,
  annotations: Readonly<Record<string, string>> = {},
): Promise<LeaseObject> {
  const spec = { holderIdentity: "holder", leaseDurationSeconds: 15 };
  return await cluster.create("leases", namespace, { metadata: { name, annotations }, spec });
}

/** Creates a pod on a node, without a controller that would replace it. */
export async function createPod(
  { cluster, namespace }: Fixture,
  name: string,
  options: {
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly image?: string;
    readonly nodeName?: string;
    readonly tolerations?: readonly object[];
  } = {},
): Promise<PodObject> {
  const { labels = {}, annotations = {}, nodeName = "node-1", tolerations = [] } = options;
  return await cluster.create("pods", namespace, {
    metadata: { name, labels, annotations },
    spec: { ...podSpec(options.image ?? "app:1"), nodeName, tolerations },
  });
}

/**
 * Creates an OnDelete StatefulSet whose pods have the label `app: NAME`. The pods come later; see {@link settledStatefulSet}.
 */
export async function createStatefulSet(fixture: Fixture, options: StatefulSetOptions = {}): Promise<FullStatefulSet> {
  const name = options.name ?? "set";
  const labels = { app: name };
  const created = await fixture.cluster.create("statefulsets", fixture.namespace, {
    metadata: { name },
    spec: {
      replicas: options.replicas ?? 2,
      serviceName: name,
      podManagementPolicy: options.podManagementPolicy ?? "Parallel",
      updateStrategy: { type: "OnDelete" },
      selector: { matchLabels: labels },
      ...(options.minReadySeconds === undefined ? {} : { minReadySeconds: options.minReadySeconds }),
      ...(options.start === undefined ? {} : { ordinals: { start: options.start } }),
      template: { metadata: { labels }, spec: podSpec(options.image ?? "app:1") },
    },
  });
  return created as FullStatefulSet;
}

function podSpec(image: string): object {
  return { nodeName: "node-1", terminationGracePeriodSeconds: 30, containers: [{ name: "app", image }] };
}

export async function readStatefulSet({ cluster, namespace }: Fixture, name = "set"): Promise<FullStatefulSet> {
  return (await cluster.get("statefulsets", { namespace, name })) as FullStatefulSet;
}

/** Waits until the status is current and every pod is Ready. */
export async function settledStatefulSet(fixture: Fixture, name = "set"): Promise<FullStatefulSet> {
  return await eventually(
    `a settled StatefulSet ${name}`,
    () => readStatefulSet(fixture, name),
    ({ metadata, spec, status }) =>
      status.observedGeneration === metadata.generation &&
      status.replicas === spec?.replicas &&
      (status.readyReplicas ?? 0) === spec?.replicas,
  );
}

/** A StatefulSet without pods, whose status is written only once, so that its revision stays the same. */
export async function statefulSetAtRest(fixture: Fixture): Promise<FullStatefulSet> {
  await createStatefulSet(fixture, { replicas: 0 });
  return await settledStatefulSet(fixture);
}

/** Changes a StatefulSet's template, and waits until the controller has seen it. */
export async function changeTemplate(fixture: Fixture, image: string, name = "set"): Promise<FullStatefulSet> {
  const { cluster, namespace } = fixture;
  await cluster.patch("statefulsets", { namespace, name }, { spec: { template: { spec: podSpec(image) } } });
  return await eventually(
    "the controller's answer to a new template",
    () => readStatefulSet(fixture, name),
    ({ metadata, status }) => status.observedGeneration === metadata.generation,
  );
}

/** The pods of a StatefulSet, by name. */
export async function podsOf({ cluster, namespace }: Fixture, name = "set"): Promise<PodObject[]> {
  const { items } = await cluster.list("pods", { namespace, labelSelector: `app=${name}` });
  return items.toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
}

export function isReady(pod: PodObject): boolean {
  return pod.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True") ?? false;
}

/** Waits until the pod is Ready and not terminating. */
export async function readyPod({ cluster, namespace }: Fixture, name: string, notUid?: string): Promise<PodObject> {
  return await eventually(
    `a ready pod ${name}`,
    async () => {
      try {
        return await cluster.get("pods", { namespace, name });
      } catch (error) {
        if (error instanceof ClusterError && error.code === 404) return undefined;
        throw error;
      }
    },
    (pod) => pod !== undefined && pod.metadata.uid !== notUid && isReady(pod) && !pod.metadata.deletionTimestamp,
  ).then((pod) => pod as PodObject);
}

export const isGone = (error: ClusterError): boolean => error.code === 404;

/** Waits until no pod has that name. */
export async function gonePod({ cluster, namespace }: Fixture, name: string, limitMs?: number): Promise<void> {
  await eventually(
    `the end of pod ${name}`,
    () => cluster.get("pods", { namespace, name }).then(() => false, isGone),
    (gone) => gone,
    limitMs,
  );
}

export function revisionOf({ metadata }: { metadata: { resourceVersion: string } }): bigint {
  return BigInt(metadata.resourceVersion);
}
