/** `npm run simulate -- --seeds N [--seed S] [--workers K]`: searches for a seed that breaks a promise. */
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { defaultRules, keyOf, readFoundSeeds, writeFoundSeeds } from "./found-seeds.ts";
import { seedOptions } from "./order.ts";
import { removedRules } from "./rules-evictions.ts";
import { scenarios } from "./scenarios.ts";
import { type SearchOptions, search } from "./search.ts";
import { simulate } from "./simulation.ts";

const help = `npm run simulate -- [--seeds N] [--seed S] [--workers K] [--only NAME] [--without RULE [--default]]
                    [--without each --write] [--aimed each|NUMBER]

  --seeds N        how many seeds to try (default 1000)
  --seed S         the first of them (default 1); alone, it replays this seed and prints its whole history
  --workers K      how many processes share the work (default: one for each processor)
  --only NAME      bend every seed towards one kind of trouble: ${Object.keys(scenarios).join(", ")}
  --scenario NAME  the same
  --without RULE   take a rule of the protocol away, in the scenario aimed at it: ${[...new Set(removedRules.map(({ rule }) => rule))].join(", ")};
                   "each" takes every one of them away in turn, and prints the seed that finds it
  --default        with --without: look in the default plan, and not in the scenario that is aimed at the rule
  --write          with "--without each": write the seeds into found-seeds.json, which the tests try first; a rule
                   that its seed still finds keeps this seed
  --aimed NUMBER   play the scenario that is aimed at a rule, by its number, and keep every rule; "each" plays all of them
  --verbose        print the history also when nothing is wrong
  --help           this text

Exit code 0: nothing was found; 1: a promise is broken; 2: an option is wrong.`;

interface Options extends SearchOptions {
  readonly without: string | undefined;
  readonly isEachAimed: boolean;
  readonly verbose: boolean;
  readonly write: boolean;
}

const text = { type: "string" } as const;
const flag = { type: "boolean" } as const;
const known = {
  options: {
    seeds: text,
    seed: text,
    workers: text,
    without: text,
    aimed: text,
    scenario: text,
    only: text,
    default: flag,
    write: flag,
    verbose: flag,
    help: flag,
  },
} as const;

function readOptions(): Options | undefined {
  const mistakes: string[] = [];
  const whole = (name: string, given: string | undefined, fallback: number): number => {
    if (given === undefined) return fallback;
    const value = Number(given);
    if (!/^\d+$/.test(given) || !Number.isSafeInteger(value) || value < 1)
      mistakes.push(`--${name} is ${JSON.stringify(given)}, and must be a whole number above 0`);
    return value;
  };
  let values: Partial<ReturnType<typeof parseArgs<typeof known>>["values"]> = {};
  try {
    ({ values } = parseArgs(known));
  } catch (error) {
    mistakes.push((error as Error).message);
  }
  if (values.help) {
    console.log(help);
    process.exit(0);
  }
  const { without, aimed, only, scenario = only } = values;
  const index = removedRules.findIndex(({ rule }) => rule === without);
  const options = {
    seeds: whole("seeds", values.seeds, values.seed === undefined ? 1000 : 1),
    first: whole("seed", values.seed, 1),
    workers: whole("workers", values.workers, availableParallelism()),
    without,
    removed: index === -1 ? undefined : index,
    isEachAimed: aimed === "each",
    ...(aimed === undefined || aimed === "each" ? {} : { aimed: whole("aimed", aimed, 1) - 1 }),
    isDefault: values.default ?? false,
    scenario,
    verbose: values.verbose ?? false,
    write: values.write ?? false,
  };
  if (without !== undefined && without !== "each" && index === -1)
    mistakes.push(`--without is ${JSON.stringify(without)}, and no scenario takes that rule away`);
  if ((options.aimed ?? 0) >= removedRules.length)
    mistakes.push(`--aimed is ${aimed}, and the last scenario that is aimed at a rule is ${removedRules.length}`);
  if (aimed !== undefined && (without !== undefined || scenario !== undefined || options.isDefault))
    mistakes.push(
      "--aimed keeps every rule and names its scenario: --without, --default and --scenario do not go with it",
    );
  if (options.write && (without !== "each" || options.isDefault || scenario !== undefined))
    mistakes.push("--write goes with --without each alone");
  for (const [option, name] of Object.entries({ only, scenario: values.scenario })) {
    if (name !== undefined && !Object.hasOwn(scenarios, name))
      mistakes.push(`--${option} is ${JSON.stringify(name)}, and there is no scenario of that name: --help lists them`);
  }
  if (only !== undefined && scenario !== only)
    mistakes.push("--only and --scenario are the same option, and may not differ");
  for (const mistake of mistakes) console.error(mistake);
  return mistakes.length === 0 ? options : undefined;
}

