/** Limits the memory of the server, and says what holds the limit. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
export const mebibyte = 2 ** 20;

/** Room for memory of thousands of TLS connections that is writable but not resident, which was 36 MiB. */
const untouched = 64 * mebibyte;

/** A limit that holds until the process has ended. */
export interface Limit {
  /** What holds the limit, as one message. */
  readonly description: string;
  /** Removes what was made for it. */
  end(): Promise<void>;
}

export interface LimitOptions {
  readonly pid: number;
  readonly bytes: number;
  /** A control group that belongs to this process, or was delegated to it, in which a new one may be made. */
  readonly cgroup: string | undefined;
}

/**
 * Makes the kernel hold the process to this much resident memory: by a new group inside the given one, or else by a limit on
 * what it can write. If neither is possible, only the measurement counts. Without a given group none is made, because only a
 * group's owner may change it.
 *
 * RLIMIT_AS does not fit V8, which reserves far more than it uses. RLIMIT_DATA counts writable memory, including what malloc,
 * V8 and stacks have reserved and not touched. So it is set to the present size, plus what is left to the limit, plus {@link
 * untouched}. It ends a process that grows far beyond the limit; {@link memoryOf} shows whether the limit itself was kept.
 */
export async function limitMemory(options: LimitOptions): Promise<Limit> {
  const { pid, bytes, cgroup } = options;
  const mostMebibytes = `${Math.round(bytes / mebibyte)} MiB`;
  if (cgroup !== undefined) {
    const group = await limitByGroup(options, cgroup);
    return {
      description: `${mostMebibytes} by a cgroup in ${cgroup}: the kernel ends what goes beyond`,
      end: () => rmdir(group),
    };
  }
  const end = () => Promise.resolve();
  const { resident, writable } = await memoryOf(pid);
  const most = writable + Math.max(0, bytes - resident) + untouched;
  try {
    await run("prlimit", ["--pid", String(pid), `--data=${most}`]);
  } catch (error) {
    const [why] = (error as Error).message.split("\n");
    return { description: `${mostMebibytes}, measured and not held: ${why}`, end };
  }
  return {
    description: `${mostMebibytes} by what is resident at most, and prlimit --data ends what goes far beyond`,
    end,
  };
}

/** Version 2 of cgroups calls the file memory.max, version 1 memory.limit_in_bytes. Resolves to the new group's folder. */
async function limitByGroup({ pid, bytes }: LimitOptions, parent: string): Promise<string> {
  const group = await mkdtemp(join(parent, "sluice-attack-"));
  try {
    const file = existsSync(join(parent, "memory.limit_in_bytes")) ? "memory.limit_in_bytes" : "memory.max";
    await writeFile(join(group, file), String(bytes));
    await writeFile(join(group, "cgroup.procs"), String(pid));
    return group;
  } catch (error) {
    await rmdir(group).catch(() => undefined);
    throw new Error(`no limit can be set in ${parent}: ${(error as Error).message}`);
  }
}

/** Sizes in bytes. Throws if there is no such process, or no Linux. */
export async function memoryOf(pid: number): Promise<{ resident: number; mostResident: number; writable: number }> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  const field = (name: string): number => {
    const digits = new RegExp(`^${name}:\\s*(\\d+)`, "m").exec(status)?.[1];
    // A process that has just ended still has a file, but no memory.
    if (digits === undefined) throw new Error(`/proc/${pid} tells no ${name}`);
    return Number(digits) * 1024;
  };
  return { resident: field("VmRSS"), mostResident: field("VmHWM"), writable: field("VmData") };
}
