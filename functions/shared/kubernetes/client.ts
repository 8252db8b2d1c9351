/**
 * The real cluster: {@link Cluster} over the Kubernetes API, by hand: client-node's calls cost memory and time at each start, and
 * know no deadline after which nothing is sent (rule R9). JSON goes in and out as it is, never through typed models.
 */
import { processClock, sleep } from "../clock/process-clock.ts";
import { ServerTime } from "../clock/server-time.ts";
import type { SteadyClock } from "../clock/steady-clock.ts";
import {
  type AnsweredObject,
  type CallOptions,
  type Cluster,
  ClusterError,
  type DeleteCallOptions,
  hasCode,
  type ListQuery,
  type ObjectCallOptions,
  type ObjectKey,
  type ObjectList,
  type ObjectTypes,
  type Preconditions,
  type Resource,
  type ServedKind,
  type Subresource,
  type WatchEvent,
  type WatchQuery,
} from "./cluster.ts";
import { AccessProvider, type KubeConfig, loadConfiguration } from "./configuration.ts";
import { Discovery } from "./discovery.ts";
import { listPages } from "./list-pages.ts";
import { readFileInPod } from "./read-file.ts";
import { type ApiRequest, type RequestObservation, Requests } from "./requests.ts";
import { collectionPath, objectPath } from "./resources.ts";
import { WatchStream } from "./watch.ts";

export type { RequestObservation } from "./requests.ts";

const defaultRequestTimeoutMs = 10_000;
const defaultConnections = 16;
/** Of a document of discovery: some hundred times that of the core group. */
const documentLimitBytes = 1_048_576;
const silenceLimitMs = 70_000;
/** For an answer that no caller reads. A deletion is otherwise answered with the whole object, written and parsed in vain. */
const metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const shortestWatchSeconds = 240;
const longestWatchSeconds = 300;

export interface ConnectOptions {
  /** `sluice/VERSION (FUNCTION)`; names us in audit logs and in `managedFields`. */
  readonly userAgent: string;
  /** A kubeconfig file; absent: `$KUBECONFIG`, else the pod's service account, else `~/.kube/config`. */
  readonly kubeconfig?: string;
  /** The kubeconfig's context; absent: its current one. */
  readonly context?: string;
  /** The API server's address, in the place of the kubeconfig's. */
  readonly server?: string;
  /** How long one call may take with all its tries, in milliseconds: 10 s unless told. A list's limit is per page. */
  readonly requestTimeoutMs?: number;
  /** Connections for calls, at most: 16 unless told. Each open watch has one of its own. */
  readonly connections?: number;
  /** How long a watch may be silent before it is given up, in milliseconds: 70 s unless told. */
  readonly watchSilenceLimitMs?: number;
  /** Absent: the clock of this process, which its servers also measure their deadlines by. */
  readonly clock?: SteadyClock;
  /** Hears of every HTTP exchange, failed tries too. It must not throw. */
  readonly onRequest?: (observation: RequestObservation) => void;
}

export interface KubernetesCluster extends Cluster {
  /** The namespace of the kubeconfig's context, or of the pod: `default` when neither says. */
  readonly namespace: string;
  /** Resolves when the API server answers that it is ready; rejects with a {@link ClusterError} otherwise. */
  ready(): Promise<void>;
  /** Ends all connections; what is under way rejects. */
  close(): Promise<void>;
}

/**
 * Finds the cluster's address and our credentials. Sends nothing yet.
 *
 * @throws Error when there is no usable kubeconfig, or no such context in it.
 */
export async function connect(options: ConnectOptions): Promise<KubernetesCluster> {
  return new ConnectedCluster(await loadConfiguration(options.kubeconfig, options.context, options.server), options);
}

class ConnectedCluster implements KubernetesCluster {
  readonly namespace: string;
  readonly #clock: SteadyClock;
  readonly #silenceLimitMs: number;
  readonly #access: AccessProvider;
  readonly #serverTime = new ServerTime();
  readonly #requests: Requests;
  readonly #discovery: Discovery;

