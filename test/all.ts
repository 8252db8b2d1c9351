/**
 * `npm test`: every test that can run here, the quick ones first, those on a real control plane last. A file of that last phase
 * which fails runs once more, alone, in the end: if it passes then, it is flaky, which is a defect to be mended.
 *
 * The control plane and Knative's programs are built once, when Go is at hand, and RabbitMQ is loaded once, where there is apt.
 * Where they cannot be had, their suites are skipped and the summary says so; with CI=true that is a failure.
 */
import { globSync } from "node:fs";
import { Readable } from "node:stream";
import { spec, type TestEvent } from "node:test/reporters";
import { ensureAssets, findAssets } from "./controlplane/controlplane.ts";
import { findBuilt, findDataPlane } from "./knative/dataplane/assets.ts";
import { canConfine } from "./knative/dataplane/confinement.ts";
import { ensurePackages } from "./rabbitmq/packages.ts";
import { runQueue, watchIdle } from "./runner/files.ts";
import { isFailed, type Outcome, slowest, summarize } from "./runner/outcome.ts";
import { Queue } from "./runner/queue.ts";
import { readTimes, writeTimes } from "./runner/times.ts";

interface Phase {
  readonly name: string;
  readonly concurrency: number;
  readonly files: readonly string[];
  /** Of these one runs at a time, as long as there are others to run beside it. */
  readonly heavy?: readonly string[];
  /** Whether a file that fails runs once more: it depends on how busy the machine is. */
  readonly isTriedAgain?: boolean;
}

/** One after another; the files of a phase run side by side as far as `concurrency` goes. */
const phases: readonly Phase[] = [
  {
    name: "unit",
    concurrency: 2,
    files: ["test/{tidy,rooms}.test.ts", "test/{unit,property,fake-cluster,mutation,runner}/**/*.test.ts"],
  },
  // Half of all the seeds are the rules': they come first, or one processor is left without work in the end.
  { name: "simulation", concurrency: 2, files: ["test/simulation/rules.test.ts", "test/simulation/**/*.test.ts"] },
  { name: "demo and bench", concurrency: 1, files: ["test/{demo,bench}/**/*.test.ts"] },
  // Of the machine's time it measures what honest requests are left: nothing runs beside it.
  { name: "attack", concurrency: 1, files: ["test/attack/**/*.test.ts"] },
  // Most of them wait, with half a processor for each. Of those of Knative and RabbitMQ two take more than there is, and what
  // waits for something gives up.
  {
    name: "control plane",
    concurrency: 2,
    files: ["test/e2e/**/*.test.ts", "test/{contract,controlplane,image}/**/*.test.ts"],
    heavy: ["test/{knative,rabbitmq}/**/*.test.ts"],
    isTriedAgain: true,
  },
];

const root = new URL("..", import.meta.url).pathname;
const timesPath = `${root}node_modules/.cache/test-times.json`;
const times = readTimes(timesPath);
const say = (line: string) => console.log(line);

/** In the order of the patterns; each once. */
function matching(patterns: readonly string[]): readonly string[] {
  return [...new Set(patterns.flatMap((pattern) => globSync(pattern, { cwd: root }).sort()))];
}

function filesOf({ files, heavy = [] }: Phase): readonly string[] {
  return [...new Set([...matching(heavy), ...matching(files)])];
}

/** Reports each file when it has ended, and collects what came of it. */
async function* played(queue: Queue, concurrency: number, outcomes: Outcome[]): AsyncGenerator<TestEvent> {
  for await (const { events, outcome } of runQueue(root, queue, concurrency)) {
    outcomes.push(outcome);
    times.set(outcome.file, outcome.tookMs);
    yield* events;
  }
}

async function runFiles(queue: Queue, concurrency: number): Promise<readonly Outcome[]> {
  const outcomes: Outcome[] = [];
  for await (const text of Readable.from(played(queue, concurrency, outcomes)).compose(spec))
    process.stdout.write(text);
  return outcomes;
}

async function runPhase(phase: Phase): Promise<readonly Outcome[]> {
  const concurrency = phase.heavy !== undefined && !(await canRunSideBySide()) ? 1 : phase.concurrency;
  return runFiles(
    new Queue(matching(phase.heavy ?? []), matching(phase.files), (file) => times.get(file)),
    concurrency,
  );
}

