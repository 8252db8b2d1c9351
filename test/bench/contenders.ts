/** The measured programs, and how each is started as its users start it. */
import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Api, type ApiAccess, ApiError, eventually } from "../controlplane/api.ts";
import { freePort, releasePorts } from "../controlplane/ports.ts";
import { type Launched, launch, tail } from "../controlplane/processes.ts";
import { namedBy } from "../support/pod-names.ts";
import type { Shipped } from "./shipped.ts";

/**
 * `oracle` is no program: it evicts without a webhook, knows at once which pod is Ready, and takes part in the storm only.
 * `sluice-refusing` lets no eviction wait for its turn.
 */
export const contenderNames = ["sluice", "sluice-refusing", "peer-tuned", "peer-shipped", "oracle"] as const;
/** Contenders that take part only in benchmarks of evictions. */
export const ofEvictions: readonly string[] = ["oracle", "sluice-refusing"] satisfies (typeof contenderNames)[number][];
/** The Sluice of another checkout, which `--against` names. */
export const against = "sluice-against" as const;
export type ContenderName = (typeof contenderNames)[number] | typeof against;

/** A running contender. */
export interface Contender {
  readonly name: ContenderName;
  readonly pid: number;
  /** Prefix of its user agent. */
  readonly userAgent: string;
  /** https://127.0.0.1:PORT for reviews; undefined if it was started without a certificate. */
  readonly reviewsUrl: string | undefined;
  /** Throws, with the end of its log, if it has ended. */
  check(): Promise<void>;
  /** Asks it to end, and kills it if it does not. */
  stop(): Promise<void>;
}

export interface StartOptions {
  readonly access: ApiAccess & { readonly kubeconfig: string };
  /** Address at which it asks the API server, if it is another one. */
  readonly through?: { readonly url: string; readonly kubeconfig: string } | undefined;
  /** Each Sluice that takes part, by name. */
  readonly shipped: ReadonlyMap<ContenderName, Shipped>;
  readonly peerBinary: string | undefined;
  readonly namespace: string;
  /** The rollout group that it must handle. */
  readonly group: string;
  /** File for its output. */
  readonly logFile: string;
  /** More flags for the Node that runs Sluice. */
  readonly nodeFlags: readonly string[];
  /** Files with its certificate and key for reviews; undefined: it answers none. */
  readonly pair: { readonly certFile: string; readonly keyFile: string } | undefined;
  /** More settings for Sluice. */
  readonly settings?: Readonly<Record<string, string>> | undefined;
  /** How it resolves the names of pods; absent: it calls none. */
  readonly pods?: PodNames | undefined;
  /** Time for which it rests after it is ready. */
  readonly restMs: number;
  readonly signal: AbortSignal;
}

/** A substitute for the cluster's DNS: `NODE_OPTIONS` for Sluice, and a file that becomes /etc/hosts for the peer. */
export interface PodNames {
  readonly nodeOptions: string;
  readonly hostsFile: string;
}

/** Settings with which the peer reconciles every 100 ms, without a limit on its requests. */
export const tunedFlags = ["-reconcile.interval", "100ms", "-kubernetes.client-qps", "0"];

const startTimeoutMs = 60_000;
const graceMs = 30_000;
const repository = resolve(import.meta.dirname, "../..");

interface Command {
  readonly file: string;
  readonly args: readonly string[];
  /** Folder in which it is started. */
  readonly directory: string;
  readonly environment: Readonly<Record<string, string>>;
}

/** Starts a contender. Resolves when it has been ready for `restMs`. */
export async function startContender(name: ContenderName, options: StartOptions): Promise<Contender> {
  if (name === "oracle") throw new Error("the oracle is no program that could be started");
  const port = await freePort();
  const tlsPort = await freePort();
  const ports = { port, tlsPort };
  const shipped = options.shipped.get(name);
  if (shipped === undefined && !name.startsWith("peer-")) throw new Error(`${name} was not built`);
  const isSluice = shipped !== undefined;
  const command = isSluice ? sluiceCommand(name, shipped, options, ports) : peerCommand(name, options, ports);
  const child = launch(command.file, command.args, {
    cwd: command.directory,
    env: { ...process.env, ...command.environment },
    output: { file: options.logFile },
  });
  void child.ended.then(() => releasePorts(port, tlsPort));
  const stop = async (): Promise<void> => {
    await child.stop(graceMs);
  };
  const check = () => refuseEnded(name, child, options.logFile);
  try {
    await eventually(`${name} ready`, startTimeoutMs, async () => {
      options.signal.throwIfAborted();
      if (child.end() !== undefined) return true;
      return (await (isSluice ? hasLedger(options) : isReady(port))) ? true : undefined;
    });
    await check();
    await rest(options);
    await check();
  } catch (error) {
    await stop();
    throw error;
  }
  if (child.pid === undefined) throw new Error(`${name} has no process id`);
  const reviewsUrl = options.pair === undefined ? undefined : `https://127.0.0.1:${tlsPort}`;
  return { name, pid: child.pid, userAgent: isSluice ? "sluice/" : "rollout-operator", reviewsUrl, check, stop };
}

