/** `npm run bench -- status`: a storm of evictions with and without viewers of the status, and the time of a render. */
import { freePort, releasePorts } from "../../controlplane/ports.ts";
import { type Benchmark, runBenchmark, type Turn } from "../benchmark.ts";
import type { ContenderName } from "../contenders.ts";
import { restMs, withSetting, withWebhook } from "../eviction/setting.ts";
import { retryAfterMs, runStormIn, type StormFigures, stormInBrief, workers } from "../eviction/storm.ts";
import type { StatusOptions } from "../options.ts";
import { tailMs } from "../replacement.ts";
import { readyAfterMs, type Size } from "../sizes.ts";
import { seeded, shuffled, spreadOf } from "../statistics.ts";
import { aligned, spreadText } from "../table.ts";
import { runTrial, type TestBed, type Trial } from "../trial.ts";
import { keepsBound, measureRenders, type RenderFigures, renderSizes, renderTable } from "./renders.ts";
import { besideViewers, loadEveryMs, type ViewersReport, viewers } from "./viewers.ts";

export interface StatusFigures extends StormFigures {
  /** Undefined: there were none. */
  readonly seen: ViewersReport | undefined;
}

export interface StatusTrial extends Trial<StatusFigures> {
  readonly isViewed: boolean;
}

/** The p99 of the evictions with viewers, of that without. */
export const mostRatio = 1.1;

const contendersOf = ({ contenders = ["sluice"] }: StatusOptions) => contenders;

/** Resolves to the exit code: 0 if every trial ended and kept the bounds, else 1. */
export async function runStatusBench(options: StatusOptions, signal: AbortSignal): Promise<number> {
  let code = 0;
  if (options.parts.includes("renders")) {
    const renders: RenderFigures[] = [];
    for (const size of renderSizes) renders.push(await measureRenders(size));
    console.log(`${renderTable(renders)}\n`);
    if (!renders.every(keepsBound)) code = 1;
  }
  if (!options.parts.includes("viewers")) return code;
  return Math.max(code, await runBenchmark(statusBenchmark(options), options, signal));
}

export function statusBenchmark(options: StatusOptions): Benchmark<StatusTrial> {
  const { sizes, repeat, seed } = options;
  const random = seeded(seed);
  const rounds = Array.from({ length: repeat }, (_, index) => index + 1);
  const turnsOf = (contender: ContenderName, size: Size, round: number): Turn<StatusTrial>[] =>
    shuffled([false, true], random).map((isViewed) => ({
      contender,
      label: `${size.label} ${contender} ${isViewed ? `with ${viewers} viewers` : "without viewers"} ${round}/${repeat}`,
      run: (place) => runViewed(place, contender, size, isViewed),
    }));
  const pairs = sizes.flatMap((size) => contendersOf(options).map((contender) => ({ size, contender })));
  return {
    name: "status",
    method: method(options),
    settings: { restMs, tailMs, workers, retryAfterMs, viewers, loadEveryMs, mostRatio },
    turns: pairs.flatMap(({ size, contender }) => rounds.flatMap((round) => turnsOf(contender, size, round))),
    inBrief,
    tables: (trials) => pairs.map(({ size, contender }) => viewersTable(size, contender, trials)),
    isKept: (trials) =>
      pairs.every(({ size, contender }) => {
        const ratio = ratioOf(trialsOf(size, contender, trials));
        return ratio !== undefined && ratio <= mostRatio;
      }),
  };
}

async function runViewed(
  place: TestBed,
  contender: ContenderName,
  size: Size,
  isViewed: boolean,
): Promise<StatusTrial> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const trial = await runTrial(place, contender, size, (scene) =>
    withSetting(
      scene,
      (setting) =>
        withWebhook(setting, async () => {
          if (!isViewed) return { ...(await runStormIn(setting)), seen: undefined };
          const options = { url, count: viewers, everyMs: loadEveryMs };
          const { result, seen } = await besideViewers(options, () => runStormIn(setting));
          return { ...result, seen };
        }),
      { STATUS_LISTEN: `127.0.0.1:${port}` },
    ),
  );
  releasePorts(port);
  return { ...trial, isViewed };
}

function trialsOf(size: Size, name: ContenderName, trials: readonly StatusTrial[]): readonly StatusTrial[] {
  return trials.filter((trial) => trial.size === size.label && trial.contender === name);
}

