import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Api, type ApiAccess } from "./api.ts";
import { ensureAssets, findAssets } from "./assets.ts";
import type { Log } from "./build.ts";
import { apiServerCommand, type Controllers, controllerManagerCommand, etcdCommand } from "./commands.ts";
import {
  type AuditedResources,
  type Layout,
  layoutOf,
  type Tokens,
  writeConfiguration,
  writeKubeconfig,
} from "./configuration.ts";
import { Kubelet } from "./kubelet.ts";
import { freePort, isFree, releasePorts, reservePort } from "./ports.ts";
import { type LostProcess, Supervisor } from "./supervisor.ts";

export { ensureAssets, ensurePeer, findAssets } from "./assets.ts";

export interface ControlPlaneOptions {
  /** Default: a temporary folder, removed at the end. A folder of an earlier start goes on with its data. */
  readonly directory?: string;
  /** Of the API server. Default or 0: one that is free on 127.0.0.1. It is reserved until the end. */
  readonly port?: number;
  /**
   * Where the API server listens. Default: 127.0.0.1. Clients in network namespaces of their own reach the address of a bridge,
   * and so do all others on this machine.
   */
  readonly address?: string;
  /** Default 1000. */
  readonly podsReadyAfterMs?: number;
  /** Default 0. */
  readonly podsGoneAfterMs?: number;
  /** Node objects, node-1 and on. Default 1. */
  readonly nodes?: number;
  /** False: pods are bound, and kubelets of the test's own play them. Default true. */
  readonly playsPods?: boolean;
  /**
   * Default: workloads. `all` also takes pods off nodes that are gone or tainted, and binds and attaches volumes. With
   * `node-health` a Node also has to be kept Ready by renewals of its Lease, and so it has with `node-health-by-default`.
   */
  readonly controllers?: Controllers;
  /** An AdmissionConfiguration for the API server: how it speaks to webhooks, among others. Default: none. */
  readonly admissionConfiguration?: string;
  /** Has the API server limit requests by priority and fairness, as clusters do. Default: no limit. */
  readonly fairness?: boolean;
  /** Whose writes the audit log holds with their answers, so that it tells what revision each of them made. Default: none. */
  readonly auditAnswersOf?: readonly AuditedResources[];
  /** Default: `findAssets()`, or else `ensureAssets()`. */
  readonly assets?: string;
  /** Is told what a person who waits wants to know. Default: nothing is reported. */
  readonly log?: Log;
  /** Ends a start that is under way, and everything it has started. */
  readonly signal?: AbortSignal;
}

/** A running etcd, API server, controller manager and kubelet. All paths are absolute. */
export interface ControlPlane extends ApiAccess {
  readonly directory: string;
  readonly kubeconfig: string;
  /** https://ADDRESS:PORT */
  readonly url: string;
  /** The administrator's bearer token. */
  readonly token: string;
  readonly caFile: string;
  /** One line of JSON for each request; see audit.ts. */
  readonly auditLog: string;
  /** The folder with the binaries. */
  readonly assets: string;
  readonly kubectl: string;
  readonly kubelet: Kubelet;
  /** Process ids by name, of those that run now. */
  pids(): Record<string, number>;
  /** Resolves when a process ends by itself. */
  readonly lost: Promise<LostProcess>;
  /**
   * Ends the API server and starts it on the same port with the same data. Default: at once, by SIGKILL.
   * Controllers and other clients reconnect after back-offs of their own.
   */
  restartApiServer(options?: { downMs?: number; signal?: NodeJS.Signals }): Promise<void>;
  /** Default: by SIGKILL. SIGTERM may take 5 s: it waits for clients. */
  stopApiServer(signal?: NodeJS.Signals): Promise<void>;
  /** Resolves when it is ready. */
  startApiServer(): Promise<void>;
  /** Ends every process. May be called twice. */
  stop(): Promise<void>;
}

const START_TIMEOUT_MS = 60_000;
const GRACE_MS = 5_000;

interface Parts {
  readonly layout: Layout;
  readonly tokens: Tokens;
  readonly assets: string;
  readonly address: string;
  readonly port: number;
  readonly etcdPort: number;
  readonly etcdPeerPort: number;
  readonly supervisor: Supervisor;
  readonly signal: AbortSignal | undefined;
  readonly admissionConfiguration: string | undefined;
  readonly fairness: boolean;
}

/**
 * Starts a control plane. Resolves when it is ready, with its controllers and its kubelet. Its processes end with this process,
 * however that ends. If a process does not start, it ends all that it started and throws an error with the end of the process's
 * log.
 */
export async function startControlPlane(options: ControlPlaneOptions = {}): Promise<ControlPlane> {
  const assets = options.assets ?? (await findAssets()) ?? (await ensureAssets(options.log ?? (() => {})));
  const ports = [await choosePort(options.port), await freePort(), await freePort()] as const;
  const temporary = options.directory === undefined;
  const directory = temporary
    ? await mkdtemp(join(tmpdir(), "sluice-controlplane-"))
    : resolve(options.directory ?? "");
  const layout = layoutOf(directory);
  const supervisor = new Supervisor(layout.logs);
  const cleanUp = async (): Promise<void> => {
    // SIGKILL loses only data that no process reads any more.
    await supervisor.endAll(temporary ? "SIGKILL" : "SIGTERM", GRACE_MS);
    releasePorts(...ports);
    if (temporary) await rm(directory, { recursive: true, force: true });
  };
  try {
    await refuseWhenInUse(layout);
    const tokens = await writeConfiguration(layout, options.auditAnswersOf);
    const [port, etcdPort, etcdPeerPort] = ports;
    const { signal, admissionConfiguration, fairness = false, address = "127.0.0.1" } = options;
    const settings = { signal, admissionConfiguration, fairness, address };
    const parts = { layout, tokens, assets, port, etcdPort, etcdPeerPort, supervisor, ...settings };
    await startEtcd(parts);
    await startApiServer(parts);
    return await assemble(parts, options, cleanUp);
  } catch (error) {
    await cleanUp();
    throw error;
  }
}

