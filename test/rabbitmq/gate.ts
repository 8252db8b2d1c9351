/** Runs the stop gate as a container's preStop hook does, with files in place of a pod's mounts. */
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type Launched, launch } from "../controlplane/processes.ts";

export const SCRIPT = join(import.meta.dirname, "../../functions/mark-skip-label/stop-gate/stop-gate.sh");

/** The files of a pod, in one folder. */
export interface PodFiles {
  readonly folder: string;
  /** The file to which the label is projected. */
  readonly marker: string;
  /** Plays the container's log. */
  readonly log: string;
  /** Plays /dev/termination-log. */
  readonly report: string;
  remove(): Promise<void>;
}

export async function makePodFiles(): Promise<PodFiles> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-stop-gate-"));
  const [info, log, report] = [join(folder, "pod-info"), join(folder, "log"), join(folder, "termination-log")];
  await mkdir(info);
  await writeFile(log, "");
  await writeFile(report, "");
  const remove = () => rm(folder, { recursive: true, force: true });
  return { folder, marker: join(info, "skipPreStopChecks"), log, report, remove };
}

export interface GateEnd {
  readonly code: number | null;
  /** The first word of its report: passed, skip-marker, and so on. */
  readonly outcome: string;
  readonly report: string;
  /** Its log without the times. */
  readonly lines: readonly string[];
  /** Time from its start to its end. */
  readonly tookMs: number;
}

export interface GateOptions {
  readonly pod: PodFiles;
  /** The shell and its arguments. */
  readonly shell: readonly string[];
  /** The environment of the gate, besides the paths of the pod's own files; undefined removes one of these. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Time after which a gate is killed, so that a test fails instead of waiting for ever, in milliseconds. Default 60,000. */
  readonly mostMs?: number;
}

/** A running gate. */
export class Gate {
  readonly #pod: PodFiles;
  readonly #child: Launched;
  readonly ended: Promise<GateEnd>;

  constructor({ pod, shell, environment, mostMs = 60_000 }: GateOptions) {
    this.#pod = pod;
    const [file = "sh", ...args] = shell;
    const startedMs = performance.now();
    const env = {
      STOP_GATE_SKIP_FILES: pod.marker,
      STOP_GATE_LOG: pod.log,
      STOP_GATE_REPORT: pod.report,
      ...environment,
    };
    // The program that starts the gate needs a PATH of its own: the gate's may contain only what the gate needs.
    const assignments = Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : `${name}=${value}`));
    this.#child = launch("env", ["-i", ...assignments, file, ...args, SCRIPT], { output: "pipe" });
    const killing = setTimeout(() => void this.kill(), mostMs);
    this.ended = this.#child.ended.then(async ({ code }) => {
      clearTimeout(killing);
      const tookMs = performance.now() - startedMs;
      const report = (await readFile(pod.report, "utf8")).trim();
      const outcome = /^stop-gate: ([a-z-]+): /.exec(report)?.[1] ?? `no report: ${JSON.stringify(this.printed())}`;
      return { code, outcome, report, lines: await this.lines(), tookMs };
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  isRunning(): boolean {
    return this.#child.end() === undefined;
  }

  printed(): string {
    const { stdout, stderr } = this.#child.printed();
    return stdout + stderr;
  }

  /** The lines of the gate in the container's log. */
  async lines(): Promise<string[]> {
    const text = await readFile(this.#pod.log, "utf8");
    return text.split("\n").flatMap((line) => /^\S+Z stop-gate: (.*)$/.exec(line)?.[1] ?? []);
  }

  /** Resolves to the first line that matches. Throws after `timeoutMs`, or when the gate ends without one. */
  async reported(pattern: RegExp, timeoutMs: number): Promise<string> {
    const deadlineMs = performance.now() + timeoutMs;
    for (;;) {
      const ended = !this.isRunning();
      const lines = await this.lines();
      const line = lines.find((one) => pattern.test(one));
      if (line !== undefined) return line;
      const late = performance.now() > deadlineMs;
      if (ended || late) {
        const why = ended ? "ended" : `ran for ${timeoutMs} ms`;
        throw new Error(`the gate ${why} and never said ${pattern}, but:\n${lines.join("\n")}\n${this.printed()}`);
      }
      await delay(50);
    }
  }

  /** Ends it if it runs, with SIGTERM first, so that it can remove its files. */
  kill(): Promise<unknown> {
    return this.#child.stop(3_000);
  }
}