type Value = (figures: StatusFigures) => number | undefined;

function valuesOf(trials: readonly StatusTrial[], isViewed: boolean, value: Value): number[] {
  const figures = trials.filter((trial) => trial.isViewed === isViewed).flatMap((trial) => trial.figures ?? []);
  return figures.flatMap((one) => value(one) ?? []);
}

const p99Ms: Value = ({ evictions }) => evictions.p99Ms;

/** The median with viewers, of the median without; undefined if one of them has no figures. */
export function ratioOf(trials: readonly StatusTrial[], value: Value = p99Ms): number | undefined {
  const [without, beside] = [false, true].map((isViewed) => valuesOf(trials, isViewed, value));
  if (!without?.length || !beside?.length) return undefined;
  return spreadOf(beside).median / spreadOf(without).median;
}

function inBrief(trial: StatusTrial): string {
  const { figures } = trial;
  const p99 = figures?.evictions.p99Ms?.toFixed(0) ?? "–";
  const seen = figures?.seen && `, ${figures.seen.pages} pages, ${figures.seen.errors} not`;
  return `p99 ${p99} ms${seen ?? ""}, ${stormInBrief(trial)}`;
}

/** `!` marks a broken bound. */
export function viewersTable(size: Size, name: ContenderName, all: readonly StatusTrial[]): string {
  const trials = trialsOf(size, name, all);
  const row = (label: string, value: Value, digits: number, atMost = Number.POSITIVE_INFINITY): string[] => {
    const cells = [false, true].map((isViewed) => {
      const values = valuesOf(trials, isViewed, value);
      return values.length === 0 ? "–" : spreadText(values, digits);
    });
    const ratio = ratioOf(trials, value);
    const isBroken = ratio === undefined ? atMost < Number.POSITIVE_INFINITY : ratio > atMost;
    const shown = ratio === undefined || !Number.isFinite(ratio) ? "–" : ratio.toFixed(2);
    return [label, ...cells, `${isBroken ? "! " : ""}${shown}`];
  };
  const lines = [
    [name, "without viewers", `with ${viewers}`, "ratio"],
    row("answer to an eviction, p99, ms", p99Ms, 0, mostRatio),
    row("answer to an eviction, p50, ms", ({ evictions }) => evictions.p50Ms, 0),
    row("time / limit", ({ timeOverLimit }) => timeOverLimit, 2),
    row("evictions refused with 429", ({ evictions }) => evictions.refused, 0),
    row("API requests per pod, Events included", ({ requestsPerPod }) => requestsPerPod, 2),
    row("CPU, seconds", ({ cpuSeconds }) => cpuSeconds, 2),
    row("resident memory, peak, MB", ({ peakResidentBytes }) => peakResidentBytes / 1_000_000, 0),
    row("pages seen", ({ seen }) => seen?.pages, 0),
    row("pages that did not come", ({ seen }) => seen?.errors, 0),
    row("a page, p50, ms", ({ seen }) => seen?.p50Ms, 1),
    row("a page, p99, ms", ({ seen }) => seen?.p99Ms, 1),
  ];
  const title = `The storm of ${size.label}, budget ${size.budget}, beside viewers of the status: the ratio may be ${mostRatio.toFixed(2)}`;
  return [title, ...aligned(lines).map((line) => `  ${line}`)].join("\n");
}

function method({ seed, gogc, repeat }: StatusOptions): string {
  return [
    `Pods are Ready ${readyAfterMs / 1000} s after creation. ${repeat} trials with viewers and as many without take turns, in random order in each`,
    `round (seed ${seed}), on one control plane, whose processes run with GOGC=${gogc}. Each trial has a namespace, a group with a`,
    `ZoneAwarePodDisruptionBudget, and a process of its own with STATUS_LISTEN, which has rested for ${restMs / 1000} s, so that no ledger is new.`,
    `Storm: ${workers} workers evict every pod through the API server, and ask again ${retryAfterMs} ms after a 429.`,
    `Viewers: ${viewers} clients, each with a connection that it keeps, GET the page every ${loadEveryMs / 1000} s, from before the storm to its end.`,
    "They run in the process that also has the load, the kubelets and the observer.",
  ].join("\n");
}
