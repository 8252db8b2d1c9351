/** Who is measured, and how each is started as its users start it. */
import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { Api, type ApiAccess, ApiError, eventually } from "../controlplane/api.ts";
import { freePort } from "../controlplane/ports.ts";
import { type Launched, launch, tail } from "../controlplane/processes.ts";

export const contenderNames = ["sluice", "peer-tuned", "peer-shipped"] as const;
export type ContenderName = (typeof contenderNames)[number];

/** A running contender. */
export interface Contender {
  readonly name: ContenderName;
  readonly pid: number;
  /** What its user agent begins with. */
  readonly userAgent: string;
  /** Throws, with the end of its log, when it has ended. */
  check(): Promise<void>;
  /** Asks it to end, and ends it if it does not. */
  stop(): Promise<void>;
}

export interface StartOptions {
  readonly access: ApiAccess & { readonly kubeconfig: string };
  readonly peerBinary: string | undefined;
  readonly namespace: string;
  /** The rollout group that it is to roll. */
  readonly group: string;
  /** Takes what it prints. */
  readonly logFile: string;
  /** More flags for the node that runs Sluice. */
  readonly nodeFlags: readonly string[];
  readonly signal: AbortSignal;
}

/**
 * How long a contender has been at rest before its rollout. Sluice permits nothing for 10 s under a new ledger, and a second
 * more because creation times are whole seconds; the peer waits as long, so that the control plane is as quiet for both.
 */
export const restMs = 12_000;

/** The peer's settings beyond its defaults: looks every 100 ms, without a limit on its requests. */
export const tunedFlags = ["-reconcile.interval", "100ms", "-kubernetes.client-qps", "0"];

const startTimeoutMs = 60_000;
const graceMs = 30_000;
const repository = resolve(import.meta.dirname, "../..");

interface Command {
  readonly file: string;
  readonly args: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

/** Starts a contender; it is ready, and has been for {@link restMs}, when this resolves. */
export async function startContender(name: ContenderName, options: StartOptions): Promise<Contender> {
  const port = await freePort();
  const isSluice = name === "sluice";
  const command = isSluice ? await sluiceCommand(options, port) : peerCommand(name, options, port);
  const child = launch(command.file, command.args, {
    cwd: repository,
    env: { ...process.env, ...command.environment },
    output: { file: options.logFile },
  });
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
    await rest(options.signal);
    await check();
  } catch (error) {
    await stop();
    throw error;
  }
  if (child.pid === undefined) throw new Error(`${name} has no process id`);
  return { name, pid: child.pid, userAgent: isSluice ? "sluice/" : "rollout-operator", check, stop };
}

async function sluiceCommand({ access, namespace, nodeFlags }: StartOptions, port: number): Promise<Command> {
  const manifest = JSON.parse(await readFile(resolve(repository, "package.json"), "utf8"));
  const { assignments, words } = parseScript(manifest.scripts.start);
  const [file, ...args] = words;
  return {
    // npm puts the node of node_modules first on the path; this process runs on the same one.
    file: file === "node" ? process.execPath : (file ?? ""),
    args: [...nodeFlags, ...args],
    environment: { ...assignments, KUBECONFIG: access.kubeconfig, NAMESPACE: namespace, PORT: String(port) },
  };
}

/** Cuts a script of package.json into what it sets and what it runs. It may hold no quotes and no shell syntax. */
export function parseScript(script: string): { assignments: Record<string, string>; words: string[] } {
  if (/["'$&|;<>\\`]/.test(script)) throw new Error(`the script ${JSON.stringify(script)} needs a shell`);
  const words = script.split(/\s+/).filter(Boolean);
  const assignments: Record<string, string> = {};
  for (let match = /^(\w+)=(.*)$/.exec(words[0] ?? ""); match !== null; match = /^(\w+)=(.*)$/.exec(words[0] ?? "")) {
    assignments[match[1] as string] = match[2] as string;
    words.shift();
  }
  return { assignments, words };
}

function peerCommand(name: ContenderName, { access, peerBinary, namespace }: StartOptions, port: number): Command {
  if (peerBinary === undefined) throw new Error("the peer was not built");
  const args = [
    ...["-kubernetes.api-url", access.url, "-kubernetes.config-file", access.kubeconfig],
    ...["-kubernetes.namespace", namespace],
    ...["-server.port", String(port), ...(name === "peer-tuned" ? tunedFlags : [])],
  ];
  return { file: peerBinary, args, environment: {} };
}

/** Sluice has decided on a group for the first time when it has made the group's ledger. */
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

async function rest(signal: AbortSignal): Promise<void> {
  await new Promise<void>((done, fail) => {
    const timer = setTimeout(done, restMs);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      fail(signal.reason);
    });
  });
}

/** The version that is pinned in the peer's module. */
export async function peerVersion(): Promise<string> {
  const path = resolve(dirname(import.meta.dirname), "controlplane/peer/go.mod");
  return /rollout-operator (v\S+)/.exec(await readFile(path, "utf8"))?.[1] ?? "unknown";
}
