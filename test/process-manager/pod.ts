/**
 * Plays the pod of a database: its volumes, the kubelet's way to replace files, the shipped runner, and a process that keeps a
 * journal.
 */
import { spawnSync } from "node:child_process";
import { existsSync, globSync, readFileSync } from "node:fs";
import { chmod, chown, mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  parseReport,
  type RunnerReport,
  type RunnerState,
} from "../../functions/advance-process-restart/process-manager/decide-state.ts";
import { eventually } from "../controlplane/api.ts";
import { type Launched, launch } from "../controlplane/processes.ts";
import type { RunnerShell } from "./shells.ts";

export const runnerScript = join(
  import.meta.dirname,
  "../../functions/advance-process-restart/process-manager/runner.sh",
);

/** Longer than anything takes on a busy machine: a test that waits so long fails. */
export const patienceMs = 20_000;

const withUser = process.getuid?.() === 0 ? [] : ["--user", "--map-root-user"];
const container = [...withUser, "--pid", "--fork", "--kill-child", "--mount-proc"];
/** Whether this machine can play a container, whose PID 1 the runner is. */
export const hasContainers = spawnSync("unshare", [...container, "true"]).status === 0;

/** Writes when it starts and stops. Its variables make it bad. */
const database = `
echo "start $$ $(cat "$SLUICE_FILES/current/db.yml" 2>/dev/null)" >>"$JOURNAL"
for signal in HUP USR1 USR2; do trap "echo 'signal $signal' >>\\"$JOURNAL\\"" "$signal"; done
if [ -n "\${STUBBORN:-}" ]; then trap 'echo "ignored $$" >>"$JOURNAL"' TERM
else trap 'echo "stop $$" >>"$JOURNAL"; exit "\${EXIT_CODE:-0}"' TERM; fi
if [ -n "\${HELPER:-}" ]; then
  (trap '' TERM; while [ ! -e "$HELPER" ]; do sleep 0.1; done; echo "helper ends" >>"$JOURNAL") &
fi
while [ ! -e "\${CRASH:-/nowhere}" ]; do sleep 0.1; done
exit "\${CRASH_CODE:-1}"
`;

/** The exit code of a container. */
export function endOf(launched: Launched): Promise<number> {
  return eventually("the end of a container", patienceMs, async () => launched.end()?.code ?? undefined);
}

export interface PodOptions {
  /** Files of the Secret; undefined: no Secret is mounted. Default: one file. */
  readonly files?: Readonly<Record<string, string | Buffer>> | undefined;
  /** For the runner, the process and its hooks. */
  readonly environment?: Readonly<Record<string, string>>;
  /** The process, as a command line. Default: a script that writes into the journal when it starts and stops. */
  readonly command?: readonly string[] | undefined;
  /** The group of its volumes, as with an `fsGroup`. Default: that of this process. */
  readonly group?: number | undefined;
}

export class PlayedPod {
  readonly folder: string;
  readonly #shell: RunnerShell;
  readonly #environment: Readonly<Record<string, string>>;
  readonly #command: readonly string[] | undefined;
  readonly #launched: Launched[] = [];
  #mounts = 0;

  private constructor(folder: string, shell: RunnerShell, { environment = {}, command }: PodOptions) {
    this.folder = folder;
    this.#shell = shell;
    this.#environment = environment;
    this.#command = command;
  }

  static async make(shell: RunnerShell, options: PodOptions = {}): Promise<PlayedPod> {
    const pod = new PlayedPod(await mkdtemp(join(tmpdir(), "sluice-pod-")), shell, options);
    for (const made of ["state", "files"]) await mkdir(pod.path(made));
    if (options.group !== undefined) await pod.#share(options.group);
    await writeFile(pod.path("journal"), "");
    await writeFile(pod.path("database.sh"), database);
    if (!("files" in options)) await pod.mount({ "db.yml": "first" });
    else if (options.files !== undefined) await pod.mount(options.files);
    return pod;
  }

  path(...parts: string[]): string {
    return join(this.folder, ...parts);
  }

