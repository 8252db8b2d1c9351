import { mkdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { eventually } from "../../controlplane/api.ts";
import { releasePorts } from "../../controlplane/ports.ts";
import { type End, launch, tail } from "../../controlplane/processes.ts";

/** One of Knative's programs, ready when one has it. It ends when this process does, however this one ends. */
export interface Program {
  readonly name: string;
  readonly pid: number;
  /** The path of its log, appended to by every program of the same name. */
  readonly log: string;
  readonly ended: Promise<End>;
  /** SIGKILL: it has no time to say goodbye. Resolves when it is gone. */
  kill(): Promise<End>;
  /** SIGTERM, and SIGKILL after `graceMs` (default 60000: queue-proxy drains for 30 s). Resolves when it is gone. */
  stop(graceMs?: number): Promise<End>;
}

export interface ProgramOptions {
  /** Of the log, too: `NAME.log`. */
  readonly name: string;
  readonly command: readonly [string, ...string[]];
  /** All of its environment. */
  readonly env: Readonly<Record<string, string>>;
  /** A folder, made when it is missing. */
  readonly logs: string;
  /** The ports that were reserved for it: they are released when it has ended. */
  readonly ports: readonly number[];
  /** Asked until it answers true. Gets what was logged since the start. */
  readonly isReady: (logged: string) => boolean | Promise<boolean>;
}

const READY_TIMEOUT_MS = 60_000;
const TAIL_LINES = 15;

/** Resolves when the program is ready. Rejects when it ends first or is not ready in a minute, with the end of its log. */
export async function startProgram(options: ProgramOptions): Promise<Program> {
  const { name, command, env, logs, ports, isReady } = options;
  await mkdir(logs, { recursive: true });
  const log = join(logs, `${name}.log`);
  const { size: from } = await stat(log).catch(() => ({ size: 0 }));
  const [file, ...args] = command;
  const launched = launch(file, args, { env, output: { file: log } });
  void launched.ended.then(() => releasePorts(...ports));
  const ready = eventually(`${name} ready`, READY_TIMEOUT_MS, async () => {
    if (launched.end() !== undefined) return "ended";
    const logged = (await readFile(log)).subarray(from).toString("utf8");
    return (await isReady(logged)) ? "ready" : undefined;
  });
  const state = await ready.catch((error: Error) => error.message);
  if (state !== "ready") {
    const { summary } = await launched.stop(0);
    throw new Error(`${name} did not start (${state}, ${summary}). The end of ${log}:\n${await tail(log, TAIL_LINES)}`);
  }
  return {
    name,
    pid: launched.pid ?? 0,
    log,
    ended: launched.ended,
    kill: () => {
      launched.signal("SIGKILL");
      return launched.ended;
    },
    stop: (graceMs = 60_000) => launched.stop(graceMs),
  };
}
