/** A search for a seed that breaks a promise: the removed rule, the plans to search, and the workers that share the work. */
import { fork } from "node:child_process";
import type { Search } from "./order.ts";
import type { WorkerOrder, WorkerReport } from "./worker.ts";

/** Number of seeds that a worker takes at a time. */
const chunk = 50;
/** There are as many workers as processors, so every further thread would take time from a worker. */
const execArgv = ["--max-semi-space-size=64", "--single-threaded-gc"];

export interface SearchOptions extends Search {
  readonly first: number;
  readonly seeds: number;
  readonly workers: number;
}

export interface Found {
  readonly found: number | undefined;
  readonly tried: number;
  readonly taken: number;
  /** Processor time of all workers together, in milliseconds. */
  readonly cpuMs: number;
}

/** Hands out seeds to workers until all are done, or one is found that breaks a promise. Resolves to that seed, if any. */
export function search({ seeds, first, workers, ...sought }: SearchOptions): Promise<Found> {
  const end = first + seeds;
  let next = first;
  let tried = 0;
  let taken = 0;
  let cpuMs = 0;
  let found: number | undefined;
  const startedMs = performance.now();
  const progress = setInterval(() => {
    const rate = tried / ((performance.now() - startedMs) / 1000);
    console.log(`${tried} of ${seeds} seeds, ${rate.toFixed(0)} a second, ${taken} deletions, nothing found`);
  }, 15_000);
  return new Promise((resolve, reject) => {
    let running = 0;
    for (let index = 0; index < Math.min(workers, Math.ceil(seeds / chunk)); index++) {
      const worker = fork(new URL("./worker.ts", import.meta.url), { execArgv });
      running++;
      const order = () => {
        if (found !== undefined || next >= end) {
          worker.disconnect();
          return;
        }
        const count = Math.min(chunk, end - next);
        worker.send({ ...sought, first: next, count } satisfies WorkerOrder);
        next += count;
      };
      worker.on("message", (report: WorkerReport) => {
        tried += report.tried;
        taken += report.taken;
        cpuMs += report.cpuMs;
        if (report.found !== undefined) found = Math.min(report.found, found ?? report.found);
        order();
      });
      worker.on("exit", (code) => {
        running--;
        if (code !== 0) {
          clearInterval(progress);
          reject(new Error(`a worker ended with code ${code}`));
        } else if (running === 0) {
          clearInterval(progress);
          resolve({ found, tried, taken, cpuMs });
        }
      });
      order();
    }
  });
}
