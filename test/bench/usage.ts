/** What a process has used, as the Linux kernel counts it. */
import { readdir, readFile } from "node:fs/promises";

export interface Usage {
  /** User and system time of all threads since the start; to the nanosecond, where the kernel keeps it so. */
  readonly cpuSeconds: number;
  /** Resident now, and at most since the start. */
  readonly residentBytes: number;
  readonly peakResidentBytes: number;
  /** Taken in by read calls, of sockets and of files; network bytes as they came, encrypted. */
  readonly bytesRead: number;
}

/** The unit of CPU times in /proc: USER_HZ, which is 100 on every Linux that Node runs on. */
const ticksPerSecond = 100;

/** Throws when there is no such process, or no Linux. */
export async function usageOf(pid: number): Promise<Usage> {
  const [stat, status, io] = await Promise.all(
    ["stat", "status", "io"].map((file) => readFile(`/proc/${pid}/${file}`, "utf8")),
  );
  const usage = parseUsage(stat ?? "", status ?? "", io ?? "");
  return { ...usage, cpuSeconds: (await exactCpuSeconds(pid)) ?? usage.cpuSeconds };
}

/**
 * Of the threads that run; undefined where the kernel does not say. A rollout takes Sluice some 25 ticks: one more or less would
 * be what is searched for. What a thread used that has ended since is missing: those of V8 and of Go stay.
 */
async function exactCpuSeconds(pid: number): Promise<number | undefined> {
  try {
    const threads = await readdir(`/proc/${pid}/task`);
    const texts = await Promise.all(threads.map((thread) => readFile(`/proc/${pid}/task/${thread}/schedstat`, "utf8")));
    const nanoseconds = texts.map((text) => Number(text.split(" ")[0]));
    const sum = nanoseconds.reduce((total, one) => total + one, 0);
    return sum > 0 ? sum / 1e9 : undefined;
  } catch {
    return undefined;
  }
}

/** Reads the texts of /proc/PID/stat, status and io. Throws when a number is missing. */
export function parseUsage(stat: string, status: string, io: string): Usage {
  // The command's name, in parentheses, may hold anything. After it, utime and stime are fields 14 and 15.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const ticks = Number(fields[11]) + Number(fields[12]);
  if (Number.isNaN(ticks)) throw new Error("/proc tells no CPU time");
  return {
    cpuSeconds: ticks / ticksPerSecond,
    residentBytes: field(status, "VmRSS") * 1024,
    peakResidentBytes: field(status, "VmHWM") * 1024,
    bytesRead: field(io, "rchar"),
  };
}

function field(text: string, name: string): number {
  const digits = new RegExp(`^${name}:\\s*(\\d+)`, "m").exec(text)?.[1];
  if (digits === undefined) throw new Error(`/proc tells no ${name}`);
  return Number(digits);
}
