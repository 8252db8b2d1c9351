/**
 * Updates of objects, of their status and of their scales. Webhooks see them, and an update is tried again on the current
 * object if another client has written it meanwhile, as GuaranteedUpdate of k8s.io/apiserver v0.36 does
 * (pkg/storage/etcd3/store.go).
 */

import type { ObjectKey, Resource, Subresource } from "../../functions/shared/kubernetes/cluster.ts";
import { type Admission, type AdmissionAttributes, anonymous, type UserInfo } from "./admission.ts";
import { notFound, notServed } from "./api-errors.ts";
import { sharing } from "./merge-patch.ts";
import { type StoredObject, traitsOf } from "./objects.ts";
import { askedScale, type StoredScale, scaleOf, scalePatch } from "./scale.ts";
import type { Store } from "./store.ts";
import { acceptedUpdate, askedByPatch, checkNames, patchedObject } from "./write-rules.ts";
import { defaultedSpec } from "./write-rules-create.ts";

export interface UpdateRequest {
  readonly resource: Resource;
  readonly key: ObjectKey;
  readonly subresource?: Subresource | undefined;
  /** A JSON merge patch, or a complete object. */
  readonly how: "patch" | "put";
  readonly body: object;
  /** Default: false. */
  readonly isDryRun?: boolean;
  /** Default: {@link anonymous}. */
  readonly user?: UserInfo;
}

/**
 * Carries out an update. Resolves to the object or its scale after it. A dry run resolves to what would be stored, and is
 * tried once. An update with a resourceVersion fails if another client was faster; the mutating webhooks are asked before the
 * server notices.
 *
 * @throws ApiStatusError 400, 404, 409, 422, and what webhooks refuse with.
 */
export async function update(store: Store, admission: Admission, request: UpdateRequest): Promise<object> {
  const { resource, key, isDryRun = false } = request;
  checkServed(request);
  for (;;) {
    const current: StoredObject | undefined = store.find(resource, key);
    if (current === undefined) throw notFound("patch", resource, key.name);
    const asked = askedBy(request, current);
    const attributes = attributesOf(request, current);
    const mutated = await admission.mutate(attributes, asked);
    const accepted = acceptedBy(request, current, mutated);
    await admission.validate(attributes, shown(request, accepted));
    if (isDryRun) return shown(request, accepted);
    if (store.find(resource, key) !== current) continue;
    return shown(request, store.replace(resource, current as never, accepted as never));
  }
}

function checkServed({ resource, subresource }: UpdateRequest): void {
  const { hasStatus, hasScale } = traitsOf(resource);
  const isServed = { status: hasStatus, scale: hasScale };
  if (subresource !== undefined && !isServed[subresource]) throw notServed("patch", resource);
}

/** The part of an object that the request is about: the object itself or its scale. */
function shown({ resource, subresource }: UpdateRequest, object: StoredObject): object {
  return subresource === "scale" ? scaleOf("patch", resource, object) : object;
}

function askedBy(
  { resource, subresource, how, body }: UpdateRequest,
  current: StoredObject,
): StoredObject | StoredScale {
  if (subresource === "scale") {
    if (how === "patch") return askedScale(resource, current, body);
    const { apiVersion, kind, status } = scaleOf("patch", resource, current);
    const scale = { status, ...body, apiVersion, kind } as StoredScale;
    checkNames(resource, current.metadata, scale.metadata);
    return scale;
  }
  const asked =
    how === "patch" ? askedByPatch(resource, current, body, subresource) : askedByPut(resource, current, body);
  checkNames(resource, current.metadata, asked.metadata);
  return asked;
}

function askedByPut(resource: Resource, { apiVersion, kind }: StoredObject, body: object): StoredObject {
  const { metadata, spec, ...rest } = body as StoredObject;
  const wanted = defaultedSpec(resource, spec);
  return {
    ...rest,
    apiVersion,
    kind,
    metadata: metadata ?? {},
    ...(wanted === undefined ? undefined : { spec: wanted }),
  };
}

function acceptedBy({ resource, subresource }: UpdateRequest, current: StoredObject, mutated: object): StoredObject {
  if (subresource === "scale") {
    return patchedObject(resource, current, scalePatch(resource, current, mutated as StoredScale));
  }
  const { spec, status } = current;
  const wanted = mutated as StoredObject;
  const written = subresource === "status" ? { ...wanted, spec } : { ...wanted, status };
  const isWhole = subresource === undefined && !traitsOf(resource).hasStatus;
  return acceptedUpdate(resource, current, sharing(current, isWhole ? wanted : (written as StoredObject)), subresource);
}

function attributesOf(request: UpdateRequest, current: StoredObject): AdmissionAttributes {
  const { resource, key, subresource, isDryRun = false, user = anonymous } = request;
  const { group, kind } = traitsOf(resource);
  const [version = ""] = current.apiVersion.split("/").slice(-1);
  return {
    operation: "UPDATE",
    kind: subresource === "scale" ? { group: "autoscaling", version: "v1", kind: "Scale" } : { group, version, kind },
    resource,
    ...(subresource === undefined ? undefined : { subresource }),
    namespace: key.namespace,
    name: key.name,
    oldObject: shown(request, current),
    isDryRun,
    user,
  };
}
