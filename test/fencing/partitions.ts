/** Plays drawn scripts of cuts on real machines: `npx node test/fencing/partitions.ts --scripts N [--seed S]`. */
import { ensureAssets } from "../controlplane/assets.ts";
import { CommandLine } from "../controlplane/flags.ts";
import { aborted, interruption } from "../controlplane/interruption.ts";
import { type RemovedFenceRule, removedFenceRules } from "./removed-rules.ts";
import { type CutScript, drawCutScript } from "./scripts.ts";
import { CutStage, type ScriptOutcome } from "./stage.ts";

const rules = removedFenceRules.map(({ rule }) => rule);
const most = 1_000_000;

const help = `Fences nodes among drawn cuts of the network: the shipped fence-node and its shipped agents, a real control plane, and
five played machines. No pod may run on two nodes, no Node may be lost, and each fence ends, or names what it waits for.

  node test/fencing/partitions.ts --scripts N [--seed S] [--without RULE] [--verbose]

  --scripts N      how many scripts to play, one after another (default 20)
  --seed S         the seed of the first one (default: drawn); the next ones have the next seeds. Alone, it replays this one
  --without RULE   without a rule: ${rules.join(", ")}. One fixed script that needs the rule is played, N times at most
  --verbose        print the history of each script, and the logs where something is broken
  --help           this text

Exit code 0: nothing was found; 1: a promise was broken, or something hangs; 2: a flag is wrong.
It needs Linux, root, util-linux and iproute2.`;

const flags = {
  scripts: { type: "string" },
  seed: { type: "string" },
  without: { type: "string" },
  verbose: { type: "boolean" },
  help: { type: "boolean" },
} as const;

interface Run {
  readonly scripts: number;
  readonly first: number;
  readonly removed: RemovedFenceRule | undefined;
  readonly isVerbose: boolean;
}

/** What all scripts of a run have shown. */
class Figures {
  #scripts = 0;
  #resets = 0;
  #overlaps = 0;
  #missing = 0;
  readonly #evidence = new Map<string, number>();
  readonly #startedMs = performance.now();

  add({ fences, resets, violations }: ScriptOutcome): void {
    this.#scripts++;
    this.#resets += resets;
    this.#overlaps += violations.filter((one) => one.includes(" at one time")).length;
    this.#missing += violations.filter((one) => one.includes(" was not reset")).length;
    for (const { evidence = "none" } of fences) this.#evidence.set(evidence, (this.#evidence.get(evidence) ?? 0) + 1);
  }

  print(): void {
    const total = [...this.#evidence.values()].reduce((sum, count) => sum + count, 0);
    const kinds = [...this.#evidence].map(([evidence, count]) => `${count} by ${evidence}`).join(", ");
    const seconds = ((performance.now() - this.#startedMs) / 1_000).toFixed(0);
    console.log(
      `${this.#scripts} scripts in ${seconds} s: ${total} fences (${kinds}), ${this.#resets} resets, ${this.#missing} missing resets, ${this.#overlaps} overlaps`,
    );
  }
}

/** Undefined for a wrong command line. */
function readRun(line: CommandLine): Run | undefined {
  const scripts = line.whole("scripts", line.has("seed") ? 1 : 20, 1, most);
  const first = line.whole("seed", 1 + Math.floor(Math.random() * most), 1, 2 ** 31);
  const without = line.text("without");
  const removed = removedFenceRules.find(({ rule }) => rule === without);
  if (without !== undefined && removed === undefined)
    line.mistakes.push(`--without ${without}: must be ${rules.join(" or ")}`);
  if (removed !== undefined && line.has("seed"))
    line.mistakes.push("--seed: without a rule one fixed script is played");
  return line.mistakes.length > 0 ? undefined : { scripts, first, removed, isVerbose: line.has("verbose") };
}

/** True if no script breaks a promise. The first one that does ends the run. */
async function playAll(
  stage: CutStage,
  { scripts, first, removed, isVerbose }: Run,
  figures: Figures,
): Promise<boolean> {
  for (let at = 0; at < scripts; at++) {
    const script: CutScript = removed?.script ?? drawCutScript(first + at);
    const outcome = await stage.play(script);
    figures.add(outcome);
    const { violations, history, tookMs } = outcome;
    const isBroken = violations.length > 0;
    if (isVerbose || isBroken) for (const one of history) console.log(one);
    console.log(`${script.name}: ${(tookMs / 1_000).toFixed(1)} s, ${isBroken ? "broken" : "kept"}`);
    for (const violation of violations) console.log(`broken: ${violation}`);
    if (!isBroken) continue;
    if (isVerbose) console.error(stage.cluster.logs);
    if (removed === undefined) console.log(`to see it again: npx node test/fencing/partitions.ts --seed ${first + at}`);
    return false;
  }
  return true;
}

async function main(): Promise<number> {
  const line = new CommandLine(process.argv.slice(2), flags);
  if (line.has("help")) {
    console.log(help);
    return 0;
  }
  const run = readRun(line);
  for (const mistake of line.mistakes) console.error(mistake);
  if (run === undefined) return 2;
  const interrupted = interruption();
  await ensureAssets((reported) => console.error(reported));
  const { removed, first } = run;
  console.log(removed === undefined ? `the first seed is ${first}` : `without ${removed.rule}: ${removed.removed}`);
  const stage = await CutStage.start(removed);
  const figures = new Figures();
  try {
    return (await Promise.race([playAll(stage, run, figures), aborted(interrupted)])) === true ? 0 : 1;
  } finally {
    // Also of a run that was interrupted.
    figures.print();
    await stage.stop();
  }
}

try {
  process.exit(await main());
} catch (error) {
  console.error(error);
  process.exit(1);
}
