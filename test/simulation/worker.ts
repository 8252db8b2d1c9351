/** One process of a search: runs the seeds that it is given and says what it found. */
import { type Search, seedOptions } from "./order.ts";
import { simulate } from "./simulation.ts";

export interface WorkerOrder extends Search {
  readonly first: number;
  readonly count: number;
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

async function runSeeds({ first, count, ...search }: WorkerOrder): Promise<WorkerReport> {
  const options = seedOptions(search);
  let taken = 0;
  for (let seed = first; seed < first + count; seed++) {
    const result = await simulate(seed, options);
    taken += result.taken;
    if (result.violations.length > 0) return { tried: seed - first + 1, taken, found: seed };
  }
  return { tried: count, taken, found: undefined };
}