  /** What is made in its volumes belongs to the group. */
  async #share(group: number): Promise<void> {
    await chmod(this.folder, 0o755);
    for (const made of ["state", "files"]) {
      await chown(this.path(made), -1, group);
      await chmod(this.path(made), 0o2770);
    }
  }

  /** As the kubelet does: the files come in a folder of their own, and one rename replaces all of them. */
  async mount(files: Readonly<Record<string, string | Buffer>>): Promise<void> {
    const mounted = this.path("mounted");
    await mkdir(mounted, { recursive: true });
    const name = `..2026_${++this.#mounts}`;
    await mkdir(join(mounted, name));
    for (const [key, bytes] of Object.entries(files)) await writeFile(join(mounted, name, key), bytes);
    await symlink(name, join(mounted, "..data_tmp"));
    await rename(join(mounted, "..data_tmp"), join(mounted, "..data"));
    for (const key of Object.keys(files)) {
      if (!existsSync(join(mounted, key))) await symlink(join("..data", key), join(mounted, key));
    }
  }

  /** Settings of the runner, which the server shares. */
  get volumes(): Readonly<Record<string, string>> {
    return {
      SLUICE_STATE: this.path("state"),
      SLUICE_FILES: this.path("files"),
      SLUICE_MOUNTED: this.path("mounted"),
      JOURNAL: this.path("journal"),
    };
  }

  /** Starts a container. `isContainer`: the runner is PID 1. */
  start({ isContainer = false, args = [] as readonly string[], environment = {} } = {}): Launched {
    const [file = "sh", ...more] = this.#shell.command;
    const env = { PATH: this.#shell.system, ...this.volumes, ...this.#environment, ...environment };
    const assignments = Object.entries(env).map(([name, value]) => `${name}=${value}`);
    const command = args.length > 0 ? args : (this.#command ?? [file, ...more, this.path("database.sh")]);
    const line = ["-i", ...assignments, file, ...more, runnerScript, ...command];
    const [program, all] = isContainer ? ["unshare", [...container, "env", ...line]] : ["env", line];
    const launched = launch(program, all, { output: { file: this.path("log") } });
    this.#launched.push(launched);
    return launched;
  }

  /** The runner by its number outside. */
  async runnerPid(launched: Launched): Promise<number> {
    return eventually("a child of unshare", patienceMs, async () => {
      const children = readFileSync(`/proc/${launched.pid}/task/${launched.pid}/children`, "utf8").trim();
      return children === "" ? undefined : Number(children);
    });
  }

  /** Gives the runner a command, as the server does. */
  async command(line: string): Promise<void> {
    await writeFile(this.path("state", "command.new"), `${line}\n`);
    await rename(this.path("state", "command.new"), this.path("state", "command"));
  }

  report(): RunnerReport | undefined {
    if (!existsSync(this.path("state", "runner"))) return undefined;
    return parseReport(readFileSync(this.path("state", "runner"), "utf8"));
  }

  /** The first report in this state, after the command of this epoch if one is given. */
  reported(state: RunnerState, epoch?: number): Promise<RunnerReport> {
    return eventually(`${state} ${epoch ?? ""}; ${this.log()}`, patienceMs, async () => {
      const report = this.report();
      const isWanted = report?.state === state && (epoch === undefined || report.handledEpoch === epoch);
      return isWanted ? report : undefined;
    });
  }

  /** The lines of the process, without its numbers. */
  async journal(): Promise<string[]> {
    const lines = (await readFile(this.path("journal"), "utf8")).split("\n").filter(Boolean);
    return lines.map((line) => line.replace(/^(start|stop|ignored) \d+ ?/, "$1 ").trim());
  }

  journaled(line: string, times = 1): Promise<true> {
    return eventually(`${times} times ${line}`, patienceMs, async () => {
      const found = (await this.journal()).filter((one) => one === line);
      return found.length >= times ? true : undefined;
    });
  }

  /** Waits until the runner has done all that it does each second so many times more. */
  async beats(more: number): Promise<void> {
    const count = () => Number(readFileSync(this.path("files", "beat"), "utf8"));
    const from = count();
    await eventually(`${more} beats`, patienceMs, async () => count() > from + more || undefined);
  }

  log(): string {
    return existsSync(this.path("log")) ? readFileSync(this.path("log"), "utf8") : "";
  }

  /** Writes a script into the pod, and gives the text of a hook that runs it. */
  async hook(name: string, text: string): Promise<string> {
    await writeFile(this.path(name), text);
    await chmod(this.path(name), 0o755);
    return `. ${this.path(name)}`;
  }

  /** Ends all that it has started, also what outlived its runner. Its folder stands in each command line. */
  async remove(): Promise<void> {
    for (const launched of this.#launched) launched.signal("SIGKILL");
    await Promise.all(this.#launched.map(({ ended }) => ended));
    for (const pid of globSync("[0-9]*", { cwd: "/proc" })) {
      try {
        if (readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(this.folder)) process.kill(Number(pid), "SIGKILL");
      } catch {
        // It has ended.
      }
    }
    await rm(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Runs the body with a pod, and removes the pod. */
export async function withPod(
  shell: RunnerShell,
  body: (pod: PlayedPod) => Promise<void>,
  options: PodOptions = {},
): Promise<void> {
  const pod = await PlayedPod.make(shell, options);
  try {
    await body(pod);
  } finally {
    await pod.remove();
  }
}
