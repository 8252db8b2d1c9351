/** What the API server stores for an object that a client creates. */

import type { Resource } from "../../functions/shared/kubernetes/cluster.ts";
import { ApiStatusError, alreadyExists, badRequest, invalid, notServed } from "./api-errors.ts";
import {
  claimProtection,
  type PodTemplate,
  rfc3339,
  type StatefulSetSpec,
  type StoredMetadata,
  type StoredObject,
  traitsOf,
} from "./objects.ts";
import { type Random, randomNameSuffix, randomUid } from "./random.ts";
import { volumeProtection } from "./volumes.ts";

export interface Creation {
  readonly resource: Resource;
  readonly namespace: string;
  readonly body: object;
  readonly random: Random;
  readonly nowMs: number;
  /** True if `namespace/name` exists. */
  readonly taken: (key: string) => boolean;
}

interface Posted {
  readonly metadata?: Partial<StoredMetadata>;
  readonly spec?: object;
  readonly status?: object;
  readonly webhooks?: readonly object[];
}

/**
 * The object to store, without a resourceVersion yet.
 *
 * @throws ApiStatusError 400, 409, 422
 */
export function newObject(creation: Creation): StoredObject {
  const { resource, namespace, random } = creation;
  const traits = traitsOf(resource);
  const { metadata: wanted = {}, status, ...rest } = creation.body as Posted;
  checkMetadata(resource, namespace, wanted);
  const name = wanted.name ?? `${wanted.generateName}${randomNameSuffix(random)}`;
  if (creation.taken(`${namespace}/${name}`)) throw alreadyExists("create", resource, name);

  const { deletionTimestamp: _deleting, deletionGracePeriodSeconds: _grace, generation: _generation, ...kept } = wanted;
  checkAnnotations("create", resource, name, wanted);
  const metadata: StoredMetadata = {
    ...withoutEmptyMaps(kept),
    name,
    ...(traits.isNamespaced ? { namespace } : undefined),
    uid: randomUid(random),
    resourceVersion: "",
    creationTimestamp: rfc3339(creation.nowMs),
    ...(traits.generationCounts !== undefined ? { generation: 1 } : undefined),
  };
  const object = { ...rest, apiVersion: traits.apiVersion, kind: traits.kind, metadata };
  if (resource === "pods") {
    return { ...object, spec: defaultedPodSpec(rest.spec), status: { phase: "Pending", qosClass: "BestEffort" } };
  }
  if (resource === "statefulsets") {
    return { ...object, spec: defaultedStatefulSetSpec(rest.spec), status: { replicas: 0, availableReplicas: 0 } };
  }
  if (resource === "namespaces") return activeNamespace(object);
  if (resource === "persistentvolumeclaims") return protectedClaim(object);
  if (resource === "persistentvolumes") return protectedVolume(object);
  if (resource === "volumeattachments") return { ...object, status: { attached: false } } as StoredObject;
  if (resource === "leases") return { ...object, spec: rest.spec ?? {} };
  if (resource === "secrets") return withType(object);
  if (resource === "poddisruptionbudgets") {
    return { ...object, status: { disruptionsAllowed: 0, currentHealthy: 0, desiredHealthy: 0, expectedPods: 0 } };
  }
  if (traits.generationCounts === "webhooks")
    return { ...object, webhooks: defaultedWebhooks(resource, rest.webhooks) };
  return traits.hasStatus || status === undefined ? object : ({ ...object, status } as StoredObject);
}

function checkMetadata(resource: Resource, namespace: string, metadata: Partial<StoredMetadata>): void {
  if (traitsOf(resource).isNamespaced !== (namespace !== "")) throw notServed("create", resource);
  if (metadata.namespace !== undefined && metadata.namespace !== namespace) {
    const message = "the namespace of the provided object does not match the namespace sent on the request";
    throw badRequest("create", resource, message);
  }
  if (!metadata.name && !metadata.generateName) {
    throw invalid("create", resource, "", {
      reason: "FieldValueRequired",
      message: "Required value: name or generateName is required",
      field: "metadata.name",
    });
  }
  if (metadata.resourceVersion) {
    const message = "resourceVersion should not be set on objects to be created";
    throw new ApiStatusError({ code: 500, reason: "", message, verb: "create", resource });
  }
}

const mostAnnotationBytes = 256 * 1024;
/** Bytes in UTF-8. */
const mostBytesPerCharacter = 3;

/** Checks the size of the keys and values of all annotations together. */
export function checkAnnotations(
  verb: "create" | "patch",
  resource: Resource,
  name: string,
  { annotations = {} }: Partial<StoredMetadata>,
): void {
  let characters = 0;
  for (const key of Object.keys(annotations)) characters += key.length + (annotations[key] as string).length;
  if (mostBytesPerCharacter * characters <= mostAnnotationBytes) return;
  let bytes = 0;
  for (const [key, value] of Object.entries(annotations)) bytes += Buffer.byteLength(key) + Buffer.byteLength(value);
  if (bytes <= mostAnnotationBytes) return;
  const message = `Too long: may not be more than ${mostAnnotationBytes} bytes`;
  throw invalid(verb, resource, name, { reason: "FieldValueTooLong", message, field: "metadata.annotations" }, 2);
}

