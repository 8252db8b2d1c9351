/**
 * The effect of a merge patch and of a deletion on an object, as the generic registry of k8s.io/apiserver v0.36 implements
 * them (pkg/registry/generic/registry/store.go, pkg/registry/rest/{update,delete}.go).
 */

import type { Resource } from "../../functions/shared/kubernetes/cluster.ts";
import {
  ApiStatusError,
  badRequest,
  invalid,
  invalidKind,
  modified,
  notServed,
  preconditionFailed,
} from "./api-errors.ts";
import { applyMergePatch, jsonEqual } from "./merge-patch.ts";
import {
  isFinalizingNamespace,
  rfc3339,
  type StoredMetadata,
  type StoredObject,
  type StoredPod,
  traitsOf,
} from "./objects.ts";
import { checkAnnotations, defaultedWebhooks, withoutEmptyMaps } from "./write-rules-create.ts";

export interface DeleteOptions {
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
  readonly gracePeriodSeconds?: number;
  readonly propagationPolicy?: "Background" | "Foreground" | "Orphan";
}

type Patch = { readonly metadata?: Partial<StoredMetadata>; readonly spec?: unknown; readonly status?: unknown };

/**
 * The object after a merge patch, without a new resourceVersion yet; `current` itself if nothing changes.
 *
 * @throws ApiStatusError 400, 404, 409, 422
 */
export function patchedObject(
  resource: Resource,
  current: StoredObject,
  body: object,
  subresource?: "status",
): StoredObject {
  return acceptedUpdate(resource, current, askedByPatch(resource, current, body, subresource), subresource);
}

/**
 * The object that a merge patch asks for, before the server's rules apply. It shares unchanged parts with `current`.
 *
 * @throws ApiStatusError 404 for a type that has no status.
 */
export function askedByPatch(
  resource: Resource,
  current: StoredObject,
  body: object,
  subresource?: "status",
): StoredObject {
  const traits = traitsOf(resource);
  if (subresource !== undefined && !traits.hasStatus) {
    throw notServed("patch", resource);
  }
  const { apiVersion: _version, kind: _kind, ...patch } = body as Patch & { apiVersion?: string; kind?: string };
  const writable: { spec?: unknown; status?: unknown } = { ...patch };
  if (subresource === "status") delete writable.spec;
  else if (traits.hasStatus) delete writable.status;
  return applyMergePatch(current, writable);
}

/**
 * The object to store in place of `current` when a client asks for `asked`, without a new resourceVersion yet; `current`
 * itself if nothing changes. `asked` shares equal parts with `current`.
 *
 * @throws ApiStatusError 400, 409, 422
 */
export function acceptedUpdate(
  resource: Resource,
  current: StoredObject,
  asked: StoredObject,
  subresource?: "status",
): StoredObject {
  const traits = traitsOf(resource);
  const merged = withDefaults(resource, current, asked);
  const metadata = patchedMetadata(resource, current, merged.metadata, subresource);
  if (metadata === current.metadata && withoutMetadataEqual(merged, current)) return current;
  const counted = traits.generationCounts;
  if (counted === undefined || merged[counted] === current[counted]) return { ...merged, metadata };
  if (resource === "statefulsets") checkStatefulSetSpec(current, merged);
  return { ...merged, metadata: { ...metadata, generation: (metadata.generation ?? 0) + 1 } };
}

/** Fills in the defaults of a list that a patch has replaced, as for a new object. */
function withDefaults(resource: Resource, current: StoredObject, merged: StoredObject): StoredObject {
  if (merged.webhooks === current.webhooks) return merged;
  const webhooks = defaultedWebhooks(resource, merged.webhooks);
  return { ...merged, webhooks: jsonEqual(webhooks, current.webhooks) ? (current.webhooks ?? []) : webhooks };
}

/** Merging keeps equal parts, so comparing identities is enough. */
function withoutMetadataEqual(merged: StoredObject, current: StoredObject): boolean {
  if (merged === current) return true;
  const before = current as unknown as Record<string, unknown>;
  const after = merged as unknown as Record<string, unknown>;
  for (const field of Object.keys(after)) if (field !== "metadata" && after[field] !== before[field]) return false;
  return Object.keys(after).length === Object.keys(before).length;
}

