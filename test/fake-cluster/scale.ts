/**
 * The scale of an object, as kube-apiserver v1.36 implements it for StatefulSets (pkg/registry/apps/statefulset/storage). A
 * write changes the number of replicas, and nothing else in the patch has an effect.
 */
import type { Resource, ScaleObject } from "../../functions/shared/kubernetes/cluster.ts";
import { invalidKind, modified, notServed, otherUid } from "./api-errors.ts";
import { applyMergePatch } from "./merge-patch.ts";
import { type StoredObject, traitsOf } from "./objects.ts";
import { checkNames } from "./write-rules.ts";

export interface StoredScale extends ScaleObject {
  readonly kind: "Scale";
  readonly apiVersion: "autoscaling/v1";
}

interface Scaled {
  readonly spec?: {
    readonly replicas?: number;
    readonly selector?: { readonly matchLabels?: Readonly<Record<string, string>> };
  };
  readonly status?: { readonly replicas?: number };
}

/** @throws ApiStatusError 404 for a type that has no scale. */
export function scaleOf(verb: "get" | "patch", resource: Resource, object: StoredObject): StoredScale {
  if (!traitsOf(resource).hasScale) throw notServed(verb, resource);
  const { name, namespace = "", uid, resourceVersion, creationTimestamp } = object.metadata;
  const { spec, status } = object as Scaled;
  const labels = Object.entries(spec?.selector?.matchLabels ?? {}).map(([key, value]) => `${key}=${value}`);
  const { replicas = 0 } = spec ?? {};
  return {
    kind: "Scale",
    apiVersion: "autoscaling/v1",
    metadata: {
      name,
      namespace,
      uid,
      resourceVersion,
      ...(creationTimestamp === undefined ? undefined : { creationTimestamp }),
    },
    // Go leaves out a zero.
    spec: replicas === 0 ? {} : { replicas },
    status: {
      replicas: status?.replicas ?? 0,
      ...(labels.length === 0 ? undefined : { selector: labels.toSorted().join(",") }),
    },
  };
}

/**
 * The scale that a merge patch asks for.
 *
 * @throws ApiStatusError 400 for another name, 404 for a type that has no scale.
 */
export function askedScale(resource: Resource, object: StoredObject, body: object): StoredScale {
  const before = scaleOf("patch", resource, object);
  const asked = applyMergePatch(before, body) as StoredScale;
  checkNames(resource, before.metadata, asked.metadata);
  return asked;
}

/**
 * The patch of the object that a changed scale results in.
 *
 * @throws ApiStatusError 409 for another uid or resourceVersion, 422 for a negative number of replicas.
 */
export function scalePatch(resource: Resource, object: StoredObject, { metadata, spec }: StoredScale): object {
  const { name, uid: uidBefore, resourceVersion: before } = object.metadata;
  const { replicas = 0 } = spec ?? {};
  if (replicas < 0) {
    const message = `Invalid value: ${replicas}: must be greater than or equal to 0`;
    const cause = { reason: "FieldValueInvalid", message, field: "spec.replicas" };
    throw invalidKind("patch", resource, { group: "autoscaling", kind: "Scale", name }, [cause]);
  }
  const { uid, resourceVersion } = metadata;
  if (uid && uid !== uidBefore) throw otherUid(resource, name, uid, uidBefore);
  if (resourceVersion && resourceVersion !== before) throw modified("patch", resource, name);
  return { spec: { replicas } };
}
