/**
 * `npm test`: every test that can run here, the quick ones first, those on a real control plane last.
 *
 * The control plane and Knative's programs are built once, when Go is at hand, and RabbitMQ is loaded once, where there is apt.
 * Where they cannot be had, their suites are skipped and the summary says so; with CI=true that is a failure.
 */
import { globSync } from "node:fs";
import { relative } from "node:path";
import { Readable } from "node:stream";
import { run } from "node:test";
import { spec, type TestEvent } from "node:test/reporters";
import { ensureAssets, findAssets } from "./controlplane/controlplane.ts";
import { findBuilt, findDataPlane } from "./knative/dataplane/assets.ts";
import { canConfine } from "./knative/dataplane/confinement.ts";
import { ensurePackages } from "./rabbitmq/packages.ts";

interface Phase {
  readonly name: string;
  readonly concurrency: number;
  readonly files: readonly string[];
  /** Of these one runs at a time, as long as there are others to run beside it. */
  readonly heavy?: readonly string[];
}

/** One after another; the files of a phase run side by side as far as `concurrency` goes. */
const phases: readonly Phase[] = [
  { name: "unit", concurrency: 2, files: ["test/tidy.test.ts", "test/{unit,property,world,mutation}/**/*.test.ts"] },
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
  },
];

const root = new URL("..", import.meta.url).pathname;
const tally = { passed: 0, failed: 0, skipped: 0, real: 0 };
const failures: string[] = [];

/** True for cases that talk to a real kube-apiserver: by their file, or by the suite that they stand in. */
function isReal(file: string, suite: string): boolean {
  return (
    /^test\/(controlplane|e2e|image)\//.test(file) ||
    file === "test/contract/real-server.test.ts" ||
    /real API server/.test(suite)
  );
}

/** In the order of the patterns; each once. */
function matching(patterns: readonly string[]): readonly string[] {
  return [...new Set(patterns.flatMap((pattern) => globSync(pattern, { cwd: root }).sort()))];
}

function filesOf({ files, heavy = [] }: Phase): readonly string[] {
  return [...matching(heavy), ...matching(files)];
}

async function runPhase(phase: Phase): Promise<void> {
  const concurrency = phase.name === "control plane" && !(await canRunSideBySide()) ? 1 : phase.concurrency;
  const events = phase.heavy === undefined ? runFiles(filesOf(phase), concurrency) : runInTurn(phase, concurrency);
  for await (const text of Readable.from(counted(events)).compose(spec)) process.stdout.write(text);
}

function runFiles(files: readonly string[], concurrency: number): AsyncIterable<TestEvent> {
  const execArgv = ["--import", `${root}test/ending.ts`];
  return run({ files: files.map((file) => `${root}${file}`), concurrency, cwd: root, execArgv });
}

/** What a file says comes when it has ended. */
async function* runInTurn({ files, heavy = [] }: Phase, concurrency: number): AsyncGenerator<TestEvent> {
  const waiting = { heavy: [...matching(heavy)], light: [...matching(files)] };
  const isHeavy = new Set(waiting.heavy);
  const running = new Map<string, Promise<{ readonly file: string; readonly events: readonly TestEvent[] }>>();
  const next = () => {
    const isTaken = [...running.keys()].some((file) => isHeavy.has(file));
    return (isTaken ? undefined : waiting.heavy.shift()) ?? waiting.light.shift() ?? waiting.heavy.shift();
  };
  for (;;) {
    while (running.size < concurrency) {
      const file = next();
      if (file === undefined) break;
      running.set(file, runAlone(file));
    }
    if (running.size === 0) return;
    const { file, events } = await Promise.race(running.values());
    running.delete(file);
    yield* events;
  }
}

async function runAlone(file: string): Promise<{ readonly file: string; readonly events: readonly TestEvent[] }> {
  const events: TestEvent[] = [];
  for await (const event of runFiles([file], 1)) if (!isOfRun(event)) events.push(event);
  return { file, events };
}

/** How many tests a run had and how long it took: of many runs of one file nobody wants to know. */
function isOfRun({ type, data }: TestEvent): boolean {
  if (type === "test:summary") return true;
  return type === "test:diagnostic" && data.nesting === 0 && data.file === undefined;
}

/** The same events, with what they say counted. */
async function* counted(events: AsyncIterable<TestEvent>): AsyncGenerator<TestEvent> {
  const suites = new Map<string, string>();
  for await (const event of events) {
    if (event.type === "test:start" && event.data.nesting === 0 && event.data.file !== undefined)
      suites.set(event.data.file, event.data.name);
    if (event.type === "test:pass" && event.data.details.type !== "suite") {
      const { file = "", skip } = event.data;
      if (skip !== undefined) tally.skipped++;
      else {
        tally.passed++;
        if (isReal(relative(root, file), suites.get(file) ?? "")) tally.real++;
      }
    }
    if (event.type === "test:fail" && event.data.details.type !== "suite") {
      tally.failed++;
      failures.push(`${relative(root, event.data.file ?? "")}: ${event.data.name}`);
    }
    yield event;
  }
}

/** Without networks of their own, the programs of Knative that two files start want the same ports. */
async function canRunSideBySide(): Promise<boolean> {
  const dataPlane = await findBuilt();
  return dataPlane === undefined || (await canConfine(dataPlane));
}

const say = (line: string) => console.log(line);

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

// Each file is a process, which would strip the types of every module anew: that is most of what a quick one costs.
process.env.NODE_COMPILE_CACHE ??= `${root}node_modules/.cache/node`;
const wanted = process.argv.slice(2);
const chosen = phases.filter(({ name }) => wanted.length === 0 || wanted.some((word) => name.includes(word)));
if (chosen.length === 0) {
  console.error(`no phase is called ${wanted.join(", ")}; there are: ${phases.map(({ name }) => name).join(", ")}`);
  process.exit(2);
}
const held = new Set(phases.flatMap(filesOf));
const forgotten = globSync("test/**/*.test.ts", { cwd: root }).filter((file) => !held.has(file));
if (forgotten.length > 0) {
  console.error(`no phase of test/all.ts holds ${forgotten.join(", ")}`);
  process.exit(2);
}
if (chosen.some(({ name }) => name === "control plane")) {
  await prepare(prepareControlPlane);
  await prepare(() => ensurePackages(say));
}
const startedMs = performance.now();
for (const phase of chosen) {
  console.log(`\n=== ${phase.name}`);
  await runPhase(phase);
}
for (const failure of failures) console.log(`failed: ${failure}`);
console.log(
  `\n${tally.real} cases ran against the real control plane, in ${((performance.now() - startedMs) / 1000).toFixed(0)} s for everything`,
);
console.log(`${tally.passed} passed, ${tally.failed} failed, ${tally.skipped} skipped`);
process.exitCode = tally.failed > 0 || tally.passed === 0 ? 1 : 0;
