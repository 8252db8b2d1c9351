/** What the pods of all machines have written, and whether two machines ever ran a pod of one name at a time (A1). */
import { readFileSync } from "node:fs";

/** One process of a pod, from its first line to its last. */
export interface PodRun {
  /** Namespace and name. */
  readonly pod: string;
  readonly uid: string;
  readonly node: string;
  readonly bootId: string;
  /** Of the monotonic clock, which all machines share, in milliseconds. */
  readonly firstMs: number;
  readonly lastMs: number;
}

/** One line of a pod. A pod appends each with one write. */
export function lineOf(run: Omit<PodRun, "firstMs" | "lastMs">, process: string, ms: number): string {
  return `${run.pod} ${run.uid} ${run.node} ${run.bootId} ${process} ${ms.toFixed(1)}\n`;
}

/** Throws if a line is not as a pod writes it. A last line without its end is left out. */
export function parseJournal(text: string): PodRun[] {
  const runs = new Map<string, PodRun>();
  const lines = text
    .slice(0, text.lastIndexOf("\n") + 1)
    .split("\n")
    .slice(0, -1);
  for (const line of lines) {
    const [pod = "", uid = "", node = "", bootId = "", process = "", ms = "", ...more] = line.split(" ");
    const atMs = Number.parseFloat(ms);
    if (more.length > 0 || !Number.isFinite(atMs)) throw new Error(`a journal holds ${JSON.stringify(line)}`);
    const key = `${pod} ${node} ${bootId} ${process}`;
    const { firstMs = atMs } = runs.get(key) ?? {};
    runs.set(key, { pod, uid, node, bootId, firstMs, lastMs: atMs });
  }
  return [...runs.values()];
}

export function readJournal(path: string): PodRun[] {
  return parseJournal(readFileSync(path, "utf8"));
}

/** Each pair of runs of one pod name whose times overlap on two nodes, for people. */
export function overlapsIn(runs: readonly PodRun[]): string[] {
  return runs.flatMap((one, at) =>
    runs
      .slice(at + 1)
      .filter((other) => other.pod === one.pod && other.node !== one.node)
      .filter((other) => one.firstMs <= other.lastMs && other.firstMs <= one.lastMs)
      .map((other) => `A1: ${one.pod} ran on ${one.node} and on ${other.node} at one time`),
  );
}
