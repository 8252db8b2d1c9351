/**
 * The real {@link Cluster}, over the Kubernetes API. It does not use client-node's calls, because they cost memory and time at
 * each start, and have no deadline after which nothing is sent (rule R9). JSON goes in and out as it is, without typed models.
 */
import { processClock, sleep } from "../clock/process-clock.ts";
import { ServerTime } from "../clock/server-time.ts";
import type { SteadyClock } from "../clock/steady-clock.ts";
import { type CallOptions, type Cluster, ClusterError, hasCode, type ObjectKey, type ServedKind } from "./cluster.ts";
import { AccessProvider, isOfPod, type KubeConfig, loadConfiguration } from "./configuration.ts";
import { Discovery } from "./discovery.ts";
import { listPages } from "./list-pages.ts";
import { readFileInPod } from "./read-file.ts";
import { type ApiRequest, type RequestObservation, Requests } from "./requests.ts";
import { collectionPath, objectPath } from "./resources.ts";
import { WatchStream } from "./watch.ts";

export type { RequestObservation } from "./requests.ts";

const defaultRequestTimeoutMs = 10_000;
const defaultConnections = 16;
/** The limit of a discovery document: some hundred times the size of the core group's. */
const documentLimitBytes = 1_048_576;
const silenceLimitMs = 70_000;
/** For answers that no caller reads. A deletion is otherwise answered with the whole object. */
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
  /** Called after every HTTP exchange, failed tries included. It must not throw. */
  readonly onRequest?: (observation: RequestObservation) => void;
}

/** As the API server reports it: `1` and `32`, or `32+` for one that its distribution has changed. */
export interface KubernetesVersion {
  readonly major?: string;
  readonly minor?: string;
  /** Such as `v1.36.2`. */
  readonly gitVersion?: string;
}

export interface KubernetesCluster extends Cluster {
  /** The namespace of the kubeconfig's context, or of the pod: `default` when neither says. */
  readonly namespace: string;
  /** True for the service account of a pod, false for a kubeconfig. */
  readonly isInPod: boolean;
  /** Resolves to its version when the API server answers that it is ready; rejects with a {@link ClusterError} otherwise. */
  ready(): Promise<KubernetesVersion>;
  /**
   * Asks by a dry run whether a pod may be evicted now. Nothing changes. Rejects with the {@link ClusterError} that refuses it,
   * with code 409 where another pod has that name.
   */
  askEviction(pod: ObjectKey, uid: string): Promise<void>;
  /** Ends all connections, so that calls under way reject. */
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
  readonly isInPod: boolean;
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
    this.isInPod = isOfPod(configuration);
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

  readonly get: Cluster["get"] = (resource, key, options) => {
    const where = objectPath(resource, key, options?.subresource);
    return this.#send({ verb: "get", resource, ...where, method: "GET", repeatable: true }, options);
  };

  readonly list: Cluster["list"] = async (resource, query, options) => {
    if (query.notOlderThan === "0" || query.notOlderThan === "") {
      const message = `a list of ${resource} not older than "${query.notOlderThan}" would accept any state, however old`;
      throw new ClusterError({ code: 400, reason: "BadRequest", message, verb: "list", resource });
    }
    return await listPages(resource, query, (request) => this.#send(request, options));
  };

  readonly create: Cluster["create"] = (resource, namespace, body, options) => {
    const where = collectionPath(resource, namespace);
    const sent = { method: "POST", body: JSON.stringify(body), contentType: "application/json" } as const;
    return this.#send({ verb: "create", resource, ...where, ...sent, repeatable: false }, options);
  };

  readonly patch: Cluster["patch"] = (resource, key, body, options) => {
    const { metadata } = body as { metadata?: { resourceVersion?: unknown } };
    const where = objectPath(resource, key, options?.subresource);
    const contentType = "application/merge-patch+json";
    const repeatable = typeof metadata?.resourceVersion === "string";
    const sent = { method: "PATCH", body: JSON.stringify(body), contentType, repeatable } as const;
    return this.#send({ verb: "patch", resource, ...where, ...sent }, options);
  };

  readonly delete: Cluster["delete"] = async (resource, key, preconditions, options = {}) => {
    const { gracePeriodSeconds, propagationPolicy } = options;
    const wishes = { preconditions, gracePeriodSeconds, propagationPolicy };
    const body = JSON.stringify({ kind: "DeleteOptions", apiVersion: "v1", ...wishes });
    const sent = { method: "DELETE", body, contentType: "application/json", accept: metadataOnly } as const;
    await this.#send({ verb: "delete", resource, ...objectPath(resource, key), ...sent, repeatable: true }, options);
  };

  readonly watch: Cluster["watch"] = (resource, query, options) => {
    // Spread, so that many watches do not end, and begin again, at the same time.
    const seconds = shortestWatchSeconds + Math.random() * (longestWatchSeconds - shortestWatchSeconds);
    const parameters = new URLSearchParams({
      watch: "true",
      allowWatchBookmarks: "true",
      resourceVersion: query.resourceVersion,
      timeoutSeconds: String(Math.round(seconds)),
    });
    if (query.labelSelector !== undefined) parameters.set("labelSelector", query.labelSelector);
    const { path, label } = collectionPath(resource, query.namespace);
    const asked = { path: `${path}?${parameters}`, label };
    const request: ApiRequest = { verb: "watch", resource, ...asked, method: "GET", repeatable: true };
    const [requests, silenceLimitMs] = [this.#requests, this.#silenceLimitMs];
    return {
      [Symbol.asyncIterator]: () => new WatchStream({ requests, request, signal: options?.signal, silenceLimitMs }),
    };
  };

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

  readonly wallTimeMs = () => this.#clock.wallMs();

  readonly monotonicMs = () => this.#clock.nowMs();

  readonly skippedMs = () => this.#clock.skippedMs();

  readonly sleep = sleep;

  ready(): Promise<KubernetesVersion> {
    // /version is JSON that any account may read, and an API server answers it only when it serves.
    const path = "/version";
    return this.#send({ verb: "get", resource: "version", label: path, method: "GET", path, repeatable: true });
  }

  async askEviction(pod: ObjectKey, uid: string): Promise<void> {
    const metadata = { name: pod.name, namespace: pod.namespace };
    const deleteOptions = { dryRun: ["All"], preconditions: { uid } };
    const body = JSON.stringify({ apiVersion: "policy/v1", kind: "Eviction", metadata, deleteOptions });
    const sent = { method: "POST", body, contentType: "application/json", repeatable: true } as const;
    await this.#send({ verb: "create", resource: "pods/eviction", ...objectPath("pods", pod, "eviction"), ...sent });
  }

  readonly close = () => this.#access.close();

  async #send<T>(request: ApiRequest, options?: CallOptions): Promise<T> {
    try {
      return await this.#requests.send<T>(request, options);
    } catch (error) {
      if (hasCode(error, 404)) this.#discovery.doubt(request.resource);
      throw error;
    }
  }
}