function patchedMetadata(
  resource: Resource,
  current: StoredObject,
  wanted: StoredMetadata,
  subresource: "status" | undefined,
): StoredMetadata {
  const before = current.metadata;
  if (wanted === before) return before;
  checkNames(resource, before, wanted);
  if (wanted.resourceVersion !== before.resourceVersion) {
    checkNumber(resource, wanted.resourceVersion);
    if (wanted.resourceVersion) throw modified("patch", resource, before.name);
    if (!traitsOf(resource).allowsUnconditionalUpdate) {
      const message = "Invalid value: 0: must be specified for an update";
      const { group } = traitsOf(resource);
      const cause = { reason: "FieldValueInvalid", message, field: "metadata.resourceVersion" };
      // Here the API server puts the resource in the place of the kind.
      throw invalidKind("patch", resource, { group, kind: resource, name: before.name }, [cause]);
    }
  }
  if (wanted.uid && wanted.uid !== before.uid) {
    const message = `Invalid value: ${JSON.stringify(wanted.uid)}: field is immutable`;
    throw invalid("patch", resource, before.name, { reason: "FieldValueInvalid", message, field: "metadata.uid" }, 2);
  }
  checkFinalizers(resource, before, wanted);
  checkAnnotations("patch", resource, before.name, wanted);
  const metadata: { -readonly [K in keyof StoredMetadata]: StoredMetadata[K] } = { ...withoutEmptyMaps(wanted) };
  for (const field of setByTheServer) {
    if (before[field] === undefined) delete metadata[field];
    else (metadata as Record<string, unknown>)[field] = before[field];
  }
  if (resource === "pods" && subresource === "status") {
    if (before.ownerReferences === undefined) delete metadata.ownerReferences;
    else metadata.ownerReferences = before.ownerReferences;
  }
  return jsonEqual(metadata, before) ? before : metadata;
}

/**
 * Checks that an update names the object of its path, or no object.
 *
 * @throws ApiStatusError 400
 */
export function checkNames(resource: Resource, before: StoredMetadata, wanted: StoredMetadata): void {
  if (!wanted.name) {
    const message = `the name of the object (${before.name} based on URL) was undeterminable: name must be provided`;
    throw badRequest("patch", resource, message);
  }
  if (wanted.name !== before.name) {
    const message = `the name of the object (${wanted.name}) does not match the name on the URL (${before.name})`;
    throw badRequest("patch", resource, message);
  }
  if (wanted.namespace !== undefined && wanted.namespace !== before.namespace) {
    const message = "the namespace of the provided object does not match the namespace sent on the request";
    throw badRequest("patch", resource, message);
  }
}

const setByTheServer = [
  "namespace",
  "uid",
  "resourceVersion",
  "generation",
  "creationTimestamp",
  "deletionTimestamp",
  "deletionGracePeriodSeconds",
] as const;

function checkNumber(resource: Resource, revision: string | undefined): void {
  if (!revision || /^[0-9]+$/.test(revision)) return;
  const message = `strconv.ParseUint: parsing ${JSON.stringify(revision)}: invalid syntax`;
  throw new ApiStatusError({ code: 500, reason: "", message, verb: "patch", resource });
}

function checkFinalizers(resource: Resource, before: StoredMetadata, wanted: StoredMetadata): void {
  if (before.deletionTimestamp === undefined || wanted.finalizers === undefined) return;
  const added = wanted.finalizers.filter((finalizer) => !before.finalizers?.includes(finalizer));
  if (added.length === 0) return;
  const list = `[]string{${added.map((finalizer) => JSON.stringify(finalizer)).join(", ")}}`;
  const message = `Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers ${list}`;
  throw invalid(
    "patch",
    resource,
    before.name,
    { reason: "FieldValueForbidden", message, field: "metadata.finalizers" },
    2,
  );
}

const changeableInStatefulSets = new Set([
  "replicas",
  "ordinals",
  "template",
  "updateStrategy",
  "revisionHistoryLimit",
  "persistentVolumeClaimRetentionPolicy",
  "minReadySeconds",
]);

function checkStatefulSetSpec(current: StoredObject, merged: StoredObject): void {
  const before = (current.spec ?? {}) as Record<string, unknown>;
  const after = (merged.spec ?? {}) as Record<string, unknown>;
  for (const field of new Set([...Object.keys(before), ...Object.keys(after)])) {
    if (changeableInStatefulSets.has(field) || before[field] === after[field]) continue;
    const message =
      "Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
    throw invalid("patch", "statefulsets", current.metadata.name, {
      reason: "FieldValueForbidden",
      message,
      field: "spec",
    });
  }
}

export interface DeletionPlan {
  /** The object to store first (or instead), marked as being deleted. Undefined: no change. */
  readonly marked: StoredObject | undefined;
  readonly remove: boolean;
}

