/** Looks for a seed in which a promise is broken, on a real API server behind proxies whose watches lag. */

import { ensureAssets } from "../../controlplane/assets.ts";
import type { ControlPlane } from "../../controlplane/controlplane.ts";
import { CommandLine } from "../../controlplane/flags.ts";
import { aborted, interruption } from "../../controlplane/interruption.ts";
import type { Presented } from "../../support/drain-webhook.ts";
import { startEvictionStage } from "../../support/eviction-stage.ts";
import { pauseControllers } from "./controllers.ts";
import { type Scenario, scenarios } from "./scenarios.ts";
import { type Outcome, tryOut } from "./trial.ts";

const names = scenarios.map(({ name }) => name);

const help = `Runs two processes of Sluice against a real API server, each behind a proxy that holds back what watches report by 0 to 20 s,
and controllers that are stopped for 1.5 to 4 s at times; an observer with watches of its own says what was broken.

  node test/e2e/lag/main.ts [FLAGS]

  --scenario NAME   ${names.join(", ")}, or all (default: all)
  --seeds N         how many seeds of each (default: 20)
  --seed S          the first of them (default: 1)
  --parallel K      how many run at once, in one control plane (default: 3)
  --seconds T       how long users act in each (default: 60)
  --verbose         print what happened also when nothing was broken
  --help            this text

The seed draws what users do and how late watches are; what comes of it depends on the machine as well. Exit code 0: nothing was
found; 1: a promise is broken, or something hangs; 2: a flag is wrong.

${scenarios.map(({ name, description }) => `${name}: ${description}`).join("\n")}`;

const flags = {
  scenario: { type: "string" },
  seeds: { type: "string" },
  seed: { type: "string" },
  parallel: { type: "string" },
  seconds: { type: "string" },
  verbose: { type: "boolean" },
  help: { type: "boolean" },
} as const;

interface Options {
  readonly scenarios: readonly Scenario[];
  readonly seeds: number;
  readonly first: number;
  readonly parallel: number;
  readonly seconds: number;
  readonly verbose: boolean;
}

function readOptions(line: CommandLine): Options {
  const name = line.word("scenario", ["all", ...names]);
  return {
    scenarios: scenarios.filter((scenario) => name === "all" || scenario.name === name),
    seeds: line.whole("seeds", 20, 1, 100_000),
    first: line.whole("seed", 1, 1, 1_000_000),
    parallel: line.whole("parallel", 3, 1, 16),
    seconds: line.whole("seconds", 60, 1, 3_600),
    verbose: line.has("verbose"),
  };
}

function print(outcome: Outcome, { seconds, verbose }: Options): void {
  const { scenario, seed, violations, taken, restMs, history } = outcome;
  if (verbose || violations.length > 0) for (const line of history) console.log(line);
  for (const violation of violations) console.log(`${scenario}, seed ${seed}, breaks ${violation}`);
  console.log(
    `${scenario}, seed ${seed}: ${taken.rollout} pods taken by rollouts, ${taken.eviction} by evictions, at rest after ${(restMs / 1_000).toFixed(1)} s; ${violations.length} promises broken`,
  );
  if (violations.length > 0) {
    const again = `node test/e2e/lag/main.ts --scenario ${scenario} --seed ${seed} --seeds 1 --seconds ${seconds}`;
    console.log(`to try it again: ${again}`);
  }
}

/** Resolves to how many trials broke something. */
async function search(options: Options, controlPlane: ControlPlane, certificate: Presented): Promise<number> {
  const pauses = pauseControllers(controlPlane, options.first);
  const seeds = Array.from({ length: options.seeds }, (_, index) => options.first + index);
  const queue = seeds.flatMap((seed) => options.scenarios.map((scenario) => ({ scenario, seed })));
  let broken = 0;
  const work = async (): Promise<void> => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const { scenario, seed } = next;
      try {
        const outcome = await tryOut({ ...next, controlPlane, certificate, pauses, forMs: options.seconds * 1_000 });
        print(outcome, options);
        if (outcome.violations.length > 0) broken++;
      } catch (error) {
        broken++;
        console.log(`${scenario.name}, seed ${seed}, could not be tried to its end:`, error);
      }
    }
  };
  try {
    await Promise.all(Array.from({ length: options.parallel }, work));
  } finally {
    console.log(`the controllers were stopped ${await pauses.end()} times`);
  }
  return broken;
}

async function main(): Promise<number> {
  const line = new CommandLine(process.argv.slice(2), flags);
  if (line.has("help")) {
    console.log(help);
    return 0;
  }
  const options = readOptions(line);
  for (const mistake of line.mistakes) console.error(mistake);
  if (line.mistakes.length > 0) return 2;
  const interrupted = interruption();
  const assets = await ensureAssets((reported) => console.error(reported));
  const { controlPlane, certificate, stop } = await startEvictionStage({ assets, signal: interrupted });
  try {
    const startedMs = performance.now();
    const broken = await Promise.race([search(options, controlPlane, certificate), aborted(interrupted)]);
    if (broken === undefined) return 1;
    const trials = options.seeds * options.scenarios.length;
    const minutes = ((performance.now() - startedMs) / 60_000).toFixed(1);
    console.log(
      `${trials} trials in ${minutes} minutes: ${broken === 0 ? "no promise broken" : `${broken} broke one`}`,
    );
    return broken === 0 ? 0 : 1;
  } finally {
    await stop();
  }
}

try {
  process.exit(await main());
} catch (error) {
  console.error(error);
  process.exit(1);
}