  constructor(configuration: KubeConfig, options: ConnectOptions) {
    const { clock = processClock, connections = defaultConnections, userAgent, onRequest } = options;
    const { requestTimeoutMs: timeoutMs = defaultRequestTimeoutMs } = options;
    this.namespace = configuration.getContextObject(configuration.getCurrentContext())?.namespace?.trim() || "default";
    this.#clock = clock;
    this.#silenceLimitMs = options.watchSilenceLimitMs ?? silenceLimitMs;
    this.#access = new AccessProvider(configuration, { clock, connections, connectTimeoutMs: timeoutMs });
    const [access, serverTime] = [this.#access, this.#serverTime];
    this.#requests = new Requests({ access, clock, serverTime, userAgent, timeoutMs, onRequest });
    const how = { verb: "get", method: "GET", repeatable: true, bodyLimitBytes: documentLimitBytes } as const;
    this.#discovery = new Discovery({
      read: (path, label) => this.#requests.send({ ...how, resource: path, path, label }),
      nowMs: () => clock.nowMs(),
    });
  }

  get<R extends Resource, S extends "scale" | undefined = undefined>(
    resource: R,
    key: ObjectKey,
    options?: ObjectCallOptions<S>,
  ): Promise<AnsweredObject<R, S>> {
    const where = objectPath(resource, key, options?.subresource);
    return this.#send({ verb: "get", resource, ...where, method: "GET", repeatable: true }, options);
  }

  async list<R extends Resource>(
    resource: R,
    query: ListQuery,
    options?: CallOptions,
  ): Promise<ObjectList<ObjectTypes[R]>> {
    if (query.notOlderThan === "0" || query.notOlderThan === "") {
      const message = `a list of ${resource} not older than "${query.notOlderThan}" would accept any state, however old`;
      throw new ClusterError({ code: 400, reason: "BadRequest", message, verb: "list", resource });
    }
    return await listPages(resource, query, (request) => this.#send(request, options));
  }

  create<R extends Resource>(
    resource: R,
    namespace: string,
    body: object,
    options?: CallOptions,
  ): Promise<ObjectTypes[R]> {
    const where = collectionPath(resource, namespace);
    const sent = { method: "POST", body: JSON.stringify(body), contentType: "application/json" } as const;
    return this.#send({ verb: "create", resource, ...where, ...sent, repeatable: false }, options);
  }

  patch<R extends Resource, S extends Subresource | undefined = undefined>(
    resource: R,
    key: ObjectKey,
    body: object,
    options?: ObjectCallOptions<S>,
  ): Promise<AnsweredObject<R, S>> {
    const { metadata } = body as { metadata?: { resourceVersion?: unknown } };
    const where = objectPath(resource, key, options?.subresource);
    const contentType = "application/merge-patch+json";
    const repeatable = typeof metadata?.resourceVersion === "string";
    const sent = { method: "PATCH", body: JSON.stringify(body), contentType, repeatable } as const;
    return this.#send({ verb: "patch", resource, ...where, ...sent }, options);
  }

  async delete(
    resource: Resource,
    key: ObjectKey,
    preconditions: Preconditions,
    options: DeleteCallOptions = {},
  ): Promise<void> {
    const { gracePeriodSeconds, propagationPolicy } = options;
    const wishes = { preconditions, gracePeriodSeconds, propagationPolicy };
    await this.#send(
      {
        verb: "delete",
        resource,
        ...objectPath(resource, key),
        method: "DELETE",
        body: JSON.stringify({ kind: "DeleteOptions", apiVersion: "v1", ...wishes }),
        contentType: "application/json",
        accept: metadataOnly,
        repeatable: true,
      },
      options,
    );
  }

  watch<R extends Resource>(
    resource: R,
    query: WatchQuery,
    options?: CallOptions,
  ): AsyncIterable<WatchEvent<ObjectTypes[R]>> {
    // Spread, so that a fleet of watches does not end, and start again, at one moment.
    const seconds = shortestWatchSeconds + Math.random() * (longestWatchSeconds - shortestWatchSeconds);
    const parameters = new URLSearchParams({
      watch: "true",
      allowWatchBookmarks: "true",
      resourceVersion: query.resourceVersion,
      timeoutSeconds: String(Math.round(seconds)),
    });
    if (query.labelSelector !== undefined) parameters.set("labelSelector", query.labelSelector);
    const { path, label } = collectionPath(resource, query.namespace);
    const request: ApiRequest = {
      verb: "watch",
      resource,
      label,
      method: "GET",
      path: `${path}?${parameters}`,
      repeatable: true,
    };
    const [requests, silenceLimitMs] = [this.#requests, this.#silenceLimitMs];
    return {
      [Symbol.asyncIterator]: () => new WatchStream({ requests, request, signal: options?.signal, silenceLimitMs }),
    };
  }

  resourceOf(group: string, kind: string, options?: Pick<CallOptions, "signal">): Promise<ServedKind> {
    return this.#discovery.resourceOf(group, kind, options?.signal);
  }

  async readFile(pod: ObjectKey, container: string, path: string, signal: AbortSignal): Promise<string | undefined> {
    return await readFileInPod(await this.#access.current(), pod, container, path, signal);
  }

  serverTimeMs(): number {
    // Whole milliseconds: the stamps of a ledger are integers, and one that is not makes the ledger unreadable.
    return Math.round(this.#serverTime.at(this.monotonicMs()) ?? Date.now());
  }

  wallTimeMs(): number {
    return this.#clock.wallMs();
  }

  monotonicMs(): number {
    return this.#clock.nowMs();
  }

  skippedMs(): number {
    return this.#clock.skippedMs();
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return sleep(ms, signal);
  }

  async ready(): Promise<void> {
    // /version is JSON, may be read by everyone, and is answered by an API server only when it serves.
    const path = "/version";
    await this.#send({ verb: "get", resource: "version", label: path, method: "GET", path, repeatable: true });
  }

  close(): Promise<void> {
    return this.#access.close();
  }

  async #send<T>(request: ApiRequest, options?: CallOptions): Promise<T> {
    try {
      return await this.#requests.send<T>(request, options);
    } catch (error) {
      if (hasCode(error, 404)) this.#discovery.doubt(request.resource);
      throw error;
    }
  }
}
