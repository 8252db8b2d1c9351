/** Measures how reviews of pods that do not exist slow down reviews of existing pods: both at once, from two processes. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import type { ContenderName } from "../contenders.ts";
import type { EvictionOptions } from "../options.ts";
import type { Size } from "../sizes.ts";
import { compare } from "../table.ts";
import { runTrial, type TestBed, type Trial } from "../trial.ts";
import { usageOf } from "../usage.ts";
import type { AnswerReport } from "./answers.ts";
import type { ForgerOptions } from "./forger.ts";
import { Load } from "./load.ts";
import { refusing, type Setting, withSetting } from "./setting.ts";

export interface ForgedFigures {
  /** Honest reviews alone. */
  readonly alone: AnswerReport;
  /** Honest reviews beside the forged ones. */
  readonly beside: AnswerReport;
  readonly forgedPerSecond: number;
  readonly residentBytes: number;
}

/** Number of forged and of honest reviews in flight. */
export const forgedInFlight = 6_000;
export const honestInFlight = 8;
/** How many times slower the slowest of a hundred honest reviews may become. */
export const mostTimes = 5;
const warmUpMs = 1_000;
/** Time after every forged review has been answered once, so that all connections are open. */
const settleMs = 2_000;
const underWayWithinMs = 120_000;

export function runForged(
  place: TestBed,
  name: ContenderName,
  size: Size,
  { seconds }: Pick<EvictionOptions, "seconds">,
): Promise<Trial<ForgedFigures>> {
  return runTrial(place, name, size, (scene) =>
    withSetting(scene, (setting) => measure(setting, seconds * 1_000), refusing),
  );
}

async function measure(setting: Setting, measuredMs: number): Promise<ForgedFigures> {
  const load = new Load(setting, honestInFlight);
  const runFor = (ms: number): Promise<AnswerReport> => {
    const endMs = performance.now() + ms;
    return load.run({ inFlight: honestInFlight, isDryRun: () => false, enough: () => performance.now() >= endMs });
  };
  try {
    await runFor(warmUpMs);
    const alone = await runFor(measuredMs);
    const forger = await Forger.start(setting);
    try {
      await delay(settleMs);
      const [before, startedMs] = [forger.answered, performance.now()];
      const beside = await runFor(measuredMs);
      const forgedPerSecond = (forger.answered - before) / ((performance.now() - startedMs) / 1_000);
      await setting.running.check();
      const { residentBytes } = await usageOf(setting.running.pid);
      return { alone, beside, forgedPerSecond, residentBytes };
    } finally {
      forger.end();
    }
  } finally {
    await load.close();
  }
}

/** The forged reviews come from a process of their own, so that its work does not look like slowness of the honest answers. */
class Forger {
  readonly #child: ChildProcess;
  answered = 0;

  private constructor(child: ChildProcess) {
    this.#child = child;
    child.on("message", (answered: number) => {
      this.answered = answered;
    });
  }

  /** Resolves once as many have been answered as are in flight. Throws if that does not happen. */
  static async start({ reviewsUrl, ca, group: { namespace } }: Setting): Promise<Forger> {
    const options: ForgerOptions = { reviewsUrl, ca, namespace, inFlight: forgedInFlight };
    const child = fork(new URL("./forger.ts", import.meta.url), [JSON.stringify(options)]);
    const forger = new Forger(child);
    const signal = AbortSignal.timeout(underWayWithinMs);
    try {
      while (forger.answered < forgedInFlight) await once(child, "message", { signal });
    } catch {
      forger.end();
      throw new Error(`${forger.answered} forged reviews were answered, of ${forgedInFlight} that should be in flight`);
    }
    return forger;
  }

  end(): void {
    this.#child.kill("SIGKILL");
  }
}

export function forgedInBrief({ figures, failure, load }: Trial<ForgedFigures>): string {
  if (figures === undefined) return `failed: ${failure}`;
  const { alone, beside } = figures;
  const times = timesOf(figures)?.toFixed(1);
  return `p99 ${alone.p99Ms?.toFixed(1)} ms alone, ${beside.p99Ms?.toFixed(1)} ms beside: ${times} times (load ${load.toFixed(1)})`;
}

export function forgedTable(
  size: Size,
  contenders: readonly ContenderName[],
  trials: readonly Trial<ForgedFigures>[],
): string {
  return [
    `${honestInFlight} honest reviews in flight beside ${forgedInFlight} of pods that there are not: ${size.label}`,
    ...compare<ForgedFigures>(
      [
        { label: "p50 alone, ms", value: ({ alone }) => alone.p50Ms, digits: 1 },
        { label: "p99 alone, ms", value: ({ alone }) => alone.p99Ms, digits: 1 },
        { label: "p50 beside, ms", value: ({ beside }) => beside.p50Ms, digits: 1 },
        { label: "p99 beside, ms", value: ({ beside }) => beside.p99Ms, digits: 1 },
        { label: "p99 beside, of that alone", value: timesOf, digits: 2, atMost: mostTimes },
        { label: "honest reviews per second alone", value: ({ alone }) => alone.perSecond, digits: 0 },
        { label: "honest reviews per second beside", value: ({ beside }) => beside.perSecond, digits: 0 },
        { label: "errors", value: ({ beside }) => beside.errors, digits: 0, atMost: 0 },
        { label: "forged reviews answered per second", value: ({ forgedPerSecond }) => forgedPerSecond, digits: 0 },
        { label: "resident beside, MB", value: ({ residentBytes }) => residentBytes / 1_000_000, digits: 0 },
      ],
      contenders,
      trials,
    ),
  ].join("\n");
}

function timesOf({ alone, beside }: ForgedFigures): number | undefined {
  return alone.p99Ms === undefined || beside.p99Ms === undefined ? undefined : beside.p99Ms / alone.p99Ms;
}
