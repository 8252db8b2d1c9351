/** What an HTTP request asks of the fake cluster. */

import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { type DiscoveredResource, type Resource, resources } from "../../functions/shared/kubernetes/cluster.ts";
import { anonymous, type UserInfo } from "./admission.ts";
import { ApiStatusError, badRequest, invalidKind, notServed, type Verb } from "./api-errors.ts";
import { isDefined, resourceNames, traitsOf } from "./objects.ts";

/** A request for one of the served resources, read from its path. */
export interface ApiRequest {
  readonly resource: Resource;
  readonly namespace: string | undefined;
  readonly name: string | undefined;
  readonly subresource: string | undefined;
  readonly query: URLSearchParams;
  readonly userAgent: string;
  readonly user: UserInfo;
  /** A list of metadata alone. */
  readonly wantsMetadata: boolean;
}

const maximumBody = 3 * 1024 * 1024;

const resourceOfPath: ReadonlyMap<string, Resource> = new Map(
  resourceNames.map((resource) => [`${resources[resource].apiPath}/${resource}`, resource]),
);

/** Undefined for a path outside the API groups that the fake cluster has. */
export function parseRequest(url: URL, headers: IncomingHttpHeaders): ApiRequest | undefined {
  const parts = url.pathname
    .split("/")
    .filter((part) => part !== "")
    .map(decodeURIComponent);
  const prefix = parts.splice(0, parts[0] === "api" ? 2 : 3).join("/");
  const namespace = parts[0] === "namespaces" && parts.length > 2 ? parts.splice(0, 2)[1] : undefined;
  const [plural, name, subresource] = parts;
  if (plural === undefined || parts.length > 3) return undefined;
  // A type that is in no table is named by its path.
  const path: DiscoveredResource = `/${prefix as "api"}/${plural}`;
  const resource = resourceOfPath.get(path) ?? (isDefined(path) ? path : undefined);
  if (resource === undefined) {
    const known = [...resourceOfPath.keys()].some((path) => path.startsWith(`/${prefix}/`));
    if (!known) return undefined;
    throw notServed("get", plural as Resource);
  }
  if (subresource !== undefined && !hasSubresource(resource, subresource)) throw notServed("get", resource);
  if (namespace !== undefined && !traitsOf(resource).isNamespaced) throw notServed("get", resource);
  const userAgent = headers["user-agent"] ?? "";
  const wantsMetadata = headers.accept?.includes("as=PartialObjectMetadataList") === true;
  const asked = { resource, namespace, name, subresource, query: url.searchParams };
  return { ...asked, userAgent, user: userOf(headers), wantsMetadata };
}

/** The user that a request impersonates; anonymous if it impersonates none. */
function userOf(headers: IncomingHttpHeaders): UserInfo {
  const username = headers["impersonate-user"]?.toString();
  if (username === undefined) return anonymous;
  const groups = headers["impersonate-group"]?.toString().split(", ") ?? [];
  return { username, groups: [...groups, "system:authenticated"] };
}

function hasSubresource(resource: Resource, subresource: string): boolean {
  const { hasStatus, hasScale } = traitsOf(resource);
  const served = { status: hasStatus, scale: hasScale, eviction: resource === "pods" };
  return Object.hasOwn(served, subresource) && served[subresource as keyof typeof served];
}

export function verbOf(
  method: string | undefined,
  { resource, name, namespace, subresource, query }: ApiRequest,
): Verb | undefined {
  // A list may span namespaces; any other request is for the namespace of its object.
  const isPlaced = namespace !== undefined || !traitsOf(resource).isNamespaced;
  if (subresource === "eviction") return method === "POST" && isPlaced ? "create" : undefined;
  if (name === undefined) {
    if (method === "POST" && isPlaced) return "create";
    if (method !== "GET") return undefined;
    const watch = query.get("watch");
    return watch === "true" || watch === "1" ? "watch" : "list";
  }
  if (!isPlaced) return undefined;
  if (method === "GET") return "get";
  if (method === "PATCH") return "patch";
  if (method === "PUT") return "update";
  return method === "DELETE" && subresource === undefined ? "delete" : undefined;
}

export async function jsonBody(
  request: IncomingMessage,
  verb: Verb,
  resource: Resource,
  accepted: readonly string[],
): Promise<Readonly<Record<string, unknown>>> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maximumBody) {
      const message = `Request entity too large: limit is ${maximumBody}`;
      throw new ApiStatusError({ code: 413, reason: "RequestEntityTooLarge", message, verb, resource });
    }
    chunks.push(chunk);
  }
  if (size === 0 && verb === "delete") return {};
  // The API server reads a body without a content type as JSON, but never a patch.
  const type = (request.headers["content-type"] ?? "").split(";")[0]?.trim() ?? "";
  if (!accepted.includes(type) && (verb === "patch" || type !== "")) {
    const list = accepted.join(", ");
    const message = `the body of the request was in an unknown format - accepted media types include: ${list}`;
    throw new ApiStatusError({ code: 415, reason: "UnsupportedMediaType", message, verb, resource });
  }
  let body: unknown;
  try {
    body = JSON.parse(Buffer.concat(chunks).toString());
  } catch (error) {
    throw badRequest(verb, resource, `error decoding the body: ${(error as Error).message}`);
  }
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    throw badRequest(verb, resource, "the body of the request is no JSON object");
  }
  return body as Readonly<Record<string, unknown>>;
}

type WriteOptions = "CreateOptions" | "UpdateOptions" | "PatchOptions" | "DeleteOptions";

/** @throws ApiStatusError 422 for a value of `dryRun` that the API server does not know. */
export function checkDryRun(verb: Verb, resource: Resource, kind: WriteOptions, dryRun: readonly string[]): void {
  if (dryRun.every((stage) => stage === "All")) return;
  const message = `Unsupported value: ${JSON.stringify(dryRun)}: supported values: "All"`;
  const cause = { reason: "FieldValueNotSupported", message, field: "dryRun" };
  throw invalidKind(verb, resource, { group: "meta.k8s.io", kind, name: "" }, [cause]);
}