async function replay(seed: number, options: Options): Promise<boolean> {
  const { violations, history, taken, virtualMs } = await simulate(seed, { ...seedOptions(options), verbose: true });
  if (options.verbose || violations.length > 0) for (const line of history) console.log(line);
  console.log(`seed ${seed}: ${taken} deletions in ${(virtualMs / 1000).toFixed(1)} s of virtual time`);
  for (const { invariant, message } of violations) console.log(`seed ${seed} breaks ${invariant}: ${message}`);
  return violations.length === 0;
}

/** Removes each rule in turn. Resolves to true if a seed found each of them. */
async function takeEachAway(options: Options): Promise<boolean> {
  let missed = 0;
  for (const [removed, { rule, removed: what }] of removedRules.entries()) {
    const { found } = await search({ ...options, removed });
    if (found === undefined) missed++;
    const where = found === undefined ? `not found in ${options.seeds} seeds` : `found by seed ${found}`;
    console.log(`without ${rule} (${what}): ${where}`);
  }
  return missed === 0;
}

/** Plays the scenario of each rule, and keeps the rule. Resolves to true if no seed breaks a promise. */
async function playEachAimed(options: Options): Promise<boolean> {
  let broken = 0;
  for (const [aimed, { rule, removed: what }] of removedRules.entries()) {
    const { found, tried } = await search({ ...options, aimed });
    if (found !== undefined) broken++;
    const again = `broken, to see it: npm run simulate -- --aimed ${aimed + 1} --seed ${found}`;
    console.log(`${aimed + 1}, aimed at ${rule} (${what}): ${found === undefined ? `${tried} seeds kept it` : again}`);
  }
  return broken === 0;
}

/** Removes each rule in the plans of the tests, and writes the seeds into the table. A seed that still finds its rule stays. */
async function writeEach({ seeds }: Options): Promise<boolean> {
  const before = readFoundSeeds();
  const after = new Map<string, number>();
  const wanted = [false, true].flatMap((isDefault) =>
    (isDefault ? defaultRules : removedRules).map((rule) => ({ rule, isDefault })),
  );
  for (const { rule, isDefault } of wanted) {
    const key = keyOf(rule, isDefault);
    const taken = seedOptions({ removed: removedRules.indexOf(rule), isDefault, scenario: undefined });
    const finds = async (seed: number) => (await simulate(seed, taken)).violations.length > 0;
    // Runs in this process, because starting workers and compiling their code takes longer than most of these searches.
    let found = before.get(key) ?? 1;
    if (!(await finds(found))) for (found = 1; found <= seeds && !(await finds(found)); ) found++;
    if (found <= seeds) after.set(key, found);
    console.log(`without ${key}: ${found <= seeds ? `seed ${found}` : "not found"}`);
  }
  writeFoundSeeds(after);
  return after.size === wanted.length;
}

/** Searches, and prints the result. Resolves to the exit code. */
async function main(): Promise<number> {
  const options = readOptions();
  if (options === undefined) return 2;
  if (options.write) return (await writeEach(options)) ? 0 : 1;
  if (options.without === "each") return (await takeEachAway(options)) ? 0 : 1;
  if (options.isEachAimed) return (await playEachAimed(options)) ? 0 : 1;
  if (options.seeds === 1) return (await replay(options.first, options)) ? 0 : 1;

  const startedMs = performance.now();
  const { found, tried, taken, cpuMs } = await search(options);
  const seconds = (performance.now() - startedMs) / 1000;
  if (found === undefined) {
    const [rate, each] = [(tried / seconds).toFixed(0), (cpuMs / tried).toFixed(1)];
    console.log(
      `${tried} seeds in ${seconds.toFixed(1)} s, ${rate} whole rollouts a second, each ${each} ms of a processor, ${taken} deletions: no promise broken`,
    );
    return 0;
  }
  await replay(found, options);
  const { without, aimed, scenario, isDefault } = options;
  const again = [
    `npm run simulate -- --seed ${found}`,
    ...(scenario === undefined ? [] : [`--scenario ${scenario}`]),
    ...(aimed === undefined ? [] : [`--aimed ${aimed + 1}`]),
    ...(without === undefined ? [] : [`--without ${without}`]),
    ...(isDefault ? ["--default"] : []),
  ].join(" ");
  console.log(`found after ${tried} seeds in ${seconds.toFixed(1)} s; to see it again: ${again}`);
  return 1;
}

// Not process.exit, because a history that goes into a pipe must be written to its end.
process.exitCode = await main();
