/** The attacked server: in a process of its own, as `npm start` runs it, beside a fake cluster over HTTP. */
import { mkdtemp, readdir, readFile, readlink, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { reservations } from "../../functions/shared/annotations/table.ts";
import type { LeaseObject } from "../../functions/shared/kubernetes/cluster.ts";
import manifest from "../../package.json" with { type: "json" };
import { eventually } from "../controlplane/api.ts";
import { type End, type Launched, launch } from "../controlplane/processes.ts";
import { createAuthority } from "../support/certificates.ts";
import { kubeconfigText } from "../support/kubeconfig.ts";
import { groupName, namespace, serveGroup } from "../support/served-group.ts";
import { parseScript } from "../support/start-script.ts";
import { type Limit, limitMemory, memoryOf } from "./limit.ts";
import type { Endpoint } from "./wire.ts";

export interface TargetOptions {
  /** Limit of its memory; undefined: none. */
  readonly limitBytes: number | undefined;
  readonly cgroup: string | undefined;
  readonly settings: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

export interface Target {
  readonly pid: number;
  /** Port for events, health and metrics. */
  readonly plain: Endpoint;
  /** Port for reviews. */
  readonly tls: Endpoint;
  readonly namespace: string;
  /** A pod of a group of three zones of eight pods, two of which may be down in one zone. */
  podName(zone: "a" | "b" | "c", ordinal: number): string;
  /** The zones with a pod that the group's ledger has reserved. */
  reservedZones(): string[];
  /** Number of sockets that the server has open, including those of its own calls. */
  sockets(): Promise<number>;
  /** Number of requests for a single pod at the API server so far. */
  podLookUps(): number;
  readonly limit: string;
  /** Size of its log so far, in bytes. */
  logBytes(): Promise<number>;
  /** Lines of its log with the level `error`. */
  errors(): Promise<string[]>;
  /** What V8 and Node wrote to the log about the server's end. */
  lastLines(): Promise<string>;
  /** How the server ended; undefined while it runs. */
  end(): End | undefined;
  /** Asks the server to end. Resolves to how it ended, after removing everything. */
  stop(): Promise<End>;
}

const startTimeoutMs = 30_000;
const graceMs = 15_000;
const everyMs = 25;
const repository = resolve(import.meta.dirname, "../..");
const wanted = { seed: 1, pods: 8, drop: 0 };

/** Starts everything. Resolves when the server is ready and limited. Otherwise throws, with the end of its log. */
export async function startTarget({ limitBytes, cgroup, settings, signal }: TargetOptions): Promise<Target> {
  const stage = await serveGroup(wanted);
  const folder = await mkdtemp(join(tmpdir(), "sluice-attack-"));
  const log = join(folder, "log");
  const authority = await createAuthority();
  const environment = { ...(await writeFiles(folder, stage.served.url, authority)), ...settings };
  const { assignments, words } = parseScript(manifest.scripts.start);
  const env = { PATH: process.env.PATH, HOME: folder, ...assignments, ...environment };
  const server = launch(process.execPath, words.slice(1), { cwd: repository, env, output: { file: log } });
  let limit: Limit | undefined;
  const stop = async (): Promise<End> => {
    const end = await server.stop(graceMs);
    await limit?.end();
    await stage.close();
    await rm(folder, { recursive: true, force: true });
    return end;
  };
  try {
    const ports = await eventually("the server ready", startTimeoutMs, () => readyPorts(server, log, signal));
    signal.throwIfAborted();
    const { pid } = server;
    if (server.end() !== undefined) throw new Error("the server has ended");
    if (pid === undefined) throw new Error("the server has no process id");
    limit = limitBytes === undefined ? undefined : await limitMemory({ pid, bytes: limitBytes, cgroup });
    return {
      pid,
      plain: { port: ports.plain },
      tls: { port: ports.tls, ca: authority.cert },
      namespace,
      podName: (zone, ordinal) => `${groupName}-zone-${zone}-${ordinal}`,
      reservedZones: () => zonesIn(stage.world.store.list("leases").items),
      sockets: () => socketsOf(pid),
      podLookUps: () =>
        stage.served
          .requests()
          .filter(({ verb, resource }) => verb === "get" && resource === "pods")
          .reduce((sum, { count }) => sum + count, 0),
      limit: limit?.description ?? "no limit: its memory is only measured",
      logBytes: async () => (await stat(log)).size,
      errors: async () => (await readFile(log, "utf8")).split("\n").filter((line) => /^\{"level":"error"/.test(line)),
      lastLines: async () =>
        /^FATAL ERROR: .*|^#.*: .*memory.*/m.exec(await readFile(log, "utf8"))?.[0] ?? "without a word",
      end: () => server.end(),
      stop,
    };
  } catch (error) {
    const outcome = (await readFile(log, "utf8")).split("\n").slice(-10).join("\n");
    const end = await stop();
    throw new Error(`${(error as Error).message} (${end.summary}):\n${outcome}`);
  }
}

/** Writes a kubeconfig and a certificate, and returns the settings that name them. */
async function writeFiles(
  folder: string,
  url: string,
  authority: Awaited<ReturnType<typeof createAuthority>>,
): Promise<Record<string, string>> {
  const { cert, key } = await authority.issue();
  const paths = { KUBECONFIG: "kubeconfig", TLS_CERT_FILE: "tls.crt", TLS_KEY_FILE: "tls.key" };
  const texts = { KUBECONFIG: kubeconfigText(url, {}, namespace), TLS_CERT_FILE: cert, TLS_KEY_FILE: key };
  const names = Object.keys(paths) as (keyof typeof paths)[];
  await Promise.all(names.map((name) => writeFile(join(folder, paths[name]), texts[name], { mode: 0o600 })));
  const files = Object.fromEntries(names.map((name) => [name, join(folder, paths[name])]));
  return { ...files, NAMESPACE: namespace, PORT: "0", TLS_PORT: "0", SHUTDOWN_DELAY: "0" };
}

function zonesIn(leases: readonly LeaseObject[]): string[] {
  const texts = leases.map(({ metadata }) => metadata.annotations?.[reservations.key] ?? "{}");
  return texts.flatMap((text) => Object.keys(JSON.parse(text)).map((name) => name.replace(`${groupName}-zone-`, "")));
}

/** An ended process has none. */
async function socketsOf(pid: number): Promise<number> {
  const folder = `/proc/${pid}/fd`;
  const names = await readdir(folder).catch(() => []);
  const links = await Promise.all(names.map((name) => readlink(join(folder, name)).catch(() => "")));
  return links.filter((link) => link.startsWith("socket:")).length;
}

async function readyPorts(
  server: Launched,
  log: string,
  signal: AbortSignal,
): Promise<{ plain: number; tls: number } | undefined> {
  // Nothing is left to wait for.
  if (signal.aborted || server.end() !== undefined) return { plain: 0, tls: 0 };
  const lines = (await readFile(log, "utf8")).split("\n").flatMap((line) => parse(line));
  const port = lines.find((line) => line.port !== undefined)?.port;
  const tls = lines.find((line) => line.tlsPort !== undefined)?.tlsPort;
  if (port === undefined || tls === undefined) return undefined;
  const answer = await fetch(`http://127.0.0.1:${port}/readyz`);
  await answer.arrayBuffer();
  return answer.ok ? { plain: port, tls } : undefined;
}

function parse(line: string): { port?: number; tlsPort?: number }[] {
  try {
    return [JSON.parse(line)];
  } catch {
    // The last line may be incomplete.
    return [];
  }
}

/** The most resident memory since the server's start by the kernel's count, in bytes. Reads it until the signal is aborted. */
export async function mostResident(pid: number, ended: AbortSignal): Promise<number> {
  let most = 0;
  for (let isLast = false; !isLast; ) {
    isLast = ended.aborted;
    // An ended process is no longer read: its last value counts.
    const memory = await memoryOf(pid).catch(() => ({ mostResident: 0 }));
    most = Math.max(most, memory.mostResident);
    if (!isLast) await delay(everyMs, undefined, { signal: ended }).catch(() => undefined);
  }
  return most;
}