/** The API server does not store empty labels and annotations. */
export function withoutEmptyMaps<M extends Partial<StoredMetadata>>(metadata: M): M {
  const { labels, annotations, finalizers } = metadata;
  const emptyLabels = labels !== undefined && isEmpty(labels);
  const emptyAnnotations = annotations !== undefined && isEmpty(annotations);
  const noFinalizers = finalizers !== undefined && finalizers.length === 0;
  if (!emptyLabels && !emptyAnnotations && !noFinalizers) return metadata;
  const kept: { -readonly [K in keyof M]: M[K] } = { ...metadata };
  if (emptyLabels) delete kept.labels;
  if (emptyAnnotations) delete kept.annotations;
  if (noFinalizers) delete kept.finalizers;
  return kept;
}

function isEmpty(map: object): boolean {
  for (const _ in map) return false;
  return true;
}

/** A new namespace, which its controller keeps until it has emptied it. */
function activeNamespace(namespace: StoredObject): StoredObject {
  const { name, labels } = namespace.metadata;
  const metadata = { ...namespace.metadata, labels: { ...labels, "kubernetes.io/metadata.name": name } };
  return { ...namespace, metadata, spec: { finalizers: ["kubernetes"] }, status: { phase: "Active" } };
}

/** A new claim, which an admission plugin protects, and to which no volume is bound yet. */
function protectedClaim(claim: StoredObject): StoredObject {
  const spec = { volumeMode: "Filesystem", ...claim.spec };
  return { ...claim, metadata: withFinalizer(claim.metadata, claimProtection), spec, status: { phase: "Pending" } };
}

/** A new volume, which an admission plugin protects, and which no controller has processed yet. */
function protectedVolume(volume: StoredObject): StoredObject {
  const spec = { volumeMode: "Filesystem", persistentVolumeReclaimPolicy: "Retain", ...volume.spec };
  return { ...volume, metadata: withFinalizer(volume.metadata, volumeProtection), spec, status: { phase: "Pending" } };
}

function withFinalizer(metadata: StoredMetadata, finalizer: string): StoredMetadata {
  const { finalizers = [] } = metadata;
  return finalizers.includes(finalizer) ? metadata : { ...metadata, finalizers: [...finalizers, finalizer] };
}

function withType<O extends object>(secret: O): O {
  return { type: "Opaque", ...secret };
}

/** The webhooks with their defaults. */
export function defaultedWebhooks(resource: Resource, webhooks: readonly object[] = []): readonly object[] {
  const defaults = {
    failurePolicy: "Fail",
    matchPolicy: "Equivalent",
    namespaceSelector: {},
    objectSelector: {},
    timeoutSeconds: 10,
    ...(resource === "mutatingwebhookconfigurations" ? { reinvocationPolicy: "Never" } : undefined),
  };
  return webhooks.map((webhook) => {
    const rules = (webhook as { rules?: readonly object[] }).rules ?? [];
    return { ...defaults, ...webhook, rules: rules.map((rule) => ({ scope: "*", ...rule })) };
  });
}

/** The spec of an object with its defaults, as the API server stores it. */
export function defaultedSpec(resource: Resource, spec: object | undefined): object | undefined {
  if (resource === "pods") return defaultedPodSpec(spec);
  return resource === "statefulsets" ? defaultedStatefulSetSpec(spec) : spec;
}

/** The grace period is the only default that matters here; the real server fills in some thirty more. */
function defaultedPodSpec(spec: object | undefined): object {
  return spec !== undefined && "terminationGracePeriodSeconds" in spec
    ? spec
    : { terminationGracePeriodSeconds: 30, ...spec };
}

function defaultedStatefulSetSpec(posted: object | undefined): StatefulSetSpec {
  const spec = (posted ?? {}) as Partial<StatefulSetSpec>;
  const template = (spec.template ?? { spec: { containers: [] } }) as PodTemplate;
  const templateSpec = defaultedPodSpec(template.spec);
  const strategy = spec.updateStrategy ?? { type: "RollingUpdate" };
  return {
    ...spec,
    replicas: spec.replicas ?? 1,
    selector: spec.selector ?? {},
    template: templateSpec === template.spec ? template : ({ ...template, spec: templateSpec } as PodTemplate),
    podManagementPolicy: spec.podManagementPolicy ?? "OrderedReady",
    updateStrategy:
      strategy.type === "OnDelete"
        ? strategy
        : { ...strategy, rollingUpdate: { partition: 0, ...strategy.rollingUpdate } },
  };
}