/** Without networks of their own, the programs of Knative that two files start want the same ports. */
async function canRunSideBySide(): Promise<boolean> {
  const dataPlane = await findBuilt();
  return dataPlane === undefined || (await canConfine(dataPlane));
}

/** Builds the control plane, and Knative's programs, when they are missing. */
async function prepareControlPlane(): Promise<void> {
  if ((await findAssets()) === undefined) {
    say("the control plane for tests is built once, which takes about five minutes …");
    await ensureAssets(say);
  }
  if ((await findBuilt()) === undefined) {
    say("Knative's programs for tests are built once, which takes about five minutes …");
    await findDataPlane(say);
  }
}

/** Does what is done once, and says what is the matter when it cannot. */
async function prepare(work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    console.error(
      `\nNOT BUILT: ${why}\nThe suites that need it ${process.env.CI === "true" ? "will fail" : "are skipped"}.\n`,
    );
  }
}

const inSeconds = (ms: number | undefined) => (ms === undefined ? "-" : `${(ms / 1_000).toFixed(1)} s`);

function list(chosen: readonly Phase[]): void {
  for (const phase of chosen)
    for (const file of filesOf(phase)) console.log(`${phase.name}\t${inSeconds(times.get(file))}\t${file}`);
}

function sayMistake(mistake: string): void {
  console.error(mistake);
  process.exitCode = 2;
}

async function runPhases(chosen: readonly Phase[]): Promise<void> {
  if (chosen.some(({ heavy }) => heavy !== undefined)) {
    await prepare(prepareControlPlane);
    await prepare(() => ensurePackages(say));
  }
  const startedMs = performance.now();
  const idle = watchIdle();
  const outcomes: Outcome[] = [];
  const again: Outcome[] = [];
  for (const phase of chosen) {
    console.log(`\n=== ${phase.name}`);
    const phaseMs = performance.now();
    const ended = await runPhase(phase);
    outcomes.push(...ended);
    console.log(`${phase.name}: ${ended.length} files in ${inSeconds(performance.now() - phaseMs)}`);
    const failed = phase.isTriedAgain === true ? ended.filter(isFailed).map(({ file }) => file) : [];
    if (failed.length === 0) continue;
    console.log(`\n=== once more, alone: ${failed.join(", ")}`);
    again.push(...(await runFiles(new Queue([], failed, () => undefined), 1)));
  }
  writeTimes(timesPath, times);
  report(outcomes, again, { tookMs: performance.now() - startedMs, idle: idle() });
}

function report(
  outcomes: readonly Outcome[],
  again: readonly Outcome[],
  { tookMs, idle }: { readonly tookMs: number; readonly idle: number },
): void {
  const { passed, failed, skipped, real, failures, flaky, isGreen } = summarize(outcomes, again);
  console.log("\nthe slowest files:");
  for (const outcome of slowest(outcomes, 10)) console.log(`${inSeconds(outcome.tookMs).padStart(8)}  ${outcome.file}`);
  for (const failure of failures) console.log(`failed: ${failure}`);
  for (const failure of flaky) console.log(`flaky: ${failure}: it passed when its file ran once more, alone`);
  if (!isGreen && failed === 0 && flaky.length > 0) console.log("too many files are flaky");
  const machine = `${(idle * 100).toFixed(0)} % of the machine idle`;
  console.log(`\n${real} cases ran against the real control plane, in ${inSeconds(tookMs)} for everything, ${machine}`);
  console.log(`${passed} passed, ${failed} failed, ${skipped} skipped, ${flaky.length} flaky`);
  process.exitCode = isGreen ? 0 : 1;
}

// Each file is a process, which would strip the types of every module anew: that is most of what a quick one costs.
process.env.NODE_COMPILE_CACHE ??= `${root}node_modules/.cache/node`;
const wanted = process.argv.slice(2).filter((word) => word !== "--list");
const chosen = phases.filter(({ name }) => wanted.length === 0 || wanted.some((word) => name.includes(word)));
const held = new Set(phases.flatMap(filesOf));
const forgotten = globSync("test/**/*.test.ts", { cwd: root }).filter((file) => !held.has(file));
if (chosen.length === 0)
  sayMistake(`no phase is called ${wanted.join(", ")}; there are: ${phases.map(({ name }) => name).join(", ")}`);
else if (forgotten.length > 0) sayMistake(`no phase of test/all.ts holds ${forgotten.join(", ")}`);
else if (process.argv.includes("--list")) list(chosen);
else await runPhases(chosen);
