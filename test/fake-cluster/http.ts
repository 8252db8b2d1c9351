/**
 * The fake cluster over HTTP: the part of the Kubernetes API that Sluice itself calls, with the answers of a kube-apiserver.
 * It has no authentication and no schemas: tests that need those run against `test/controlplane`.
 */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { ClusterError, type Resource, type Subresource } from "../../functions/shared/kubernetes/cluster.ts";
import { Admission } from "./admission.ts";
import { ApiStatusError, badRequest, internalError, statusOf, type Verb } from "./api-errors.ts";
import { discoveryDocument, discoveryPath } from "./discovery.ts";
import { answerEviction } from "./http-eviction.ts";
import { ListPages } from "./http-list.ts";
import { type ApiRequest, checkDryRun, jsonBody, parseRequest, verbOf } from "./http-request.ts";
import { type ServeOptions, serveWatch } from "./http-watch.ts";
import { type StoredObject, traitsOf } from "./objects.ts";
import { update } from "./updates.ts";
import type { World } from "./world.ts";
import type { DeleteOptions } from "./write-rules.ts";

export interface RequestCount {
  readonly verb: Verb;
  readonly resource: string;
  readonly userAgent: string;
  count: number;
}

export interface ServedWorld {
  /** `http://127.0.0.1:PORT` */
  readonly url: string;
  readonly port: number;
  readonly server: Server;
  /** Requests so far, by user agent. A watch counts once, when it begins. */
  requests(): readonly RequestCount[];
  /** Ends every watch and connection. */
  close(): Promise<void>;
}

/**
 * Serves a world on a real timeline. Resolves when it listens.
 *
 * @throws Error if the port is taken.
 */
export async function serveWorld(world: World, options: ServeOptions = {}): Promise<ServedWorld> {
  const handler = new WorldHandler(world, options);
  const server = createServer((request, response) => void handler.handle(request, response));
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port ?? 0, options.host ?? "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${options.host ?? "127.0.0.1"}:${port}`,
    port,
    server,
    requests: () => handler.requests(),
    close: async () => {
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      });
      await handler.close();
    },
  };
}

class WorldHandler {
  readonly #world: World;
  readonly #options: ServeOptions;
  readonly #pages: ListPages;
  readonly #admission: Admission;
  readonly #counts = new Map<string, RequestCount>();

  constructor(world: World, options: ServeOptions) {
    this.#world = world;
    this.#options = options;
    this.#pages = new ListPages(world);
    this.#admission = new Admission(world);
  }

  close(): Promise<void> {
    return this.#admission.close();
  }

