/** `npm run simulate -- --seeds N [--seed S] [--workers K]`: looks for a seed that breaks a promise. */
import { fork } from "node:child_process";
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { removedRules } from "./rules-evictions.ts";
import { simulate } from "./simulation.ts";
import type { WorkerOrder, WorkerReport } from "./worker.ts";

const help = `npm run simulate -- [--seeds N] [--seed S] [--workers K] [--without RULE]

  --seeds N        how many seeds to try (default 1000)
  --seed S         the first of them (default 1); alone, it replays that one seed and prints its whole history
  --workers K      how many processes share the work (default: one for each processor)
  --without RULE   take a rule of the protocol away, in the scenario aimed at it: ${[...new Set(removedRules.map(({ rule }) => rule))].join(", ")}
  --verbose        print the history also when nothing is wrong
  --help           this text

Exit code 0: nothing was found; 1: a promise is broken; 2: an option is wrong.`;

interface Options {
  readonly seeds: number;
  readonly first: number;
  readonly workers: number;
  readonly without: string | undefined;
  readonly verbose: boolean;
}

/** How many seeds a worker takes at a time. */
const chunk = 50;

function readOptions(): Options | undefined {
  const mistakes: string[] = [];
  const whole = (name: string, text: string | undefined, fallback: number): number => {
    if (text === undefined) return fallback;
    const value = Number(text);
    if (!/^\d+$/.test(text) || !Number.isSafeInteger(value) || value < 1)
      mistakes.push(`--${name} is ${JSON.stringify(text)}, and must be a whole number above 0`);
    return value;
  };
  const text = { type: "string" } as const;
  const flag = { type: "boolean" } as const;
  let values: { seeds?: string; seed?: string; workers?: string; without?: string; verbose?: boolean; help?: boolean } =
    {};
  try {
    ({ values } = parseArgs({
      options: { seeds: text, seed: text, workers: text, without: text, verbose: flag, help: flag },
    }));
  } catch (error) {
    mistakes.push((error as Error).message);
  }
  if (values.help) {
    console.log(help);
    process.exit(0);
  }
  const options = {
    seeds: whole("seeds", values.seeds, values.seed === undefined ? 1000 : 1),
    first: whole("seed", values.seed, 1),
    workers: whole("workers", values.workers, availableParallelism()),
    without: values.without,
    verbose: values.verbose ?? false,
  };
  if (options.without !== undefined && !removedRules.some(({ rule }) => rule === options.without)) {
    mistakes.push(`--without is ${JSON.stringify(options.without)}, and no scenario takes that rule away`);
  }
  for (const mistake of mistakes) console.error(mistake);
  return mistakes.length === 0 ? options : undefined;
}

async function replay(seed: number, { without, verbose }: Options): Promise<boolean> {
  const removed = removedRules.find(({ rule }) => rule === without);
  const { violations, history, taken, virtualMs } = await simulate(seed, { ...removed, verbose: true });
  if (verbose || violations.length > 0) for (const line of history) console.log(line);
  console.log(`seed ${seed}: ${taken} deletions in ${(virtualMs / 1000).toFixed(1)} s of virtual time`);
  for (const { invariant, sentence } of violations) console.log(`seed ${seed} breaks ${invariant}: ${sentence}`);
  return violations.length === 0;
}

/** Hands seeds out to workers until all are done or one is found that breaks a promise. Resolves to that one, if any. */
function search({
  seeds,
  first,
  workers,
  without,
}: Options): Promise<{ found: number | undefined; tried: number; taken: number }> {
  const end = first + seeds;
  let next = first;
  let tried = 0;
  let taken = 0;
  let found: number | undefined;
  const startedMs = performance.now();
  const progress = setInterval(() => {
    const rate = tried / ((performance.now() - startedMs) / 1000);
    console.log(`${tried} of ${seeds} seeds, ${rate.toFixed(0)} a second, ${taken} deletions, nothing found`);
  }, 15_000);
  return new Promise((resolve, reject) => {
    let running = 0;
    for (let index = 0; index < Math.min(workers, Math.ceil(seeds / chunk)); index++) {
      const worker = fork(new URL("./worker.ts", import.meta.url), { execArgv: ["--max-semi-space-size=64"] });
      running++;
      const order = () => {
        if (found !== undefined || next >= end) {
          worker.disconnect();
          return;
        }
        const count = Math.min(chunk, end - next);
        worker.send({ first: next, count, without } satisfies WorkerOrder);
        next += count;
      };
      worker.on("message", (report: WorkerReport) => {
        tried += report.tried;
        taken += report.taken;
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
          resolve({ found, tried, taken });
        }
      });
      order();
    }
  });
}

/** Searches, and says what came of it. Resolves to the exit code. */
async function main(): Promise<number> {
  const options = readOptions();
  if (options === undefined) return 2;
  if (options.seeds === 1) return (await replay(options.first, options)) ? 0 : 1;

  const startedMs = performance.now();
  const { found, tried, taken } = await search(options);
  const seconds = (performance.now() - startedMs) / 1000;
  if (found === undefined) {
    const rate = (tried / seconds).toFixed(0);
    console.log(
      `${tried} seeds in ${seconds.toFixed(1)} s, ${rate} whole rollouts a second, ${taken} deletions: no promise broken`,
    );
    return 0;
  }
  await replay(found, options);
  const without = options.without === undefined ? "" : ` --without ${options.without}`;
  console.log(
    `found after ${tried} seeds in ${seconds.toFixed(1)} s; to see it again: npm run simulate -- --seed ${found}${without}`,
  );
  return 1;
}

// Not process.exit: a history that goes into a pipe must be written to its end.
process.exitCode = await main();
