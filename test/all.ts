/**
 * `npm test`: every test that can run here, the quick ones first, those on a real control plane last. A file of those phases
 * which fails runs once more, alone, in the end: if it passes then, it is flaky, which is a defect to be mended.
 *
 * The control plane and Knative's programs are built once, when Go is at hand. RabbitMQ is loaded once, where there is apt, and
 * OpenSearch, where there are Java and Maven. A browser is loaded once, where there is none and there is apt.
 * Where they cannot be had, their suites are skipped and the summary says so; with CI=true that is a failure.
 */
import { globSync } from "node:fs";
import { availableParallelism } from "node:os";
import { Readable } from "node:stream";
import { spec, type TestEvent } from "node:test/reporters";
import { ensureBrowser } from "./browser/program.ts";
import { ensureHelms, hasHelms, type KUBERNETES } from "./controlplane/assets.ts";
import { ensureAssets, findAssets } from "./controlplane/controlplane.ts";
import { findBuilt, findDataPlane } from "./knative/dataplane/assets.ts";
import { canConfine } from "./knative/dataplane/confinement.ts";
import { ensureDatabases } from "./opensearch/program.ts";
import { buildServer } from "./runner/built.ts";
import { costAfter, readCosts, writeCosts, writeTable } from "./runner/costs.ts";
import { type Job, runQueue, watchIdle } from "./runner/files.ts";
import { isFailed, type Outcome, slowest, summarize } from "./runner/outcome.ts";
import { Queue, type Waiting } from "./runner/queue.ts";
import { Usage } from "./runner/usage.ts";
import { ensurePackages } from "./support/packages.ts";

/** Test files of one kind. */
interface Kind {
  readonly files: readonly string[];
  /** The part of one processor that such a file takes, until it has been measured. */
  readonly share: number;
  /** Of these one runs at a time. */
  readonly group?: string;
  /** All of them run in one process for each processor. */
  readonly isBatched?: boolean;
  /** For Node. */
  readonly flags?: readonly string[];
}

interface Phase {
  readonly name: string;
  /** A file belongs to the first kind that names it. */
  readonly kinds: readonly Kind[];
  /** Whether a file that fails runs once more: it depends on how busy the machine is. */
  readonly isTriedAgain?: boolean;
  /** Whether its files start the server so often that it is built for them first, as the image has it. */
  readonly startsServers?: boolean;
  /** Its files run beside those of the phase before it, in one queue. Only then is no processor idle while one file ends. */
  readonly isBeside?: boolean;
  /** Of which Kubernetes their control plane is. Default: what `SLUICE_TEST_KUBERNETES` says, or else the newest. */
  readonly kubernetes?: keyof typeof KUBERNETES;
}

/** node:test follows each promise of a process, which takes half of the time if there are millions. */
const untracked = "--import=./test/runner/untracked.ts";
/** The kernel runs these files before all other processes. */
const undelayed = ["--import=./test/runner/undelayed.ts"];
/** Processes that make much garbage, one for each processor: more threads would not help them. */
const collecting = ["--max-semi-space-size=64", "--single-threaded-gc"];

/** Part of a processor that stays free while files have time limits: shares are averages, and peaks coincide. */
const headroom = 0.2;

