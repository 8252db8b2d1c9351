/** What a process has used by the count of the Linux kernel. */
import { readdir, readFile } from "node:fs/promises";

export interface Usage {
  /** User and system time of all threads since the start, to the nanosecond if the kernel keeps that. */
  readonly cpuSeconds: number;
  /** Resident memory now, and its peak since the start. */
  readonly residentBytes: number;
  readonly peakResidentBytes: number;
  /** Bytes from read calls on sockets and files; network bytes as they came, encrypted. */
  readonly bytesRead: number;
}

/** The unit of CPU times in /proc: USER_HZ, which is 100 on every Linux that Node runs on. */
const ticksPerSecond = 100;

/** Throws if there is no such process, or no Linux. */
export async function usageOf(pid: number): Promise<Usage> {
  const [stat, status, io] = await Promise.all(
    ["stat", "status", "io"].map((file) => readFile(`/proc/${pid}/${file}`, "utf8")),
  );
  const usage = parseUsage(stat ?? "", status ?? "", io ?? "");
  return { ...usage, cpuSeconds: (await exactCpuSeconds(pid)) ?? usage.cpuSeconds };
}

/**
 * Processor time of the running threads; undefined if the kernel does not report it. A rollout takes Sluice some 25 ticks, so
 * one more or less would hide a difference. The time of threads that have ended is missing; those of V8 and of Go stay.
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

/** Reads the texts of /proc/PID/stat, status and io. Throws if a number is missing. */
export function parseUsage(stat: string, status: string, io: string): Usage {
  // The name of the command, in parentheses, may contain anything. After it, utime and stime are fields 14 and 15.
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
