/**
 * A thread that imports tests and the simulation over mutated sources, and activates a mutant while it runs a test. It changes
 * nothing on disk, and imports nothing twice.
 */
import { registerHooks } from "node:module";
import { pathToFileURL } from "node:url";
import { parentPort, workerData } from "node:worker_threads";
import { findMutants } from "./mutants.ts";
import { type DeclaredTest, declaring } from "./registry.ts";
import { state } from "./runtime.ts";
import { type Build, render } from "./schemata.ts";
import { loadSimulation, type Scenario, type Simulation } from "./simulated.ts";
import { attempt, catchStrays, runTest, type Trial } from "./trial.ts";

export interface ThreadData {
  readonly root: string;
  readonly build: Build;
  /** The mutant that is active from before the first import; 0 for none. */
  readonly on: number;
  readonly sources: readonly { readonly file: string; readonly text: string; readonly first: number }[];
  readonly simulation: string | undefined;
  /** Time by which the current work must have ended, in milliseconds since `baseMs`; 0: none. */
  readonly deadline: SharedArrayBuffer;
  readonly baseMs: number;
}

/** A step: a test of a file, a whole file, or a seed of a scenario. */
export type Step = Limits &
  (
    | { readonly kind: "test"; readonly file: string; readonly name: string }
    | { readonly kind: "file"; readonly file: string }
    | ({ readonly kind: "seed" } & Scenario)
  );

export interface Limits {
  readonly limitMs: number;
  /** How many turns the loops of the mutated sources may take together. */
  readonly mostTurns: number;
}

export interface Order {
  /** The mutant to activate; 0 while the sources are only recorded. */
  readonly on: number;
  readonly steps: readonly Step[];
}

export type WorkerMessage =
  | {
      readonly kind: "ran";
      readonly step: Step;
      readonly trial: Trial;
      readonly felt: readonly number[];
      readonly turns: number;
    }
  | { readonly kind: "imported"; readonly file: string; readonly felt: readonly number[] }
  /** Undefined if all steps passed. */
  | { readonly kind: "end"; readonly killed: Killed | undefined }
  /** The order could not be carried out, and no mutant is the cause. */
  | { readonly kind: "unable"; readonly why: string };

export interface Killed {
  readonly step: Step;
  readonly trial: Trial;
  /** False if the thread is no longer in its initial state. */
  readonly isClean: boolean;
}

const data = workerData as ThreadData;
const deadline = new Int32Array(data.deadline);
const runtime = new URL("./runtime.ts", import.meta.url).href;
const standIns: Readonly<Record<string, string>> = {
  "node:test": new URL("./node-test.ts", import.meta.url).href,
  "fast-check": new URL("./fast-check.js", import.meta.url).href,
};
/** This file does not exist on disk. Tests import it in place of fast-check. */
const fastCheck = `import fc from "fast-check"; import { withFewerRuns } from "./fewer-runs.ts"; export default withFewerRuns(fc);`;
const scripts = new Map(
  data.sources.map(({ file, text, first }) => [
    pathToFileURL(`${data.root}/${file}`).href,
    () => render(findMutants(file, text), first, data.build, runtime),
  ]),
);

registerHooks({
  resolve(specifier, context, next) {
    const url = standIns[specifier];
    return url === undefined || context.parentURL === url ? next(specifier, context) : { url, shortCircuit: true };
  },
  load(url, context, next) {
    if (url === standIns["fast-check"]) return { format: "module", source: fastCheck, shortCircuit: true };
    const script = scripts.get(url);
    if (script === undefined) return next(url, context);
    return { format: "module", source: script(), shortCircuit: true };
  },
});
Error.stackTraceLimit = 4;
catchStrays();

const imported = new Map<string, readonly DeclaredTest[]>();
let simulation: Promise<Simulation> | undefined;

async function testsOf(file: string): Promise<readonly DeclaredTest[]> {
  const known = imported.get(file);
  if (known !== undefined) return known;
  state.felt.clear();
  const declared = await declaring.read(file, () => import(pathToFileURL(`${data.root}/${file}`).href));
  imported.set(file, declared);
  post({ kind: "imported", file, felt: [...state.felt] });
  return declared;
}

function post(message: WorkerMessage): void {
  parentPort?.postMessage(message);
}

/** Runs under a limit that the parent also watches, because a thread in an endless loop runs no timer. */
async function limited(run: () => unknown, { limitMs, mostTurns }: Limits): Promise<Trial> {
  Atomics.store(deadline, 0, Date.now() - data.baseMs + limitMs * 2);
  state.felt.clear();
  state.turns = 0;
  state.mostTurns = mostTurns;
  const trial = await attempt(run, limitMs);
  Atomics.store(deadline, 0, 0);
  return trial;
}

async function runOf(step: Step): Promise<() => unknown> {
  if (step.kind === "seed") {
    simulation ??= loadSimulation(data.root, data.simulation ?? "");
    const { run } = await simulation;
    return () => run(step);
  }
  const tests = await testsOf(step.file);
  if (step.kind === "file") {
    return async () => {
      for (const test of tests) await runTest(test);
    };
  }
  const test = tests.find(({ name }) => name === step.name);
  if (test === undefined) throw new Error(`${step.file} has no test called ${step.name}`);
  return () => runTest(test);
}

async function runStep(step: Step, on: number): Promise<Trial> {
  const run = await runOf(step);
  state.on = on;
  try {
    return await limited(run, step);
  } finally {
    state.on = data.on;
    state.mostTurns = Number.POSITIVE_INFINITY;
  }
}

/** A step that takes longer depends on a real clock, and may fail on a busy machine by itself. */
const surelyQuickMs = 300;

/** A failure counts only if the step passes without the mutant. A failure that may be chance must occur twice. */
async function tryStep(step: Step, on: number): Promise<Killed | undefined> {
  const trial = await runStep(step, on);
  if (trial.failure === undefined) return undefined;
  if (data.on !== 0) return { step, trial, isClean: false };
  const isClean = (await runStep(step, 0)).failure === undefined;
  const mayBeChance = trial.isStray || trial.ms > surelyQuickMs;
  if (mayBeChance && isClean && (await runStep(step, on)).failure === undefined) return undefined;
  return { step, trial, isClean };
}

/** Records a file test by test. */
async function record(step: Step): Promise<void> {
  if (step.kind === "file") {
    for (const { name } of await testsOf(step.file)) await record({ ...step, kind: "test", name });
    return;
  }
  const trial = await runStep(step, 0);
  post({ kind: "ran", step, trial, felt: [...state.felt], turns: state.turns });
}

/** Runs each step, or stops at the first that the mutant fails. */
async function follow({ on, steps }: Order): Promise<Killed | undefined> {
  for (const step of steps) {
    if (data.build === "record") {
      await record(step);
      continue;
    }
    const killed = await tryStep(step, on);
    if (killed !== undefined) return killed;
  }
  return undefined;
}

state.on = data.on;
parentPort?.on("message", (order: Order) => {
  void follow(order).then(
    (killed) => post({ kind: "end", killed }),
    (error: unknown) => {
      const failure = error instanceof Error ? error.message : String(error);
      const trial = { failure, isHang: false, ms: 0, isStray: false };
      const [step] = order.steps;
      // A mutant that is active from the start may break an import.
      if (data.on !== 0 && step !== undefined) post({ kind: "end", killed: { step, trial, isClean: false } });
      else post({ kind: "unable", why: failure });
    },
  );
});