/** The phases run one after another, and the files of a phase side by side, as many as the processors allow. */
const phases: readonly Phase[] = [
  {
    name: "unit",
    kinds: [
      // These files count calls of the process's own crypto, which other tests may still have under way.
      { files: ["test/unit/functions/rotate-certificate/*.test.ts"], share: 1 },
      // These files wait half of their time: for time limits of servers, and for other processes.
      { files: ["test/unit/**/*.test.ts"], share: 0.5, isBatched: true },
      { files: ["test/property/**/*.test.ts"], share: 1, flags: [untracked] },
      {
        files: ["test/{tidy,rooms,words,phrases,entries}.test.ts", "test/{fake-cluster,mutation,runner}/**/*.test.ts"],
        share: 1,
      },
    ],
  },
  // Half of what a process's first hundred seeds cost is that V8 compiles their code: so there are few processes.
  {
    name: "simulation",
    kinds: [
      // This file compares with what simulations replace in their process.
      { files: ["test/simulation/light-abort.test.ts"], share: 1 },
      {
        files: ["test/simulation/**/*.test.ts"],
        share: 1,
        isBatched: true,
        // Refusals are ordinary in a simulation, and no reader needs the stack of each.
        flags: [untracked, ...collecting, "--always-sparkplug", "--stack-trace-limit=0"],
      },
    ],
  },
  { name: "demo and bench", kinds: [{ files: ["test/{demo,bench}/**/*.test.ts"], share: 1, group: "measured" }] },
  // The attack measures what is left of the machine for honest requests, so nothing runs beside it.
  { name: "attack", kinds: [{ files: ["test/attack/**/*.test.ts"], share: 1, group: "measured" }] },
  {
    name: "control plane",
    kinds: [
      // These files start Knative's programs, whose own time-outs end if two files want the same processor.
      {
        files: [
          "test/knative/{rollout,webhook-sources,written-back}.test.ts",
          "test/knative/{cluster,dataplane}/**/*.test.ts",
        ],
        share: 1,
        group: "knative",
      },
      { files: ["test/rabbitmq/**/*.test.ts"], share: 0.6, group: "rabbitmq" },
      // Each of these files starts up to three Java virtual machines, with 225 MB each.
      { files: ["test/opensearch/**/*.test.ts"], share: 1, group: "opensearch" },
      { files: ["test/browser/**/*.test.ts"], share: 0.9, group: "browser" },
      // These files wait most of their time, and start many small processes.
      { files: ["test/process-manager/**/*.test.ts"], share: 0.6 },
      // In these files kubectl applies whole overlays, and Helm renders the chart, again and again.
      { files: ["test/{knative,chart}/**/*.test.ts"], share: 0.9 },
      // These files wait most of their time.
      { files: ["test/{e2e,contract,controlplane,image}/**/*.test.ts"], share: 0.5 },
    ],
    isTriedAgain: true,
    startsServers: true,
  },
  {
    name: "oldest Kubernetes",
    isBeside: true,
    // What is shipped is applied, its policies and match conditions decide, and each account uses its rights.
    kinds: [
      { files: ["test/oldest/**/*.test.ts", "test/chart/install.test.ts"], share: 0.5 },
      { files: ["test/knative/{escapes,guard,overlays,presets,rights,standalone}.test.ts"], share: 0.9 },
    ],
    isTriedAgain: true,
    startsServers: true,
    kubernetes: "oldest",
  },
  // Their machines have watchdogs of a second, and go before all else. Files beside them would miss their own time limits: two of
  // these files run at once, and no others.
  {
    name: "fencing",
    kinds: [
      { files: ["test/fencing/{groups,killed,partitions}.test.ts"], share: 0.6, group: "cuts", flags: undelayed },
      { files: ["test/fencing/**/*.test.ts"], share: 0.6, group: "fencing", flags: undelayed },
    ],
    isTriedAgain: true,
    startsServers: true,
  },
];

const root = new URL("..", import.meta.url).pathname;
const costsPath = `${root}node_modules/.cache/test-costs.json`;
const tablePath = `${root}test/runner/costs.json`;
const costs = new Map([...readCosts(tablePath), ...readCosts(costsPath)]);
const processors = availableParallelism();
const log = (line: string) => console.log(line);

/** The files in the order of the patterns, each once. */
function matching(patterns: readonly string[]): readonly string[] {
  return [...new Set(patterns.flatMap((pattern) => globSync(pattern, { cwd: root }).sort()))];
}

const filesOf = ({ kinds }: Phase): readonly string[] => matching(kinds.flatMap(({ files }) => files));

/** What the costs and the outcome of a file are called in a phase: the same file may run on another Kubernetes, too. */
const nameIn = ({ kubernetes }: Phase, file: string): string =>
  kubernetes === undefined ? file : `${file} on the ${kubernetes} Kubernetes`;

