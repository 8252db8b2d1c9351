/** How much memory the server may have, and who holds it to that. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
export const mebibyte = 2 ** 20;

/** Of thousands of TLS connections: by 36 MiB more became writable than resident, and there is room for others. */
const untouched = 64 * mebibyte;

/** A limit that holds until the process has ended. */
export interface Limit {
  /** Who holds it, as one message. */
  readonly description: string;
  /** Takes away what was made for it. */
  end(): Promise<void>;
}

export interface LimitOptions {
  readonly pid: number;
  readonly bytes: number;
  /** A group of this process's own, or one that was delegated to it, in which a group may be made. */
  readonly cgroup: string | undefined;
}

/**
 * Has the kernel hold the process to so much resident memory, by a group where one was given, or else by a limit on what it can
 * write to. Where there is neither, only what is measured counts. No group is made where none was given: a group has one owner,
 * and only the owner may change it.
 *
 * RLIMIT_AS does not fit V8, which reserves far more than it takes. RLIMIT_DATA counts what is writable, with what malloc, V8 and
 * stacks have reserved and not touched. So it is set to what is there now, what is lacking to the limit, and {@link untouched}
 * besides: it ends who runs away, and whether the limit itself was kept tells {@link memoryOf}.
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

/** Version 2 of cgroups calls it memory.max, version 1 memory.limit_in_bytes. Resolves to the new group's folder. */
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

/** In bytes. Throws when there is no such process, or no Linux. */
export async function memoryOf(pid: number): Promise<{ resident: number; mostResident: number; writable: number }> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  const field = (name: string): number => {
    const digits = new RegExp(`^${name}:\\s*(\\d+)`, "m").exec(status)?.[1];
    // One that has just ended is there still, and has no memory.
    if (digits === undefined) throw new Error(`/proc/${pid} tells no ${name}`);
    return Number(digits) * 1024;
  };
  return { resident: field("VmRSS"), mostResident: field("VmHWM"), writable: field("VmData") };
}
