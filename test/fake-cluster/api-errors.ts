/** The refusals of a kube-apiserver, word for word (k8s.io/apimachinery v0.36, pkg/api/errors). */

import { ClusterError, type Resource } from "../../functions/shared/kubernetes/cluster.ts";
import { traitsOf } from "./objects.ts";

export interface StatusCause {
  readonly reason?: string;
  readonly message: string;
  readonly field?: string;
}

export interface StatusDetails {
  readonly name?: string;
  readonly group?: string;
  readonly kind?: string;
  readonly uid?: string;
  readonly causes?: readonly StatusCause[];
  readonly retryAfterSeconds?: number;
}

/** A ClusterError that knows the details of its Status body. */
export class ApiStatusError extends ClusterError {
  readonly details: StatusDetails | undefined;

  constructor(init: ConstructorParameters<typeof ClusterError>[0], details?: StatusDetails) {
    super(init);
    this.details = details;
  }
}

export type Verb = "get" | "list" | "watch" | "create" | "update" | "patch" | "delete";

function details(resource: Resource, name: string): StatusDetails {
  const { group, plural } = traitsOf(resource);
  return group === "" ? { name, kind: plural } : { name, group, kind: plural };
}

export function notFound(verb: Verb, resource: Resource, name: string): ApiStatusError {
  const message = `${traitsOf(resource).qualifiedName} "${name}" not found`;
  return new ApiStatusError({ code: 404, reason: "NotFound", message, verb, resource }, details(resource, name));
}

export function alreadyExists(verb: Verb, resource: Resource, name: string): ApiStatusError {
  const message = `${traitsOf(resource).qualifiedName} "${name}" already exists`;
  return new ApiStatusError({ code: 409, reason: "AlreadyExists", message, verb, resource }, details(resource, name));
}

/** A creation in a namespace that is being deleted. */
export function namespaceTerminating(resource: Resource, name: string, namespace: string): ApiStatusError {
  const why = `unable to create new content in namespace ${namespace} because it is being terminated`;
  const message = `${traitsOf(resource).qualifiedName} ${JSON.stringify(name)} is forbidden: ${why}`;
  const cause = {
    reason: "NamespaceTerminating",
    message: `namespace ${namespace} is being terminated`,
    field: "metadata.namespace",
  };
  return new ApiStatusError(
    { code: 403, reason: "Forbidden", message, verb: "create", resource },
    { ...details(resource, name), causes: [cause] },
  );
}

/** A write of an object that has changed meanwhile. */
export function modified(verb: Verb, resource: Resource, name: string): ApiStatusError {
  const message = `Operation cannot be fulfilled on ${traitsOf(resource).qualifiedName} "${name}": the object has been modified; please apply your changes to the latest version and try again`;
  return new ApiStatusError({ code: 409, reason: "Conflict", message, verb, resource }, details(resource, name));
}

/** A deletion whose precondition does not hold. Here, and only here, the API server names the kind, not the resource. */
export function preconditionFailed(
  resource: Resource,
  name: string,
  what: "UID" | "ResourceVersion",
  wanted: string,
  found: string,
): ApiStatusError {
  const { group, kind, qualifiedKind } = traitsOf(resource);
  const guess =
    what === "UID" ? "The object might have been deleted and then recreated" : "The object might have been modified";
  const message = `Operation cannot be fulfilled on ${qualifiedKind} "${name}": the ${what} in the precondition (${wanted}) does not match the ${what} in record (${found}). ${guess}`;
  return new ApiStatusError(
    { code: 409, reason: "Conflict", message, verb: "delete", resource },
    group === "" ? { name, kind } : { name, group, kind },
  );
}

/** A write of a scale for another object of that name. Here the API server also names the subresource. */
export function otherUid(resource: Resource, name: string, wanted: string, found: string): ApiStatusError {
  const { group, plural, qualifiedName } = traitsOf(resource);
  const what = `${plural}/scale`;
  const precondition = `Precondition failed: UID in precondition: ${wanted}, UID in object meta: ${found}`;
  const message = `Operation cannot be fulfilled on ${qualifiedName.replace(plural, what)} "${name}": ${precondition}`;
  return new ApiStatusError(
    { code: 409, reason: "Conflict", message, verb: "patch", resource },
    { name, group, kind: what },
  );
}

/** A value that validation refuses. Causes in metadata are listed twice, because the API server validates metadata twice. */
export function invalid(
  verb: Verb,
  resource: Resource,
  name: string,
  cause: StatusCause,
  count: 1 | 2 = 1,
): ApiStatusError {
  const { group, kind } = traitsOf(resource);
  return invalidKind(verb, resource, { group, kind, name }, count === 1 ? [cause] : [cause, cause]);
}

/** The same for something that is no object of the resource, such as the parameters of a list. The causes are the same. */
export function invalidKind(
  verb: Verb,
  resource: Resource,
  what: { readonly group: string; readonly kind: string; readonly name: string },
  causes: readonly StatusCause[],
): ApiStatusError {
  const { group, kind, name } = what;
  const cause = causes[0];
  const qualified = group === "" ? kind : `${kind}.${group}`;
  const message = `${qualified} "${name}" is invalid: ${cause?.field ?? ""}: ${cause?.message ?? ""}`;
  return new ApiStatusError(
    { code: 422, reason: "Invalid", message, verb, resource },
    { ...(name === "" ? undefined : { name }), ...(group === "" ? undefined : { group }), kind, causes },
  );
}

export function badRequest(verb: Verb, resource: Resource, message: string): ApiStatusError {
  return new ApiStatusError({ code: 400, reason: "BadRequest", message, verb, resource });
}

/** A list by a field that the type's objects are not indexed by. */
export function unknownField(resource: Resource, field: string): ApiStatusError {
  const message =
    resource === "pods" || resource === "events"
      ? `field label not supported: ${field}`
      : `"${field}" is not a known field selector: only "metadata.name", "metadata.namespace"`;
  return badRequest("list", resource, message);
}

/** A path that leads nowhere: an unknown resource type or subresource, or a cluster-wide type within a namespace. */
export function notServed(verb: Verb, resource: Resource): ApiStatusError {
  const message = "the server could not find the requested resource";
  return new ApiStatusError({ code: 404, reason: "NotFound", message, verb, resource }, {});
}

/** An error of the server itself. */
export function internalError(verb: Verb, resource: Resource, why: string): ApiStatusError {
  const message = `Internal error occurred: ${why}`;
  return new ApiStatusError(
    { code: 500, reason: "InternalError", message, verb, resource },
    { causes: [{ message: why }] },
  );
}

/** A watch, list or page from a revision that the server has forgotten. */
export function expired(verb: Verb, resource: Resource, message: string): ApiStatusError {
  return new ApiStatusError({ code: 410, reason: "Expired", message, verb, resource });
}

/** A list that must be newer than anything that exists. */
export function tooLargeResourceVersion(resource: Resource, wanted: string, current: number): ApiStatusError {
  const message = `Timeout: Too large resource version: ${wanted}, current: ${current}`;
  return new ApiStatusError(
    { code: 504, reason: "Timeout", message, verb: "list", resource, retryAfterMs: 1000 },
    { retryAfterSeconds: 1, causes: [{ reason: "ResourceVersionTooLarge", message: "Too large resource version" }] },
  );
}

/** The Status body of a refusal. */
export function statusOf(error: ClusterError): object {
  const details = error instanceof ApiStatusError ? error.details : undefined;
  return {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    message: error.message,
    ...(error.reason === "" ? undefined : { reason: error.reason }),
    ...(details === undefined ? undefined : { details }),
    code: error.code,
  };
}
