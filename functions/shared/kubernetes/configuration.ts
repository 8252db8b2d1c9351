/**
 * The kubeconfig and its credentials, through `@kubernetes/client-node`, which no other file imports.
 *
 * It finds a configuration, and authenticates in every way: token, token file that is read again, client certificate, exec
 * plugin, basic, OIDC. Connections are ours, because it would open one per call.
 */
import { existsSync } from "node:fs";
import { registerHooks } from "node:module";
import type { KubeConfig, RequestContext } from "@kubernetes/client-node";
import { Agent, type Dispatcher } from "undici";
import type { SteadyClock } from "../clock/steady-clock.ts";

/** How long credentials are used before client-node is asked again. It decides when to read files and run plugins. */
const credentialsLifeMs = 5_000;
const connectionsAside = 4;
const serviceAccountToken = "/var/run/secrets/kubernetes.io/serviceaccount/token";

interface Pools {
  /** For calls that end. */
  readonly calls: Dispatcher;
  /** Of few connections: for calls of which others may ask many. */
  readonly aside: Dispatcher;
  /** Without a limit on connections, so that open watches never keep calls waiting. */
  readonly watches: Dispatcher;
}

/** What a call needs to reach the API server as the configured user. */
export interface Access extends Pools {
  /** Scheme, host and port. */
  readonly origin: string;
  /** What comes before `/api` in every path; empty but for proxies. */
  readonly pathPrefix: string;
  /** Authorization and impersonation. */
  readonly headers: Readonly<Record<string, string>>;
}

export interface ConnectionLimits {
  readonly clock: SteadyClock;
  readonly connections: number;
  readonly connectTimeoutMs: number;
}

export type { KubeConfig };

type DispatcherOptions = ReturnType<KubeConfig["createDispatcherOptions"]>;

/**
 * Loads client-node's KubeConfig without its generated API, which we never call: 34 MB of memory and 0.15 s of start
 * (`npm run bench -- cold-start`; it has no lighter entry point). Bundles leave the generated API out by themselves.
 */
async function importKubeConfig(): Promise<typeof KubeConfig> {
  const hooks = registerHooks({
    resolve(specifier, context, nextResolve) {
      if (specifier === "./gen/index.js" && context.parentURL?.endsWith("/@kubernetes/client-node/dist/config.js")) {
        const source = "export const createConfiguration = undefined, ServerConfiguration = undefined;";
        return { url: `data:text/javascript,${encodeURIComponent(source)}`, format: "module", shortCircuit: true };
      }
      return nextResolve(specifier, context);
    },
  });
  try {
    const module = await import("@kubernetes/client-node/dist/config.js");
    return module.KubeConfig;
  } finally {
    hooks.deregister();
  }
}

/**
 * Loads a kubeconfig: the given file, else `$KUBECONFIG`, else the pod's service account, else `~/.kube/config`. Its current
 * context is the given one, if one is, and so is the API server's address.
 *
 * @throws Error when there is none, when it has no such context, or when that names no cluster.
 */
export async function loadConfiguration(
  path: string | undefined,
  context?: string,
  server?: string,
): Promise<KubeConfig> {
  const KubeConfig = await importKubeConfig();
  const configuration = new KubeConfig();
  if (path !== undefined) {
    configuration.loadFromFile(path);
  } else if (!process.env.KUBECONFIG && process.env.KUBERNETES_SERVICE_HOST && existsSync(serviceAccountToken)) {
    configuration.loadFromCluster();
  } else {
    configuration.loadFromDefault();
    if (configuration.getCurrentContext() === "loaded-context") {
      // client-node's last resort is http://localhost:8080, where nothing has listened for years.
      throw new Error("no kubeconfig: set KUBECONFIG, write ~/.kube/config, or run in a pod with a service account");
    }
  }
  if (context !== undefined) {
    const known = configuration.getContexts().map(({ name }) => name);
    if (!known.includes(context)) {
      throw new Error(`the kubeconfig has no context "${context}"; it has ${known.join(", ") || "none"}`);
    }
    configuration.setCurrentContext(context);
  }
  const cluster = configuration.getCurrentCluster();
  if (cluster === null) {
    throw new Error(`the kubeconfig's current context "${configuration.getCurrentContext()}" names no cluster`);
  }
  if (server !== undefined) {
    configuration.clusters = configuration.clusters.map((one) => (one === cluster ? { ...one, server } : one));
  }
  return configuration;
}

/** True for the service account of a pod: client-node makes a context of this name from its files. */
export function isOfPod(configuration: KubeConfig): boolean {
  return configuration.getCurrentContext() === "inClusterContext";
}

/** Keeps {@link Access} up to date: connections are pooled, and made anew only when certificates change. */
export class AccessProvider {
  readonly #configuration: KubeConfig;
  readonly #limits: ConnectionLimits;
  #current: Promise<Access> | undefined;
  /** What {@link current} last resolved to, unless it was forgotten. */
  #known: Access | undefined;
  #expiresMs = 0;
  #connectionKey: string | undefined;
  #pools: Pools | undefined;
  #tls: DispatcherOptions | undefined;

