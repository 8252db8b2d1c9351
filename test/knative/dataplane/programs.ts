/**
 * Knative's own data plane as plain processes: the released programs, unchanged, told what Knative's controllers would
 * tell them. Of eventing: the adapter of ApiServerSources, the one of PingSources, the channel broker's ingress and filter,
 * the in-memory channels. Of serving: queue-proxy. What they read of the cluster is put there by `prepareEventing`;
 * the code that plays their controllers writes the statuses of Brokers, Triggers, channels and sources.
 */
import { readFile } from "node:fs/promises";
import { freePort } from "../../controlplane/ports.ts";
import { type DataPlane, pathOf } from "./assets.ts";
import { confine } from "./confinement.ts";
import { type Program, startProgram } from "./program.ts";
import {
  type ApiServerSource,
  adapterEnvironment,
  type Environment,
  type KnativeService,
  queueEnvironment,
  SYSTEM_NAMESPACE,
} from "./settings.ts";

export { type DataPlane, findBuilt, findDataPlane, skipWithoutDataPlane } from "./assets.ts";
export { prepareEventing } from "./preparation.ts";
export type { Program } from "./program.ts";
export type { ApiServerSource, KnativeService } from "./settings.ts";

/** What every program is started with. */
export interface Surroundings {
  readonly dataPlane: DataPlane;
  /** With what rights it speaks to the API server: the path of a kubeconfig. */
  readonly kubeconfig: string;
  /** A folder for logs, made when it is missing. */
  readonly logs: string;
}

/** A program that takes requests at `url`, which ends without a slash. */
export interface Listening extends Program {
  readonly port: number;
  readonly url: string;
}

export interface AdapterOptions {
  /** As it is rendered, in its namespace. */
  readonly source: ApiServerSource;
  /** The URL that events go to. */
  readonly sink: string;
}

/** Resolves when its watches stand: what changes from now on is sent. Rejects when the rights or the kinds are not there. */
export async function startAdapter(surroundings: Surroundings, { source, sink }: AdapterOptions): Promise<Program> {
  const { dataPlane, kubeconfig, logs } = surroundings;
  const profilingPort = await freePort();
  return startProgram({
    name: `apiserversource-${source.metadata.name}`,
    // The reflectors of client-go say at this level that they have listed; nothing else does.
    command: [pathOf(dataPlane, "apiserver_receive_adapter"), "-v=2"],
    env: { ...common(kubeconfig, profilingPort), ...adapterEnvironment(source, sink) },
    logs,
    ports: [profilingPort],
    isReady: (logged) => (logged.match(/Caches populated/g) ?? []).length >= source.spec.resources.length,
  });
}

/**
 * One process for the PingSources of all namespaces whose status is Ready. Resolves when it works on those that there are.
 * What is due meanwhile or while it does not run is never sent.
 */
export async function startPing({ dataPlane, kubeconfig, logs }: Surroundings): Promise<Program> {
  const profilingPort = await freePort();
  return startProgram({
    name: "pingsource-mt-adapter",
    command: [pathOf(dataPlane, "mtping"), "--disable-ha"],
    env: { ...common(kubeconfig, profilingPort), NAMESPACE: SYSTEM_NAMESPACE, K_SINK_TIMEOUT: "-1" },
    logs,
    ports: [profilingPort],
    isReady: (logged) => logged.includes("Started workers"),
  });
}

/** The server of channel brokers: takes the events of Broker NAME of namespace SPACE at `URL/SPACE/NAME`. */
export async function startIngress({ dataPlane, kubeconfig, logs }: Surroundings): Promise<Listening> {
  const [port, securePort, profilingPort] = [await freePort(), await freePort(), await freePort()];
  const program = await startProgram({
    name: "ingress",
    command: [pathOf(dataPlane, "ingress")],
    env: {
      ...common(kubeconfig, profilingPort),
      INGRESS_PORT: String(port),
      INGRESS_PORT_HTTPS: String(securePort),
    },
    logs,
    ports: [port, securePort, profilingPort],
    isReady: () => isHealthy(port),
  });
  return listening(program, port);
}

/** What decides events by a Trigger's filter and calls its subscriber: at `URL/triggers/NAMESPACE/NAME/UID`. */
export async function startFilter({ dataPlane, kubeconfig, logs }: Surroundings): Promise<Listening> {
  const [port, securePort, profilingPort] = [await freePort(), await freePort(), await freePort()];
  const program = await startProgram({
    name: "filter",
    command: [pathOf(dataPlane, "filter")],
    env: {
      ...common(kubeconfig, profilingPort),
      NAMESPACE: SYSTEM_NAMESPACE,
      FILTER_PORT: String(port),
      FILTER_PORT_HTTPS: String(securePort),
    },
    logs,
    ports: [port, securePort, profilingPort],
    isReady: () => isHealthy(port),
  });
  return listening(program, port);
}

