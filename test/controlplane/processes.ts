import { type ChildProcess, execFileSync, type SpawnOptions, spawn } from "node:child_process";
import { accessSync, closeSync, constants, openSync } from "node:fs";
import { open } from "node:fs/promises";
import { delimiter, join } from "node:path";

/** How a process ended. */
export interface End {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Set when it never started. */
  readonly error?: Error;
  /** "exit code 1" or "signal SIGKILL". */
  readonly summary: string;
}

/** How a child is bound to the life of this process: see `leash`. */
export type Leash = "setpriv" | "sh";

export interface LaunchOptions {
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  /** A path takes both outputs, appended; "pipe" keeps them in memory for `printed()`. */
  readonly output: "pipe" | { readonly file: string };
  /** Default: what this machine has. */
  readonly leash?: Leash;
}

/** A process that ends when this one does, however this one ends. */
export interface Launched {
  readonly pid: number | undefined;
  readonly ended: Promise<End>;
  /** Undefined while it runs. */
  end(): End | undefined;
  printed(): { stdout: string; stderr: string };
  signal(signal: NodeJS.Signals): void;
  /** Asks with SIGTERM and, after `graceMs`, ends it with SIGKILL. Resolves when it is gone. */
  stop(graceMs: number): Promise<End>;
}

/**
 * Runs a command in the background and, on the pipe at descriptor 3, notices that the parent is gone. The signals that
 * the whole process group gets are for the command. So the shell and its watcher ignore them, but only from when the
 * command was forked: a signal that a shell has caught and not yet handled is lost to what it forks in that moment.
 */
const SHELL_LEASH = `
"$@" 3<&- &
child=$!
trap '' TERM INT HUP
(cat <&3 >/dev/null 2>&1; kill -KILL "$child" 2>/dev/null) &
watcher=$!
exec 3<&-
wait "$child"
code=$?
kill -KILL "$watcher" 2>/dev/null
exit "$code"
`;

let machineLeash: Leash | undefined;

function leashOfMachine(): Leash {
  machineLeash ??= process.platform === "linux" && onPath("setpriv") ? "setpriv" : "sh";
  return machineLeash;
}

function onPath(command: string): boolean {
  return (process.env.PATH ?? "").split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, command), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/**
 * The command line that ends `command` when this process dies, even by SIGKILL: on Linux the kernel does it, elsewhere a shell
 * that waits for a pipe to close.
 */
function leashed(leash: Leash, command: string, args: readonly string[]): [string, string[]] {
  if (leash === "setpriv") return ["setpriv", ["--pdeathsig", "KILL", "--", command, ...args]];
  return ["sh", ["-c", SHELL_LEASH, command, command, ...args]];
}

/** Starts a command. A command that does not exist is an `End` with an error, or exit code 127. */
export function launch(command: string, args: readonly string[], options: LaunchOptions): Launched {
  const leash = options.leash ?? leashOfMachine();
  const [file, all] = leashed(leash, command, args);
  const log = options.output === "pipe" ? undefined : openSync(options.output.file, "a");
  const sink = log ?? "pipe";
  // A group of its own, because Ctrl-C in a terminal must reach the supervisor, which ends its children in order.
  const spawnOptions: SpawnOptions = {
    detached: true,
    stdio: ["ignore", sink, sink, leash === "sh" ? "pipe" : "ignore"],
  };
  if (options.cwd !== undefined) spawnOptions.cwd = options.cwd;
  if (options.env !== undefined) spawnOptions.env = options.env;
  const child = spawn(file, all, spawnOptions);
  if (log !== undefined) closeSync(log);
  return handle(child, command);
}

function handle(child: ChildProcess, command: string): Launched {
  const printed = { stdout: "", stderr: "" };
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    printed.stdout += text;
  });
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    printed.stderr += text;
  });
  let end: End | undefined;
  const ended = new Promise<End>((resolve) => {
    const finish = (found: End): void => {
      end ??= found;
      resolve(end);
    };
    child.once("error", (error) => finish({ code: null, signal: null, error, summary: error.message }));
    // The shell's watcher may outlive the shell until the pipe that it reads is closed.
    child.once("exit", () => child.stdio[3]?.destroy());
    // "close" comes after the last output was read; both leashes report 127 for an unknown command.
    child.once("close", (code, signal) => {
      const summary = signal ? `signal ${signal}` : `exit code ${code}`;
      const error = code === 127 ? new Error(`${command}: no such command`) : undefined;
      finish({ code, signal, summary, ...(error ? { error } : {}) });
    });
  });
  const signal = (name: NodeJS.Signals): void => {
    if (end || child.pid === undefined) return;
    try {
      process.kill(-child.pid, name);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  };
  const stop = async (graceMs: number): Promise<End> => {
    signal("SIGTERM");
    const timer = setTimeout(() => signal("SIGKILL"), graceMs);
    const found = await ended;
    clearTimeout(timer);
    return found;
  };
  return { pid: child.pid, ended, end: () => end, printed: () => printed, signal, stop };
}

/** The command lines of a process's running children, in the order of their numbers. */
export function childrenOf(pid: number): string[] {
  const lines = execFileSync("ps", ["-A", "-o", "ppid=", "-o", "stat=", "-o", "args="], { encoding: "utf8" }).split(
    "\n",
  );
  const columns = lines.flatMap((line) => [/^\s*(\d+)\s+(\S+)\s+(.*)$/.exec(line) ?? []]);
  const its = columns.filter(([, parent, state = ""]) => Number(parent) === pid && !state.startsWith("Z"));
  return its.map(([, , , command = ""]) => command).filter((command) => !command.startsWith("ps -A "));
}

const LONGEST_LINE = 300;

/** The last `lines` lines of a file, each cut to a length that a terminal can show, or a note that there is none. */
export async function tail(path: string, lines: number): Promise<string> {
  try {
    const file = await open(path);
    try {
      const { size } = await file.stat();
      const length = Math.min(size, 64 * 1024);
      const { buffer } = await file.read(Buffer.alloc(length), 0, length, size - length);
      const last = buffer.toString("utf8").trimEnd().split("\n").slice(-lines);
      return last.map((line) => line.slice(0, LONGEST_LINE)).join("\n");
    } finally {
      await file.close();
    }
  } catch (error) {
    return `(${(error as Error).message})`;
  }
}