  constructor(configuration: KubeConfig, limits: ConnectionLimits) {
    this.#configuration = configuration;
    this.#limits = limits;
    const original = configuration.createDispatcherOptions.bind(configuration);
    // client-node asks this method how to connect, then would open a connection of its own; "none" keeps it from that.
    configuration.createDispatcherOptions = (cluster, agentOptions) => {
      const key = JSON.stringify([cluster?.server, cluster?.proxyUrl, agentOptions], (_, value) =>
        value instanceof Uint8Array ? Buffer.from(value).toString("latin1") : value,
      );
      if (key === this.#connectionKey) return { type: "none" };
      // client-node refuses plain HTTP unless told otherwise; to this machine nothing can be overheard (kubectl proxy).
      const options: DispatcherOptions =
        cluster !== null && isLoopback(cluster.server) ? { type: "none" } : original(cluster, agentOptions);
      this.#tls = options;
      this.#connectionKey = key;
      return options.type === "agent" ? { type: "none" } : options;
    };
  }

  /** Throws what client-node throws when credentials cannot be had: a missing file, a plugin that failed. */
  current(): Promise<Access> {
    const nowMs = this.#limits.clock.nowMs();
    if (this.#current === undefined || nowMs >= this.#expiresMs) {
      this.#expiresMs = nowMs + credentialsLifeMs;
      const authenticated = this.#authenticate();
      // A failure is not kept: the next call tries again.
      authenticated.catch(() => {
        this.#current = undefined;
      });
      this.#current = authenticated;
    }
    return this.#current;
  }

  /**
   * Forgets the credentials that the server has refused, and makes client-node read its token file or run its plugin again. Does
   * nothing if other credentials are in use by now, so that many calls that were refused together renew them once.
   */
  renew(refused: Access): void {
    const known = this.#known;
    if (refused.calls !== known?.calls || JSON.stringify(refused.headers) !== JSON.stringify(known.headers)) return;
    this.#current = undefined;
    this.#known = undefined;
    forgetCredentials(this.#configuration);
  }

  /** Ends every connection; calls and watches under way reject. */
  async close(): Promise<void> {
    await Promise.all(Object.values(this.#pools ?? {}).map((pool) => pool.destroy()));
  }

  async #authenticate(): Promise<Access> {
    const cluster = this.#configuration.getCurrentCluster();
    if (cluster === null) throw new Error("the kubeconfig names no cluster");
    const headers: Record<string, string> = {};
    let proxy: Dispatcher | undefined;
    const context = {
      setHeaderParam: (name: string, value: string) => {
        headers[name] = value.trim();
      },
      setDispatcher: (dispatcher: Dispatcher) => {
        proxy = dispatcher;
      },
    };
    await this.#configuration.applySecurityAuthentication(context as unknown as RequestContext);
    this.#connect(proxy);
    const { origin, pathname } = new URL(cluster.server);
    if (this.#pools === undefined) throw new Error("client-node made no connection");
    this.#known = { origin, pathPrefix: pathname.replace(/\/+$/, ""), headers, ...this.#pools };
    return this.#known;
  }

  /** Makes the pools when client-node has met new certificates. A proxy's connections are client-node's. */
  #connect(proxy: Dispatcher | undefined): void {
    const options = this.#tls;
    if (options === undefined) return;
    this.#tls = undefined;
    // Calls under way on the old connections may finish.
    for (const pool of Object.values(this.#pools ?? {})) void pool.close();
    const { connections, connectTimeoutMs } = this.#limits;
    const tls = options.type === "agent" ? (options.connect as Agent.Options["connect"] & object) : {};
    const shared: Agent.Options = {
      connect: { ...tls, keepAlive: true, keepAliveInitialDelay: 30_000, timeout: connectTimeoutMs },
      keepAliveTimeout: 60_000,
      // Every call has a deadline of its own, and every watch a limit on silence.
      headersTimeout: 0,
      bodyTimeout: 0,
      allowH2: false,
    };
    this.#pools = {
      calls: proxy ?? new Agent({ ...shared, connections }),
      aside: proxy ?? new Agent({ ...shared, connections: connectionsAside }),
      watches: proxy ?? new Agent(shared),
    };
  }
}

/**
 * client-node keeps the content of a token file for a minute, and the answer of a plugin until it expires, or for ever if it has
 * no expiry. It has no method to forget them: these are the fields of its FileAuth and ExecAuth.
 */
function forgetCredentials(configuration: KubeConfig): void {
  const { authenticators } = configuration as unknown as {
    readonly authenticators: readonly { token?: string | null; tokenCache?: object }[];
  };
  for (const authenticator of authenticators) {
    if ("token" in authenticator) authenticator.token = null;
    if ("tokenCache" in authenticator) authenticator.tokenCache = {};
  }
}

function isLoopback(server: string): boolean {
  const { protocol, hostname } = new URL(server);
  return protocol === "http:" && /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname);
}