export interface DispatcherOptions {
  /** Where it may connect to on this machine, besides the API server: of filter, ingress, subscribers, dead letter sinks. */
  readonly reaches: readonly number[];
}

/** In-memory channels: takes the events of channel NAME of namespace SPACE at `URL/SPACE/NAME`. Its own ports are fixed. */
export async function startDispatcher(surroundings: Surroundings, options: DispatcherOptions): Promise<Listening> {
  const { dataPlane, kubeconfig, logs } = surroundings;
  const { command, ports } = await confine(dataPlane, "channel_dispatcher", {
    listens: { http: 8080, https: 8443 },
    reaches: [await apiServerPort(kubeconfig), ...options.reaches],
  });
  const profilingPort = await freePort();
  const program = await startProgram({
    name: "imc-dispatcher",
    command,
    // With a NAMESPACE it would see the channels of that namespace only.
    env: { ...common(kubeconfig, profilingPort), MAX_IDLE_CONNS: "1000", MAX_IDLE_CONNS_PER_HOST: "1000" },
    logs,
    ports: [...Object.values(ports), profilingPort],
    // It answers probes before it knows of the channels that there are.
    isReady: async (logged) => logged.includes("Started workers") && (await isHealthy(ports.http)),
  });
  return listening(program, ports.http);
}

export interface QueueProxyOptions {
  /** As it is rendered, in its namespace: `containerConcurrency`, time-outs and the readiness probe are taken from it. */
  readonly service: KnativeService;
  /** Where the function listens, on 127.0.0.1. It may start later. */
  readonly userPort: number;
  /** Of the log. Default: of the service. */
  readonly name?: string;
}

/** A queue-proxy in front of one process of a function. */
export interface QueueProxy extends Listening {
  /** GET `adminUrl/wait-for-drain` is answered when a drain is over: what Serving has kubelet ask before it ends a function. */
  readonly adminUrl: string;
  /**
   * Whether the function is ready, as queue-proxy finds by the probe of its Service. Without a `periodSeconds` it tries for 10 s
   * before it says no.
   */
  isReady(): Promise<boolean>;
}

/** Resolves when it takes requests, whether the function is ready or not: until it is, they are answered 502. */
export async function startQueueProxy(
  { dataPlane, logs }: Pick<Surroundings, "dataPlane" | "logs">,
  { service, userPort, name = service.metadata.name }: QueueProxyOptions,
): Promise<QueueProxy> {
  const { command, ports } = await confine(dataPlane, "queue", {
    listens: { main: 8012, admin: 8022, metrics: 9090 },
    reaches: [userPort],
  });
  const program = await startProgram({
    name: `queue-proxy-${name}`,
    command,
    env: queueEnvironment(service, userPort, 8012),
    logs,
    ports: Object.values(ports),
    // It answers this one by itself, without a request to the function.
    isReady: () => isHealthy(ports.main, { "k-network-probe": "probe", "k-network-hash": "sluice" }, "sluice-test"),
  });
  return {
    ...listening(program, ports.main),
    adminUrl: `http://127.0.0.1:${ports.admin}`,
    isReady: () => isHealthy(ports.main, { "k-network-probe": "queue" }),
  };
}

/** What all programs of eventing are told. The port of their profiler is not everybody's 8008. */
function common(kubeconfig: string, profilingPort: number): Environment {
  return {
    KUBECONFIG: kubeconfig,
    SYSTEM_NAMESPACE,
    POD_NAME: "sluice-test",
    CONTAINER_NAME: "sluice-test",
    CONFIG_LOGGING_NAME: "config-logging",
    CONFIG_OBSERVABILITY_NAME: "config-observability",
    METRICS_DOMAIN: "knative.dev/eventing",
    PROFILING_PORT: String(profilingPort),
  };
}

function listening(program: Program, port: number): Listening {
  return { ...program, port, url: `http://127.0.0.1:${port}` };
}

/** What a probe finds; false when the program does not answer. */
async function isHealthy(
  port: number,
  headers: Readonly<Record<string, string>> = {},
  agent = "kube-probe/1",
): Promise<boolean> {
  try {
    const answer = await fetch(`http://127.0.0.1:${port}/healthz`, { headers: { "user-agent": agent, ...headers } });
    await answer.body?.cancel();
    return answer.ok;
  } catch {
    return false;
  }
}

/** The port of the API server that a kubeconfig names. Throws when it names none of this machine. */
async function apiServerPort(kubeconfig: string): Promise<number> {
  const [, port] = /server"?: ?"?https:\/\/127\.0\.0\.1:(\d+)/.exec(await readFile(kubeconfig, "utf8")) ?? [];
  if (port === undefined) throw new Error(`${kubeconfig} names no server on 127.0.0.1`);
  return Number(port);
}
