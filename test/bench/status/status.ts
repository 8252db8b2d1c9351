/** `npm run bench -- status`: a storm of evictions with and without viewers of the status, and the time of a render. */
import { freePort, releasePorts } from "../../controlplane/ports.ts";
import { type Benchmark, report, runBenchmark, type Turn } from "../benchmark.ts";
import type { ContenderName } from "../contenders.ts";
import { listPods, restMs, type Setting, withSetting, withWebhook } from "../eviction/setting.ts";
import { retryAfterMs, runStormIn, type StormFigures, workers } from "../eviction/storm.ts";
import type { StatusOptions } from "../options.ts";
import { tailMs } from "../replacement.ts";
import { readyAfterMs, type Size } from "../sizes.ts";
import { seeded, shuffled, spreadOf } from "../statistics.ts";
import { aligned, spreadText } from "../table.ts";
import { runTrial, type TestBed, type Trial } from "../trial.ts";
import { keepsBound, measureRenders, type RenderFigures, renderSizes, renderTable } from "./renders.ts";
import { besideViewers, loadEveryMs, type ViewersReport, viewers } from "./viewers.ts";

/** A storm, and what the viewers beside it saw; undefined: there were none. */
export interface StatusStorm extends StormFigures {
  readonly seen: ViewersReport | undefined;
}

export type StatusTrial = Trial<{ readonly storms: readonly StatusStorm[] }>;

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
  const pairs = sizes.flatMap((size) => contendersOf(options).map((contender) => ({ size, contender })));
  return {
    name: "status",
    method: method(options),
    settings: { restMs, tailMs, workers, retryAfterMs, viewers, loadEveryMs, mostRatio },
    turns: pairs.map(({ size, contender }): Turn<StatusTrial> => {
      const order = orderOf(repeat, random);
      return {
        contender,
        label: `${size.label} ${contender}`,
        run: (place) => runStorms(place, contender, size, order),
      };
    }),
    inBrief: ({ figures, failure }) =>
      figures === undefined ? `failed: ${failure}` : `${figures.storms.length} storms`,
    tables: (trials) => pairs.map(({ size, contender }) => viewersTable(size, contender, trials)),
    isKept: (trials) =>
      pairs.every(({ size, contender }) => {
        const ratio = ratioOf(stormsOf(size, contender, trials));
        return ratio !== undefined && ratio <= mostRatio;
      }),
  };
}

/** Whether each storm has viewers: in each round one has them and one has none, in random order. */
export function orderOf(repeat: number, random: () => number): readonly boolean[] {
  return Array.from({ length: repeat }).flatMap(() => shuffled([false, true], random));
}

/** One process for all storms, because two processes on a shared machine differ by more than viewers do. */
async function runStorms(
  place: TestBed,
  contender: ContenderName,
  size: Size,
  order: readonly boolean[],
): Promise<StatusTrial> {
  const port = await freePort();
  const options = { url: `http://127.0.0.1:${port}`, count: viewers, everyMs: loadEveryMs };
  const storm = async (setting: Setting, isViewed: boolean): Promise<StatusStorm> => {
    const present = { ...setting, pods: await listPods(setting) };
    if (!isViewed) return { ...(await runStormIn(present)), seen: undefined };
    const { result, seen } = await besideViewers(options, () => runStormIn(present));
    return { ...result, seen };
  };
  const trial = await runTrial(place, contender, size, (scene) =>
    withSetting(
      scene,
      (setting) =>
        withWebhook(setting, async () => {
          // V8 has compiled what runs, as in a process that is older than a minute.
          report(`warm-up: ${inBrief(await storm(setting, true))}`);
          const storms: StatusStorm[] = [];
          for (const isViewed of order) {
            storms.push(await storm(setting, isViewed));
            report(`${storms.length}/${order.length}: ${inBrief(storms.at(-1))}`);
          }
          return { storms };
        }),
      { STATUS_LISTEN: `127.0.0.1:${port}` },
    ),
  );
  releasePorts(port);
  return trial;
}

function stormsOf(size: Size, name: ContenderName, trials: readonly StatusTrial[]): readonly StatusStorm[] {
  const own = trials.filter((trial) => trial.size === size.label && trial.contender === name);
  return own.flatMap(({ figures }) => figures?.storms ?? []);
}

type Value = (storm: StatusStorm) => number | undefined;

function valuesOf(storms: readonly StatusStorm[], isViewed: boolean, value: Value): number[] {
  return storms.filter(({ seen }) => (seen !== undefined) === isViewed).flatMap((storm) => value(storm) ?? []);
}

const p99Ms: Value = ({ evictions }) => evictions.p99Ms;

/** The median with viewers, of the median without; undefined if one of them has no figures. */
export function ratioOf(storms: readonly StatusStorm[], value: Value = p99Ms): number | undefined {
  const [without, beside] = [false, true].map((isViewed) => valuesOf(storms, isViewed, value));
  if (!without?.length || !beside?.length) return undefined;
  return spreadOf(beside).median / spreadOf(without).median;
}

function inBrief(storm: StatusStorm | undefined): string {
  if (storm === undefined) return "";
  const { evictions, seen, timeOverLimit, mostDown } = storm;
  const beside = seen === undefined ? "without viewers" : `${seen.pages} pages, ${seen.errors} not`;
  return `p99 ${evictions.p99Ms?.toFixed(0)} ms, ${beside}, ${evictions.refused} refusals, ${evictions.errors} errors, time/limit ${timeOverLimit.toFixed(2)}, ${mostDown} down`;
}

/** `!` marks a broken bound. */
export function viewersTable(size: Size, name: ContenderName, trials: readonly StatusTrial[]): string {
  const storms = stormsOf(size, name, trials);
  const row = (label: string, value: Value, digits: number, atMost = Number.POSITIVE_INFINITY): string[] => {
    const cells = [false, true].map((isViewed) => {
      const values = valuesOf(storms, isViewed, value);
      return values.length === 0 ? "–" : spreadText(values, digits);
    });
    const ratio = ratioOf(storms, value);
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
    row("evictions that failed", ({ evictions }) => evictions.errors, 0),
    row("pods of a zone down at once", ({ mostDown }) => mostDown, 0),
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
    `Pods are Ready ${readyAfterMs / 1000} s after creation. ${repeat} storms with viewers and as many without take turns, in random order in each`,
    `round (seed ${seed}), on one process with STATUS_LISTEN, which has rested for ${restMs / 1000} s, and on a group with a`,
    `ZoneAwarePodDisruptionBudget. A storm before them is not counted. The control plane runs with GOGC=${gogc}.`,
    `Storm: ${workers} workers evict every pod through the API server, and ask again ${retryAfterMs} ms after a 429.`,
    `Viewers: ${viewers} clients, each with a connection that it keeps, GET the page every ${loadEveryMs / 1000} s, from before the storm to its end.`,
    "They run in the process that also has the load, the kubelets and the observer.",
  ].join("\n");
}