function urlOf({ address, port }: Parts): string {
  return `https://${address}:${port}`;
}

async function choosePort(wanted: number | undefined): Promise<number> {
  if (!wanted) return freePort();
  if (await reservePort(wanted)) return wanted;
  throw new Error(`port ${wanted} of 127.0.0.1 is in use: choose another one, or 0 for any that is free`);
}

/** Two control planes on the same data would wait for each other for ever. */
async function refuseWhenInUse(layout: Layout): Promise<void> {
  const text = await readFile(layout.state, "utf8").catch(() => undefined);
  if (text === undefined) return;
  const { pid, url } = JSON.parse(text) as { pid: number; url: string };
  if (isAlive(pid) && !(await isFree(Number(new URL(url).port)))) {
    throw new Error(`${layout.directory} is in use by process ${pid}, at ${url}`);
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

async function startEtcd({ assets, layout, etcdPort, etcdPeerPort, supervisor, signal }: Parts): Promise<void> {
  supervisor.start("etcd", etcdCommand(assets, layout, { client: etcdPort, peer: etcdPeerPort }));
  const ask = async (): Promise<boolean> => (await fetch(`http://127.0.0.1:${etcdPort}/health`)).ok;
  await supervisor.waitFor("etcd", START_TIMEOUT_MS, ask, signal);
}

async function startApiServer(parts: Parts): Promise<void> {
  const { assets, layout, tokens, supervisor, signal, admissionConfiguration } = parts;
  const { file, args } = apiServerCommand(assets, layout, parts);
  const configured =
    admissionConfiguration === undefined ? [] : [`--admission-control-config-file=${admissionConfiguration}`];
  supervisor.start("kube-apiserver", { file, args: [...args, ...configured] });
  const access = { url: urlOf(parts), token: tokens.admin, caFile: layout.caFile };
  const ask = async (): Promise<boolean> => {
    const api = await Api.open(access, { userAgent: "sluice-test-supervisor", connections: 1 });
    try {
      const answer = await api.send("GET", "/readyz");
      await answer.body.dump();
      return answer.statusCode === 200;
    } finally {
      await api.close();
    }
  };
  await supervisor.waitFor("kube-apiserver", START_TIMEOUT_MS, ask, signal);
}

/** A service account in the default namespace is the first object that the controllers create. */
async function startControllerManager(parts: Parts, controllers: Controllers, api: Api): Promise<void> {
  const { assets, layout, supervisor, signal } = parts;
  supervisor.start("kube-controller-manager", controllerManagerCommand(assets, layout, controllers));
  const path = "/api/v1/namespaces/default/serviceaccounts/default";
  const ask = async (): Promise<boolean> => {
    await api.get(path);
    return true;
  };
  await supervisor.waitFor("kube-controller-manager", START_TIMEOUT_MS, ask, signal);
}

async function assemble(
  parts: Parts,
  options: ControlPlaneOptions,
  cleanUp: () => Promise<void>,
): Promise<ControlPlane> {
  const { layout, tokens, supervisor, assets } = parts;
  const { caFile, directory, kubeconfig, auditLog } = layout;
  const access = { url: urlOf(parts), token: tokens.admin, caFile };
  await writeKubeconfig(kubeconfig, access.url, tokens.admin, caFile);
  await writeKubeconfig(layout.controllerManagerKubeconfig, access.url, tokens.controllerManager, caFile);
  const kubelet = await Kubelet.start({ ...access, token: tokens.kubelet }, options);
  let stopping: Promise<void> | undefined;
  const stop = (): Promise<void> => {
    stopping ??= kubelet.stop().then(cleanUp);
    return stopping;
  };
  try {
    const api = await Api.open(access, { userAgent: "sluice-test-supervisor", connections: 1 });
    try {
      await startControllerManager(parts, options.controllers ?? "workloads", api);
    } finally {
      await api.close();
    }
    const state = { pid: process.pid, ...access, kubeconfig, auditLog, assets };
    await writeFile(layout.state, `${JSON.stringify(state, undefined, 2)}\n`, { mode: 0o600 });
  } catch (error) {
    await stop();
    throw error;
  }
  const stopApiServer = (signal: NodeJS.Signals = "SIGKILL"): Promise<void> =>
    supervisor.end("kube-apiserver", signal, GRACE_MS);
  return {
    ...access,
    directory,
    kubeconfig,
    auditLog,
    assets,
    kubectl: join(assets, "kubectl"),
    kubelet,
    lost: supervisor.lost,
    pids: () => supervisor.pids(),
    stopApiServer,
    startApiServer: () => startApiServer({ ...parts, signal: undefined }),
    restartApiServer: async ({ downMs = 0, signal = "SIGKILL" } = {}) => {
      await stopApiServer(signal);
      await delay(downMs);
      await startApiServer({ ...parts, signal: undefined });
    },
    stop,
  };
}

/** The access to a control plane that another process runs in `directory`. Throws if none was started there. */
export async function connectTo(directory: string): Promise<ApiAccess & { kubeconfig: string; auditLog: string }> {
  return JSON.parse(await readFile(layoutOf(resolve(directory)).state, "utf8"));
}