/** One batch for each processor, each of which takes about as long. A batch of one file is called as the file. */
function batchesOf(name: string, files: readonly string[]): readonly Job[] {
  const batches = Array.from({ length: processors }, (_, index) => {
    return { name: `${name}, batch ${index + 1}`, files: [] as string[], tookMs: 0 };
  });
  const tookMs = (file: string) => costs.get(file)?.tookMs ?? 0;
  for (const file of files.toSorted((one, other) => tookMs(other) - tookMs(one))) {
    const least = batches.reduce((one, other) => (load(other) < load(one) ? other : one));
    least.files.push(file);
    least.tookMs += tookMs(file);
  }
  return batches
    .filter(({ files }) => files.length > 0)
    .map(({ name: all, files }) => ({ name: files.length === 1 ? (files[0] ?? all) : all, files }));
}

/** The work of a batch: its time if it is known, otherwise the number of its files. */
const load = ({ files, tookMs }: { readonly files: readonly string[]; readonly tookMs: number }): number =>
  tookMs + files.length;

interface Work {
  readonly queue: Queue;
  readonly jobs: ReadonlyMap<string, Job>;
  /** Absent: the shares of files count, whatever they use. */
  readonly usage?: Usage | undefined;
}

/** @param isAlone true if no two files may run side by side */
function workOf(phases: readonly Phase[], isAlone: boolean): Work {
  const jobs = new Map<string, Job>();
  const waiting = phases.flatMap((phase) => waitingOf(phase, jobs));
  const isTriedAgain = phases.some((phase) => phase.isTriedAgain === true);
  const queue = new Queue(waiting, isAlone ? 0 : processors - (isTriedAgain ? headroom : 0));
  // Elsewhere files hardly wait, so that they use their shares all the time.
  return { queue, jobs, usage: isTriedAgain ? Usage.ofMachine() : undefined };
}

/** @param jobs gets those of the phase, by name */
function waitingOf(phase: Phase, jobs: Map<string, Job>): readonly Waiting[] {
  const seen = new Set<string>();
  const env: Job["env"] = phase.kubernetes === undefined ? {} : { SLUICE_TEST_KUBERNETES: phase.kubernetes };
  return phase.kinds.flatMap(({ files, share, group, isBatched = false, flags = [] }) => {
    const own = matching(files).filter((file) => !seen.has(file));
    for (const file of own) seen.add(file);
    const single = (file: string): Job => ({ name: nameIn(phase, file), files: [file] });
    return (isBatched ? batchesOf(phase.name, own) : own.map(single)).map((job): Waiting => {
      jobs.set(job.name, { ...job, flags, env });
      const cost = costs.get(job.name);
      const tookMs = isBatched ? Number.MAX_VALUE : cost?.tookMs;
      return { file: job.name, tookMs, share: Math.min(processors, cost?.share ?? share), group };
    });
  });
}

/** The phases whose files run in one queue, in their order. */
function queuedTogether(chosen: readonly Phase[]): readonly (readonly Phase[])[] {
  const together: Phase[][] = [];
  for (const phase of chosen) {
    const last = together.at(-1);
    const isNext = last !== undefined && last.at(-1) === phases[phases.indexOf(phase) - 1];
    if (phase.isBeside === true && isNext) last.push(phase);
    else together.push([phase]);
  }
  return together;
}

/** Reports each file when it has ended, and collects its results. */
async function* played({ queue, jobs, usage }: Work, collected: Outcome[]): AsyncGenerator<TestEvent> {
  for await (const { events, outcomes } of runQueue(root, queue, jobs, usage)) {
    collected.push(...outcomes);
    for (const { file, tookMs, cpuMs } of outcomes) costs.set(file, costAfter(costs.get(file), tookMs, cpuMs));
    yield* events;
  }
}

async function runFiles(work: Work): Promise<readonly Outcome[]> {
  const outcomes: Outcome[] = [];
  for await (const text of Readable.from(played(work, outcomes)).compose(spec)) process.stdout.write(text);
  return outcomes;
}

/** Runs each of these jobs alone. */
function runAlone(names: readonly string[], { jobs }: Work): Promise<readonly Outcome[]> {
  const waiting = names.map((file) => ({ file, share: 1, tookMs: undefined }));
  return runFiles({ queue: new Queue(waiting, 0), jobs });
}

/** Without separate networks, the programs of Knative that two files start want the same ports. */
async function canRunSideBySide(): Promise<boolean> {
  const dataPlane = await findBuilt();
  return dataPlane === undefined || (await canConfine(dataPlane));
}

