/**
 * The cost of each test file in its last run on this machine. For a file that has not run here, `costs.json` beside this file
 * has its cost on two processors, so that the long files begin first on a new machine.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/** The cost of a file. */
export interface Cost {
  /** Duration of its last run. */
  readonly tookMs: number;
  /** Largest measured share of one processor that it and its children used, from 0; undefined: not measured. */
  readonly share: number | undefined;
}

export type Costs = Map<string, Cost>;

/** Share of a processor that a run of a file used; undefined if its process did not report its use. */
function shareOf(cpuMs: number | undefined, tookMs: number): number | undefined {
  return cpuMs === undefined ? undefined : cpuMs / Math.max(1, tookMs);
}

/**
 * The cost of a file after one more run. On a busy machine a file takes longer and its share looks smaller, so the largest
 * share counts: a smaller one would let more files run at once, and would then look smaller still.
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

/** A quicker file finds its place whenever it begins. */
const leastMs = 1_000;

/** Writes the table for new machines: only files that take a while, in tenths of seconds and hundredths of a processor. */
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
