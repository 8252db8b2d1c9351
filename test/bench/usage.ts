/** What a process has used, as the Linux kernel counts it. */
import { readFile } from "node:fs/promises";

export interface Usage {
  /** User and system time of all threads since the start. */
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
  return parseUsage(stat ?? "", status ?? "", io ?? "");
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