/** Builds the control plane and Knative's programs if they are missing. */
async function prepareControlPlane(): Promise<void> {
  if ((await findAssets()) === undefined) {
    log("the control plane for tests is built once, which takes about five minutes …");
    await ensureAssets(log);
  }
  if ((await findBuilt()) === undefined) {
    log("Knative's programs for tests are built once, which takes about five minutes …");
    await findDataPlane(log);
  }
  if (!(await hasHelms())) {
    log("both versions of Helm for tests are built once, which takes about eight minutes …");
    await ensureHelms(log);
  }
}

/** Builds the oldest Kubernetes when it is missing. */
async function prepareOldest(): Promise<void> {
  if ((await findAssets("oldest")) !== undefined) return;
  log("the oldest Kubernetes for tests is built once, which takes about ten minutes …");
  await ensureAssets(log, "oldest");
}

/** Does what the run needs once, and reports why if it cannot. */
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
    for (const file of filesOf(phase)) {
      const { tookMs, share } = costs.get(nameIn(phase, file)) ?? {};
      const part = share === undefined ? "-" : `${(share * 100).toFixed(0)} %`;
      console.log(`${phase.name}\t${inSeconds(tookMs)}\t${part}\t${file}`);
    }
}

function reportMistake(mistake: string): void {
  console.error(mistake);
  process.exitCode = 2;
}

async function runPhases(chosen: readonly Phase[]): Promise<void> {
  if (chosen.some(({ isTriedAgain }) => isTriedAgain)) {
    await prepare(prepareControlPlane);
    await prepare(() => ensurePackages(log));
    await prepare(() => ensureDatabases(log));
    await prepare(() => ensureBrowser(log));
  }
  if (chosen.some(({ kubernetes }) => kubernetes === "oldest")) await prepare(prepareOldest);
  const startedMs = performance.now();
  const idle = watchIdle();
  const outcomes: Outcome[] = [];
  const again: Outcome[] = [];
  let server: Promise<string> | undefined;
  for (const side of queuedTogether(chosen)) {
    const name = side.map((phase) => phase.name).join(", ");
    console.log(`\n=== ${name}`);
    if (side.some(({ startsServers }) => startsServers === true)) {
      server ??= buildServer(root, `${root}node_modules/.cache/test-server`);
      process.env.SLUICE_TEST_SERVER = await server;
    }
    const phaseMs = performance.now();
    const isTriedAgain = side.some((phase) => phase.isTriedAgain === true);
    const work = workOf(side, isTriedAgain && !(await canRunSideBySide()));
    const ended = await runFiles(work);
    outcomes.push(...ended);
    console.log(`${name}: ${ended.length} files in ${inSeconds(performance.now() - phaseMs)}`);
    const failed = isTriedAgain ? ended.filter(isFailed).map(({ file }) => file) : [];
    if (failed.length === 0) continue;
    console.log(`\n=== once more, alone: ${failed.join(", ")}`);
    again.push(...(await runAlone(failed, work)));
  }
  writeCosts(costsPath, costs);
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

// Each file is a process, which would strip the types of every module again: most of what a quick file costs.
process.env.NODE_COMPILE_CACHE ??= `${root}node_modules/.cache/node`;
const options = new Set(["--list", "--costs"]);
const wanted = process.argv.slice(2).filter((word) => !options.has(word));
const chosen = phases.filter(({ name }) => wanted.length === 0 || wanted.some((word) => name.includes(word)));
const covered = new Set(phases.flatMap(filesOf));
const forgotten = globSync("test/**/*.test.ts", { cwd: root }).filter((file) => !covered.has(file));
if (chosen.length === 0)
  reportMistake(`no phase is called ${wanted.join(", ")}; there are: ${phases.map(({ name }) => name).join(", ")}`);
else if (forgotten.length > 0) reportMistake(`no phase of test/all.ts holds ${forgotten.join(", ")}`);
else if (process.argv.includes("--list")) list(chosen);
else if (process.argv.includes("--costs")) writeTable(tablePath, costs, covered);
else await runPhases(chosen);