  requests(): readonly RequestCount[] {
    return [...this.#counts.values()];
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const url = new URL(request.url ?? "/", "http://world");
      if (url.pathname === "/readyz" || url.pathname === "/livez" || url.pathname === "/healthz") {
        response.writeHead(200, { "Content-Type": "text/plain; charset=utf-8" }).end("ok");
      } else if (url.pathname === "/version") {
        respond(response, 200, { major: "1", minor: "36", gitVersion: "v1.36.3", platform: "linux/amd64" });
      } else if (discoveryPath.test(url.pathname)) {
        const document = discoveryDocument(this.#world.store, url.pathname);
        if (document === undefined) notThere(response);
        else respond(response, 200, document);
      } else {
        const asked = parseRequest(url, request.headers);
        const isServed = asked !== undefined && this.#world.store.serves(asked.resource);
        if (!isServed) notThere(response);
        else await this.#handleApi(request, asked, response);
      }
    } catch (error) {
      respondError(response, error);
    }
  }

  async #handleApi(request: IncomingMessage, asked: ApiRequest, response: ServerResponse): Promise<void> {
    const verb = verbOf(request.method, asked);
    if (verb === undefined) throw methodNotAllowed(asked);
    this.#count(verb, asked);
    const asksDryRun = asked.query.has("dryRun");
    if (asksDryRun && (verb === "delete" || (verb === "create" && asked.subresource !== "eviction"))) {
      throw badRequest(verb, asked.resource, "the embedded world does no dry runs but of evictions and updates");
    }
    const { store } = this.#world;
    const { resource, namespace = "", name = "" } = asked;
    const key = { namespace, name };
    const isScale = asked.subresource === "scale";
    switch (verb) {
      case "get":
        return respond(response, 200, isScale ? store.getScale(resource, key) : store.get(resource, key));
      case "list":
        return respond(response, 200, await this.#pages.list(asked));
      case "watch":
        return serveWatch(this.#world, asked, response, this.#options);
      case "create": {
        const body = await jsonBody(request, verb, resource, ["application/json"]);
        if (asked.subresource === "eviction") {
          return respond(response, 201, await answerEviction(this.#world, this.#admission, asked, body));
        }
        checkKind(resource, body);
        return respond(response, 201, store.create(resource, namespace, body));
      }
      case "patch":
      case "update":
        return respond(response, 200, await this.#update(request, asked, verb));
      case "delete": {
        const body = await jsonBody(request, verb, resource, ["application/json"]);
        const options = deleteOptions(resource, body, asked.query);
        const { object, removed } = store.delete(resource, key, options);
        return respond(response, 200, deletionAnswer(resource, object, removed));
      }
    }
  }

  async #update(request: IncomingMessage, asked: ApiRequest, verb: "patch" | "update"): Promise<object> {
    const { resource, namespace = "", name = "", query, user } = asked;
    const isPatch = verb === "patch";
    const dryRun = query.getAll("dryRun");
    checkDryRun(verb, resource, isPatch ? "PatchOptions" : "UpdateOptions", dryRun);
    const accepted = isPatch ? "application/merge-patch+json" : "application/json";
    const body = await jsonBody(request, verb, resource, [accepted]);
    // The path has already been checked: no other subresource is possible.
    const subresource = asked.subresource as Subresource | undefined;
    if (!isPatch && subresource !== "scale") checkKind(resource, body);
    const how = isPatch ? "patch" : "put";
    const key = { namespace, name };
    const isDryRun = dryRun.length > 0;
    return await update(this.#world.store, this.#admission, { resource, key, subresource, how, body, isDryRun, user });
  }

  #count(verb: Verb, { resource, subresource, userAgent }: ApiRequest): void {
    const { plural } = traitsOf(resource);
    const what = subresource === undefined ? plural : `${plural}/${subresource}`;
    const id = `${verb} ${what} ${userAgent}`;
    const counted = this.#counts.get(id);
    if (counted === undefined) this.#counts.set(id, { verb, resource: what, userAgent, count: 1 });
    else counted.count++;
  }
}

function methodNotAllowed({ resource }: ApiRequest): ApiStatusError {
  const message = "the server does not allow this method on the requested resource";
  return new ApiStatusError({ code: 405, reason: "MethodNotAllowed", message, verb: "get", resource }, {});
}

function checkKind(resource: Resource, body: Readonly<Record<string, unknown>>): void {
  const { apiVersion, kind, group, isCustom } = traitsOf(resource);
  if (body.kind !== undefined && body.kind !== kind) {
    const version = String(body.apiVersion ?? apiVersion);
    const ours = `${group === "" ? "core" : group.split(".")[0]}.${kind}`;
    const why = `converting (${version.split("/").at(-1)}.${String(body.kind)}) to (${ours}): unknown conversion`;
    const message = `${String(body.kind)} in version "${version}" cannot be handled as a ${kind}: ${why}`;
    throw badRequest("create", resource, message);
  }
  if (body.kind === undefined && isCustom) {
    throw badRequest(
      "create",
      resource,
      `the object provided is unrecognized (must be of type ${kind}): Object 'Kind' is missing`,
    );
  }
  if (body.apiVersion !== undefined && body.apiVersion !== apiVersion) {
    const message = `the API version in the data (${String(body.apiVersion)}) does not match the expected API version (${apiVersion})`;
    throw badRequest("create", resource, message);
  }
}

function deleteOptions(
  resource: Resource,
  body: DeleteOptions & { dryRun?: unknown },
  query: URLSearchParams,
): DeleteOptions {
  if (Array.isArray(body.dryRun) && body.dryRun.length > 0) {
    throw badRequest("delete", resource, "the embedded world does no dry runs but of evictions and updates");
  }
  const grace = query.get("gracePeriodSeconds");
  const policy = query.get("propagationPolicy") as NonNullable<DeleteOptions["propagationPolicy"]> | null;
  return {
    ...(grace === null ? undefined : { gracePeriodSeconds: Number(grace) }),
    ...(policy === null ? undefined : { propagationPolicy: policy }),
    ...body,
  };
}

/** A deleted pod is returned as the deletion left it; for other objects a Status says that they are gone. */
function deletionAnswer(resource: Resource, object: StoredObject, removed: boolean): object {
  const { returnsDeletedObject, group, plural } = traitsOf(resource);
  if (returnsDeletedObject || !removed) return object;
  const { name, uid } = object.metadata;
  const details = { name, ...(group === "" ? undefined : { group }), kind: plural, uid };
  return { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", details };
}

function notThere(response: ServerResponse): void {
  response.writeHead(404, { "Content-Type": "text/plain" }).end("404 page not found\n");
}

function respond(response: ServerResponse, code: number, body: object): void {
  response.writeHead(code, { "Content-Type": "application/json", "Cache-Control": "no-cache, private" });
  response.end(`${JSON.stringify(body)}\n`);
}

function respondError(response: ServerResponse, error: unknown): void {
  const refusal = error instanceof ClusterError ? error : internalError("get", "pods", (error as Error).message);
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const seconds = refusal instanceof ApiStatusError ? (refusal.details?.retryAfterSeconds ?? 0) : 0;
  if (seconds > 0) response.setHeader("Retry-After", String(seconds));
  respond(response, refusal.code, statusOf(refusal));
}
