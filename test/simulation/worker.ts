/** One process of a search: runs the seeds that it is given and says what it found. */
import { removedRules } from "./rules-evictions.ts";
import { simulate } from "./simulation.ts";

export interface WorkerOrder {
  readonly first: number;
  readonly count: number;
  readonly without: string | undefined;
}

export interface WorkerReport {
  readonly tried: number;
  readonly taken: number;
  /** The first seed that breaks a promise. */
  readonly found: number | undefined;
}

// Refusals are ordinary here: nobody reads the stacks of their errors.
Error.stackTraceLimit = 0;

process.on("message", (order: WorkerOrder) => {
  void runSeeds(order).then((report) => process.send?.(report));
});

async function runSeeds({ first, count, without }: WorkerOrder): Promise<WorkerReport> {
  const removed = removedRules.find(({ rule }) => rule === without);
  let taken = 0;
  for (let seed = first; seed < first + count; seed++) {
    const result = await simulate(seed, removed ?? {});
    taken += result.taken;
    if (result.violations.length > 0) return { tried: seed - first + 1, taken, found: seed };
  }
  return { tried: count, taken, found: undefined };
}