interface Ports {
  readonly port: number;
  readonly tlsPort: number;
}

function sluiceCommand(
  name: ContenderName,
  { environment, flags, start }: Shipped,
  options: StartOptions,
  ports: Ports,
): Command {
  const { access, through = access, namespace, nodeFlags, pair, pods } = options;
  const tls = pair && { TLS_PORT: String(ports.tlsPort), TLS_CERT_FILE: pair.certFile, TLS_KEY_FILE: pair.keyFile };
  const waits = name === "sluice-refusing" ? { EVICTION_WAIT: "0" } : {};
  const settings = {
    ...{ KUBECONFIG: through.kubeconfig, NAMESPACE: namespace, PORT: String(ports.port), SHUTDOWN_DELAY: "0" },
    ...{ ...tls, ...options.settings, ...waits },
  };
  return {
    file: process.execPath,
    args: [...flags, ...nodeFlags, start],
    directory: repository,
    environment: { ...environment, ...settings, ...(pods && { NODE_OPTIONS: pods.nodeOptions }) },
  };
}

function peerCommand(name: ContenderName, options: StartOptions, { port, tlsPort }: Ports): Command {
  const { access, through = access, peerBinary, namespace, pair, pods } = options;
  if (peerBinary === undefined) throw new Error("the peer was not built");
  const tls = pair && [
    ...["-server-tls.enabled", "-server-tls.port", String(tlsPort)],
    ...["-server-tls.cert-file", pair.certFile, "-server-tls.key-file", pair.keyFile],
    ...["-server-tls.self-signed-cert.enabled=false", "-webhooks.update-ca-bundle=false"],
  ];
  const args = [
    ...["-kubernetes.api-url", through.url, "-kubernetes.config-file", through.kubeconfig],
    ...["-kubernetes.namespace", namespace],
    ...["-server.port", String(port), ...(name === "peer-tuned" ? tunedFlags : [])],
    ...(tls ?? []),
    // As in its manifests: without this flag it writes the StatefulSet during the StatefulSet's own update.
    ...(pods === undefined ? [] : ["-use-zone-tracker"]),
  ];
  const command = { file: peerBinary, args, directory: repository, environment: {} };
  return pods === undefined ? command : { ...command, ...namedBy(pods.hostsFile, peerBinary, args) };
}

/** Sluice has decided about a group for the first time when it has created the group's ledger. */
async function hasLedger({ access, namespace, group }: StartOptions): Promise<boolean> {
  const api = await Api.open(access, { userAgent: "sluice-test-bench", connections: 1 });
  try {
    await api.get(`/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/sluice-${group}`);
    return true;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return false;
    throw error;
  } finally {
    await api.close();
  }
}

async function isReady(port: number): Promise<boolean> {
  const answer = await fetch(`http://127.0.0.1:${port}/ready`);
  await answer.arrayBuffer();
  return answer.ok;
}

async function refuseEnded(name: ContenderName, child: Launched, logFile: string): Promise<void> {
  const end = child.end();
  if (end !== undefined) throw new Error(`${name} ended (${end.summary}):\n${await tail(logFile, 10)}`);
}

async function rest({ restMs, signal }: StartOptions): Promise<void> {
  await delay(restMs, undefined, { signal }).catch(() => signal.throwIfAborted());
}

/** The version that the peer's module pins. */
export async function peerVersion(): Promise<string> {
  const path = resolve(dirname(import.meta.dirname), "controlplane/peer/go.mod");
  return /rollout-operator (v\S+)/.exec(await readFile(path, "utf8"))?.[1] ?? "unknown";
}
