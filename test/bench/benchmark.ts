/**
 * Runs a benchmark: starts a control plane, runs the trials in order, prints the tables, and writes a file with all figures.
 */
import { execFile } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { promisify } from "node:util";
import { type ControlPlane, ensureAssets, ensurePeer, startControlPlane } from "../controlplane/controlplane.ts";
import { against, type ContenderName } from "./contenders.ts";
import { describeMachine, introduce, loadBefore, type Machine } from "./machine.ts";
import type { SharedOptions } from "./options.ts";
import { buildShipped, type Shipped } from "./shipped.ts";
import { readyAfterMs, type Size } from "./sizes.ts";
import { shuffled } from "./statistics.ts";
import type { TestBed, Trial } from "./trial.ts";

/** A trial that is still to run. */
export interface Turn<T> {
  readonly contender: ContenderName;
  readonly label: string;
  run(place: TestBed): Promise<T>;
}

/** What a benchmark measures, and how it prints that. */
export interface Benchmark<T extends Trial<unknown>> {
  readonly name: string;
  /** How the figures are measured, which is the same for every contender. */
  readonly method: string;
  /** Settings for the file with all figures. */
  readonly settings: object;
  /** Trials in the order in which they run. */
  readonly turns: readonly Turn<T>[];
  inBrief(trial: T): string;
  tables(trials: readonly T[]): string[];
  /** False if the figures break a bound. Absent: there is none that ends the bench with 1. */
  isKept?(trials: readonly T[]): boolean;
}

/** Every contender at every size, `repeat` times. In each round they take turns in random order. */
export function takeTurns<T>(
  { sizes, repeat, what, random }: Pick<SharedOptions, "sizes" | "repeat"> & { what: string; random: () => number },
  contendersOf: (size: Size) => readonly ContenderName[],
  run: (place: TestBed, contender: ContenderName, size: Size) => Promise<T>,
): Turn<T>[] {
  const rounds = Array.from({ length: repeat }, (_, index) => index + 1);
  return sizes.flatMap((size) =>
    rounds.flatMap((round) =>
      shuffled(contendersOf(size), random).map((contender) => ({
        contender,
        label: `${what} ${size.label} ${contender} ${round}/${repeat}`,
        run: (place) => run(place, contender, size),
      })),
    ),
  );
}

export const report = (line: string): void => console.error(line);

const repository = resolve(import.meta.dirname, "../..");

/** Resolves to the exit code: 0 if every trial ended and kept the bounds, else 1. Throws if there is no control plane. */
export async function runBenchmark<T extends Trial<unknown>>(
  benchmark: Benchmark<T>,
  options: SharedOptions,
  signal: AbortSignal,
): Promise<number> {
  const load = loadBefore();
  const assets = await ensureAssets(report);
  signal.throwIfAborted();
  const controlPlane = await startWithGogc(options, assets, signal);
  let machine: Machine;
  let trials: T[];
  try {
    machine = await describeMachine(controlPlane, load, options.against);
    console.log(`${introduce(machine)}\n${benchmark.method}\n`);
    const lost = controlPlane.lost.then(({ explanation }) => {
      throw new Error(explanation);
    });
    trials = await Promise.race([runTurns(benchmark, options, controlPlane, signal), lost, rejected(signal)]);
  } finally {
    await controlPlane.stop();
  }
  for (const table of benchmark.tables(trials)) console.log(`${table}\n`);
  const file = await writeResults(benchmark, options, machine, trials);
  console.log(`Median (least–most). "!" marks a promise that was broken. All figures: ${file}`);
  const isKept = benchmark.isKept?.(trials) ?? true;
  return isKept && trials.every(({ figures }) => figures !== undefined) ? 0 : 1;
}

