/**
 * `npx node test/property/fences.ts`: plays many fences by the shipped function and agents in virtual time, or searches for the
 * run that notices a rule that is gone.
 */
import { parseArgs } from "node:util";
import { type RemovedOfFence, removableRules } from "./fence-removals.ts";
import { FenceWorld } from "./fence-world.ts";

const help = `npx node test/property/fences.ts [--runs N] [--run N] [--without RULE]

  --runs N        how many fences to play (default 1000)
  --run N         the number of the first one (default 1)
  --without RULE  search for the run that breaks a promise without it: ${removableRules.join(", ")}; each: one after the other

Exit code 0: each promise is kept, and without a rule one is broken; 1: not so; 2: an option is wrong.`;

/** The seed of a run, by its number. */
export const seedOf = (run: number): number => (run * 2_654_435_761) >>> 0;

interface Runs {
  readonly first: number;
  readonly count: number;
}

/** The first run that breaks a promise or does not end, and what it breaks. */
export async function findBroken({ first, count }: Runs, removed?: RemovedOfFence) {
  let [evacuations, deletions, kills] = [0, 0, 0];
  for (let run = first; run < first + count; run++) {
    const outcome = await new FenceWorld(seedOf(run), removed).run();
    const broken = outcome.broken ?? (outcome.hasEnded ? undefined : "L1: the fence does not end");
    if (broken !== undefined) return { run, broken, evacuations, deletions, kills };
    if (outcome.evidence === "time") evacuations++;
    if (outcome.isDeleted) deletions++;
    kills += outcome.kills;
  }
  return { run: undefined, broken: undefined, evacuations, deletions, kills };
}

async function keepRules(runs: Runs): Promise<boolean> {
  const { run, broken, evacuations, deletions, kills } = await findBroken(runs);
  if (run !== undefined) console.log(`run ${run} breaks ${broken}; to see it again: --runs 1 --run ${run}`);
  else
    console.log(
      `${runs.count} fences kept each promise: ${evacuations} evacuations by time, ${deletions} Nodes deleted, ${kills} kills`,
    );
  return run === undefined;
}

async function removeRules(runs: Runs, rules: readonly RemovedOfFence[]): Promise<boolean> {
  let missed = 0;
  for (const rule of rules) {
    const { run, broken } = await findBroken(runs, rule);
    if (run === undefined) missed++;
    console.log(
      `without ${rule}: ${run === undefined ? `not noticed in ${runs.count} runs` : `run ${run} breaks ${broken}`}`,
    );
  }
  return missed === 0;
}

function refuse(why: string): never {
  console.error(why);
  process.exit(2);
}

function wholeNumber(name: string, text: string): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(value) || value < 1)
    refuse(`--${name} is ${JSON.stringify(text)}, and must be a whole number above 0`);
  return value;
}

function readOptions() {
  try {
    const text = { type: "string" } as const;
    return parseArgs({ options: { runs: text, run: text, without: text, help: { type: "boolean" } } }).values;
  } catch (error) {
    return refuse((error as Error).message);
  }
}

async function main(): Promise<boolean> {
  const { runs = "1000", run = "1", without, help: isAsked } = readOptions();
  if (isAsked) {
    console.log(help);
    return true;
  }
  const wanted = { first: wholeNumber("run", run), count: wholeNumber("runs", runs) };
  if (without === undefined) return keepRules(wanted);
  const rules = removableRules.filter((rule) => without === "each" || without === rule);
  if (rules.length === 0) refuse(`--without is ${JSON.stringify(without)}: must be each, ${removableRules.join(", ")}`);
  return removeRules(wanted, rules);
}

if (import.meta.main) process.exitCode = (await main()) ? 0 : 1;
