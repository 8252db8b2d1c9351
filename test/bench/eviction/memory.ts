/** Measures whether memory stays flat over many reviews. */
import { setTimeout as delay } from "node:timers/promises";
import type { ContenderName } from "../contenders.ts";
import type { EvictionOptions } from "../options.ts";
import type { Size } from "../sizes.ts";
import { compare } from "../table.ts";
import { runTrial, type TestBed, type Trial } from "../trial.ts";
import { usageOf } from "../usage.ts";
import type { AnswerReport } from "./answers.ts";
import { Load } from "./load.ts";
import { refusing, type Setting, withSetting } from "./setting.ts";
import { type Sample, type Slope, slopeOf } from "./slope.ts";

export interface MemoryFigures extends AnswerReport, Slope {
  readonly samples: readonly Sample[];
}

export const memoryInFlight = 32;
const everyMs = 500;
const megabyte = 1_000_000;

/** Every second review is a dry run. */
export function runMemory(
  place: TestBed,
  name: ContenderName,
  size: Size,
  { reviews }: Pick<EvictionOptions, "reviews">,
): Promise<Trial<MemoryFigures>> {
  return runTrial(place, name, size, (scene) =>
    withSetting(scene, (setting) => sampleMemory(setting, reviews), refusing),
  );
}

async function sampleMemory(setting: Setting, reviews: number): Promise<MemoryFigures> {
  const load = new Load(setting, memoryInFlight);
  const samples: Sample[] = [];
  let answered = 0;
  const sample = async (): Promise<void> => {
    const { residentBytes } = await usageOf(setting.running.pid);
    samples.push({ reviews: answered, residentBytes });
  };
  const ended = new AbortController();
  const sampling = async (): Promise<void> => {
    while (!ended.signal.aborted) {
      await sample();
      await delay(everyMs, undefined, { signal: ended.signal }).catch(() => {});
    }
  };
  try {
    const running = load.run({
      inFlight: memoryInFlight,
      isDryRun: (number) => number % 2 === 0,
      enough: (count) => {
        answered = count;
        return count >= reviews;
      },
    });
    const [report] = await Promise.all([running.finally(() => ended.abort()), sampling()]);
    answered = report.answers;
    await sample();
    await setting.running.check();
    return { ...report, ...slopeOf(samples), samples };
  } finally {
    await load.close();
  }
}

export function memoryInBrief({ figures, failure, load }: Trial<MemoryFigures>): string {
  if (figures === undefined) return `failed: ${failure}`;
  const { firstBytes, lastBytes, peakBytes, answers, perSecond } = figures;
  const [first, last, peak] = [firstBytes, lastBytes, peakBytes].map((bytes) => (bytes / megabyte).toFixed(0));
  const sizes = `${first} MB at first, ${last} MB at last, ${peak} MB at most`;
  return `${answers} reviews, ${perSecond.toFixed(0)}/s, ${sizes} (load ${load.toFixed(1)})`;
}

export function memoryTable(
  size: Size,
  contenders: readonly ContenderName[],
  trials: readonly Trial<MemoryFigures>[],
  reviews: number,
): string {
  return [
    `Memory over ${reviews} reviews, ${memoryInFlight} in flight, every second one a dry run: ${size.label}`,
    ...compare(
      [
        { label: "reviews per second", value: ({ perSecond }) => perSecond, digits: 0 },
        { label: "p99, ms", value: ({ p99Ms }) => p99Ms, digits: 1 },
        { label: "allowed, of 100", value: ({ allowed, answers }) => (100 * allowed) / answers, digits: 1 },
        { label: "errors", value: ({ errors }) => errors, digits: 0, atMost: 0 },
        { label: "resident before the first, MB", value: ({ firstBytes }) => firstBytes / megabyte, digits: 1 },
        { label: "resident after a tenth, MB", value: ({ tenthBytes }) => tenthBytes / megabyte, digits: 1 },
        { label: "resident at half, MB", value: ({ halfBytes }) => halfBytes / megabyte, digits: 1 },
        { label: "resident at the end, MB", value: ({ lastBytes }) => lastBytes / megabyte, digits: 1 },
        { label: "resident at most, MB", value: ({ peakBytes }) => peakBytes / megabyte, digits: 1 },
        { label: "growth in the second half, MB per 10,000 reviews", value: growthOf, digits: 2 },
      ],
      contenders,
      trials,
    ),
  ].join("\n");
}

function growthOf({ bytesPerReview }: Slope): number {
  return (bytesPerReview * 10_000) / megabyte;
}
