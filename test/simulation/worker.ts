/** One process of a search: it runs the seeds that it gets, and reports what it found. */
import { type Search, seedOptions } from "./order.ts";
import { simulate } from "./simulation.ts";

export interface WorkerOrder extends Search {
  readonly first: number;
  readonly count: number;
}

export interface WorkerReport {
  readonly tried: number;
  readonly taken: number;
  /** Processor time of this process since its last report, including its start and compilation, in milliseconds. */
  readonly cpuMs: number;
  /** The first seed that breaks a promise. */
  readonly found: number | undefined;
}

// Refusals are ordinary here, and nothing reads the stacks of their errors.
Error.stackTraceLimit = 0;

let usedMs = 0;

process.on("message", (order: WorkerOrder) => {
  void runSeeds(order).then((outcome) => {
    const { user, system } = process.cpuUsage();
    const cpuMs = (user + system) / 1_000 - usedMs;
    usedMs += cpuMs;
    process.send?.({ ...outcome, cpuMs } satisfies WorkerReport);
  });
});

async function runSeeds({ first, count, ...search }: WorkerOrder): Promise<Omit<WorkerReport, "cpuMs">> {
  const options = seedOptions(search);
  let taken = 0;
  for (let seed = first; seed < first + count; seed++) {
    const result = await simulate(seed, options);
    taken += result.taken;
    if (result.violations.length > 0) return { tried: seed - first + 1, taken, found: seed };
  }
  return { tried: count, taken, found: undefined };
}
