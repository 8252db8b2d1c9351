/**
 * What each test file cost the last time on this machine. Where that is not known, the table in `costs.json` beside this file
 * says what it cost on two processors: so the long files begin first on a machine that has never run them.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/** What a file cost. */
export interface Cost {
  /** How long it took the last time. */
  readonly tookMs: number;
  /** The largest part of one processor that it and its children were seen to take, from 0 on; undefined: not measured. */
  readonly share: number | undefined;
}

export type Costs = Map<string, Cost>;

/** Part of a processor that a run of a file took; undefined where its process did not say what it used. */
function shareOf(cpuMs: number | undefined, tookMs: number): number | undefined {
  return cpuMs === undefined ? undefined : cpuMs / Math.max(1, tookMs);
}

/**
 * What is known of a file after one more run. On a busy machine a file takes longer and its share looks smaller, so the
 * largest share counts: a smaller one would let more files run at once, and then look smaller still.
 */
export function costAfter(before: Cost | undefined, tookMs: number, cpuMs: number | undefined): Cost {
  const shares = [before?.share, shareOf(cpuMs, tookMs)].filter((share) => share !== undefined);
  return { tookMs, share: shares.length === 0 ? undefined : Math.max(...shares) };
}

export function readCosts(path: string): Costs {
  try {
    const read: unknown = JSON.parse(readFileSync(path, "utf8"));
    return new Map(Object.entries(read ?? {}).filter((entry): entry is [string, Cost] => isCost(entry[1])));
  } catch {
    return new Map();
  }
}

function isCost(value: unknown): value is Cost {
  const { tookMs, share } = (value ?? {}) as Partial<Cost>;
  return typeof tookMs === "number" && (share === undefined || typeof share === "number");
}

export function writeCosts(path: string, costs: Costs): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, JSON.stringify(Object.fromEntries(costs)));
}

/** A quicker file finds its place wherever it begins. */
const leastMs = 1_000;

/** The table for machines that know nothing: what takes a while, in tenths of seconds and hundredths of a processor. */
export function writeTable(path: string, costs: Costs, files: ReadonlySet<string>): void {
  const rows = [...costs].filter(([file, { tookMs }]) => files.has(file) && tookMs >= leastMs);
  const lines = rows
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([file, { tookMs, share }]) => {
      const rounded = { tookMs: Math.round(tookMs / 100) * 100, share: share === undefined ? undefined : round(share) };
      return `  ${JSON.stringify(file)}: ${JSON.stringify(rounded).replaceAll(/[:,]/g, "$& ").replace("{", "{ ").replace("}", " }")}`;
    });
  writeFileSync(path, `{\n${lines.join(",\n")}\n}\n`);
}

const round = (share: number): number => Math.round(share * 100) / 100;