/** @throws ApiStatusError 409 for a failed precondition. */
export function planDeletion(
  resource: Resource,
  current: StoredObject,
  options: DeleteOptions,
  nowMs: number,
): DeletionPlan {
  const { metadata } = current;
  const { uid, resourceVersion } = options.preconditions ?? {};
  if (uid !== undefined && uid !== metadata.uid) {
    throw preconditionFailed(resource, metadata.name, "UID", uid, metadata.uid);
  }
  if (resourceVersion !== undefined && resourceVersion !== metadata.resourceVersion) {
    throw preconditionFailed(resource, metadata.name, "ResourceVersion", resourceVersion, metadata.resourceVersion);
  }
  const grace = traitsOf(resource).deletesGracefully ? graceOf(current as StoredPod, options, nowMs) : "none";
  if (grace === "pending") return { marked: undefined, remove: false };

  const finalizers = finalizersFor(metadata.finalizers ?? [], options.propagationPolicy);
  const withFinalizers = jsonEqual(finalizers, metadata.finalizers ?? [])
    ? metadata
    : withoutEmptyMaps({ ...metadata, finalizers });
  if (grace !== "none") {
    const generation =
      metadata.deletionTimestamp === undefined ? (metadata.generation ?? 0) + 1 : (metadata.generation ?? 0);
    const { deletionTimestamp, seconds } = grace;
    const marked = { ...withFinalizers, generation, deletionTimestamp, deletionGracePeriodSeconds: seconds };
    return { marked: { ...current, metadata: marked }, remove: seconds === 0 && finalizers.length === 0 };
  }
  if (isFinalizingNamespace(current)) {
    if (metadata.deletionTimestamp !== undefined) return { marked: undefined, remove: false };
    const ending = { ...withFinalizers, deletionTimestamp: rfc3339(nowMs) };
    return { marked: { ...current, metadata: ending, status: { phase: "Terminating" } }, remove: false };
  }
  if (finalizers.length === 0) {
    return { marked: withFinalizers === metadata ? undefined : { ...current, metadata: withFinalizers }, remove: true };
  }
  const marked = { ...withFinalizers, ...markedAsDeleting(metadata, nowMs) };
  return { marked: jsonEqual(marked, metadata) ? undefined : { ...current, metadata: marked }, remove: false };
}

type Grace = "none" | "pending" | { readonly deletionTimestamp: string; readonly seconds: number };

/** "pending": the pod already terminates, and its time stays the same; "none": it goes now. */
function graceOf(pod: StoredPod, options: DeleteOptions, nowMs: number): Grace {
  const { deletionTimestamp, deletionGracePeriodSeconds: given = 0 } = pod.metadata;
  const asked = options.gracePeriodSeconds === undefined ? undefined : atLeastZero(options.gracePeriodSeconds);
  if (deletionTimestamp === undefined) {
    const immediately =
      pod.spec.nodeName === undefined || pod.status.phase === "Failed" || pod.status.phase === "Succeeded";
    const seconds = immediately ? 0 : atLeastZero(asked ?? pod.spec.terminationGracePeriodSeconds ?? 0);
    return { deletionTimestamp: rfc3339(nowMs + seconds * 1000), seconds };
  }
  if (given === 0) return "none";
  if (asked === undefined || asked >= given) return "pending";
  const sooner = Date.parse(deletionTimestamp) - given * 1000 + asked * 1000;
  if (sooner >= nowMs) return { deletionTimestamp: rfc3339(sooner), seconds: asked };
  return { deletionTimestamp: rfc3339(nowMs), seconds: asked === 0 ? 0 : 1 };
}

/** The API server reads a negative grace period as one second. */
function atLeastZero(seconds: number): number {
  return seconds < 0 ? 1 : seconds;
}

function markedAsDeleting(metadata: StoredMetadata, nowMs: number): Partial<StoredMetadata> {
  const { deletionTimestamp, generation } = metadata;
  if (deletionTimestamp !== undefined) {
    const inTheFuture = Date.parse(deletionTimestamp) > nowMs;
    return { deletionTimestamp: inTheFuture ? rfc3339(nowMs) : deletionTimestamp, deletionGracePeriodSeconds: 0 };
  }
  return {
    deletionTimestamp: rfc3339(nowMs),
    deletionGracePeriodSeconds: 0,
    ...(generation === undefined ? undefined : { generation: generation + 1 }),
  };
}

/** The propagation policy sets the garbage collector's finalizers; without one they stay as they are. */
function finalizersFor(finalizers: readonly string[], policy: DeleteOptions["propagationPolicy"]): readonly string[] {
  if (policy === undefined) return finalizers;
  const others = finalizers.filter((finalizer) => finalizer !== "orphan" && finalizer !== "foregroundDeletion");
  if (policy === "Orphan") return [...others, "orphan"];
  return policy === "Foreground" ? [...others, "foregroundDeletion"] : others;
}