async function runTurns<T extends Trial<unknown>>(
  { turns, inBrief }: Benchmark<T>,
  { profiles, nodeFlags: more, against: other }: SharedOptions,
  controlPlane: ControlPlane,
  signal: AbortSignal,
): Promise<T[]> {
  const needsPeer = turns.some(({ contender }) => contender.startsWith("peer-"));
  const peerBinary = needsPeer ? (await ensurePeer(report)).binary : undefined;
  // The peer waits until they exist.
  const crds = resolve(repository, "knative/base/crds");
  await promisify(execFile)(controlPlane.kubectl, ["--kubeconfig", controlPlane.kubeconfig, "apply", "-k", crds]);
  const shipped = await buildSluices(turns, other, more);
  const trials: T[] = [];
  try {
    for (const turn of turns) {
      const nodeFlags = profilingOf(turn.contender, profiles);
      const number = trials.length + 1;
      const trial = await turn.run({ controlPlane, peerBinary, shipped, number, nodeFlags, signal });
      trials.push(trial);
      report(`${turn.label}: ${inBrief(trial)}`);
    }
  } finally {
    for (const { remove } of shipped.values()) await remove();
  }
  return trials;
}

/** Builds each Sluice that takes part. */
async function buildSluices(
  turns: readonly Turn<unknown>[],
  other: string | undefined,
  nodeFlags: readonly string[],
): Promise<Map<ContenderName, Shipped>> {
  const names = new Set(turns.map(({ contender }) => contender).filter((name) => name.startsWith("sluice")));
  const built = new Map<string, Shipped>();
  const shipped = new Map<ContenderName, Shipped>();
  for (const name of names) {
    const directory = name === against ? other : repository;
    if (directory === undefined) throw new Error(`${against} has no checkout; name one with --against`);
    report(`building ${name}`);
    const one = built.get(directory) ?? (await buildShipped(directory, nodeFlags));
    built.set(directory, one);
    shipped.set(name, one);
  }
  return shipped;
}

/** Profiles of two checkouts are never mixed: those of the other have a folder of their own. */
function profilingOf(contender: ContenderName, profiles: string | undefined): string[] {
  if (profiles === undefined) return [];
  return ["--cpu-prof", `--cpu-prof-dir=${resolve(profiles, contender === against ? against : "")}`];
}

/** Children inherit the environment; the contenders must not get GOGC. */
async function startWithGogc(
  { gogc, fairness }: Pick<SharedOptions, "gogc" | "fairness">,
  assets: string,
  signal: AbortSignal,
): Promise<ControlPlane> {
  const before = process.env.GOGC;
  process.env.GOGC = String(gogc);
  try {
    return await startControlPlane({ assets, signal, fairness, log: report, podsReadyAfterMs: readyAfterMs });
  } finally {
    if (before === undefined) delete process.env.GOGC;
    else process.env.GOGC = before;
  }
}

/** Rejects when the signal is aborted, and never resolves. */
export function rejected(signal: AbortSignal): Promise<never> {
  return new Promise((_, fail) => {
    if (signal.aborted) fail(signal.reason);
    signal.addEventListener("abort", () => fail(signal.reason), { once: true });
  });
}

async function writeResults<T extends Trial<unknown>>(
  { name, settings }: Benchmark<T>,
  { sizes, repeat, seed, gogc, fairness, nodeFlags, json }: SharedOptions,
  machine: Machine,
  trials: readonly T[],
): Promise<string> {
  const all = { sizes, repeat, seed, gogc, fairness, nodeFlags, readyAfterMs, ...settings };
  return writeFigures(name, json, { machine, settings: all, trials });
}

/**
 * Writes all figures of a benchmark, and resolves to their file.
 *
 * @param json the file; undefined: a new one under `bench-results/`
 */
export async function writeFigures(name: string, json: string | undefined, figures: object): Promise<string> {
  const at = new Date().toISOString();
  const file = resolve(
    json ?? resolve(repository, "bench-results", `${name}-${at.slice(0, 19).replaceAll(":", "")}.json`),
  );
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, `${JSON.stringify({ at, ...figures }, undefined, 2)}\n`);
  return file;
}
