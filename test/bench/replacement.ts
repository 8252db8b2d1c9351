/** Every pod of a group is replaced, for whatever reason: measures how long that takes, and what is down meanwhile. */
import { setTimeout as delay } from "node:timers/promises";
import type { Contender, ContenderName } from "./contenders.ts";
import { type Observation, Observer } from "./observer.ts";
import { describeSize, limitMs, podsOf, type Size } from "./sizes.ts";
import { compare, figuresOf, type Row } from "./table.ts";
import type { ObservedPod, TallyOptions } from "./tally.ts";
import { type Effort, measureEffort, type Scene, type Trial } from "./trial.ts";

/** Times are from the moment before the first pod was let go. */
export interface Replacement extends Effort, Observation {
  /** Time until the last new pod is ready, and the same divided by the limit. */
  readonly tookMs: number;
  readonly timeOverLimit: number;
  readonly requestsPerPod: number;
  readonly bytesPerPod: number;
}

/** Requests are counted until this long after the last pod is Ready, because writes until then belong to the replacement. */
export const tailMs = 6_000;

/**
 * Calls `begin`, and watches until every pod is new and Ready. Throws if that takes longer than ten times the limit plus a
 * minute and 50 ms for each pod, if the contender ends, and what `begin` throws.
 *
 * @param begin resolves when it has nothing more to do, which may be before the end
 *
 * @param except a pod that the bench does not wait for
 */
export async function watchReplacement(
  scene: Scene,
  contender: Contender,
  isNew: (pod: ObservedPod) => boolean,
  begin: () => Promise<void>,
  except?: TallyOptions["except"],
): Promise<Replacement> {
  const { controlPlane, groups, size, signal } = scene;
  const observer = await Observer.start(controlPlane, groups, isNew, except);
  try {
    const measured = await measureEffort(controlPlane, contender);
    const startedMs = performance.now();
    const [doneMs] = await Promise.all([whenDone(observer, contender, scene), begin()]);
    await delay(tailMs, undefined, { signal });
    const effort = await measured();
    const all = podsOf(size);
    return {
      ...effort,
      ...observer.observation(startedMs),
      tookMs: Math.round(doneMs - startedMs),
      timeOverLimit: (doneMs - startedMs) / limitMs(size),
      requestsPerPod: effort.requests / all,
      bytesPerPod: effort.bytesRead / all,
    };
  } finally {
    await observer.close();
  }
}

/** Waits for the last pod, and checks meanwhile whether the contender still runs. */
async function whenDone(observer: Observer, contender: Contender, { size, signal }: Scene): Promise<number> {
  const timeoutMs = 10 * limitMs(size) + 60_000 + 50 * podsOf(size);
  const deadlineMs = performance.now() + timeoutMs;
  for (;;) {
    const doneMs = await Promise.race([observer.done, delay(250, undefined, { signal })]);
    if (doneMs !== undefined) return doneMs;
    await contender.check();
    if (performance.now() < deadlineMs) continue;
    const zones = observer.observation().zones.filter((zone) => zone.doneMs === undefined);
    throw new Error(`not done within ${Math.round(timeoutMs / 1000)} s: ${zones.map(({ zone }) => zone).join(", ")}`);
  }
}

/** A trial in one line. */
export function replacementInBrief({ figures, failure, load }: Trial<Replacement>): string {
  if (figures === undefined) return `failed: ${failure}`;
  const { timeOverLimit, mostDown, mostZonesDown, requestsPerPod, cpuSeconds } = figures;
  const times = `time/limit ${timeOverLimit.toFixed(2)}, ${mostDown} down, ${mostZonesDown} zones`;
  return `${times}, ${requestsPerPod.toFixed(2)} requests per pod, CPU ${cpuSeconds.toFixed(3)} s (load ${load.toFixed(1)})`;
}

const megabyte = 1_000_000;

function rowsOf({ budget }: Size): Row<Replacement>[] {
  return [
    { label: "time / limit", value: ({ timeOverLimit }) => timeOverLimit, digits: 2 },
    { label: "pods of a zone down at once, worst", value: ({ mostDown }) => mostDown, digits: 0, atMost: budget },
    { label: "zones down at once, worst", value: ({ mostZonesDown }) => mostZonesDown, digits: 0, atMost: 1 },
    { label: "API requests per pod, Events included", value: ({ requestsPerPod }) => requestsPerPod, digits: 2 },
    { label: "watches opened meanwhile", value: ({ watches }) => watches, digits: 0 },
    { label: "KB received per pod, watches included", value: ({ bytesPerPod }) => bytesPerPod / 1000, digits: 1 },
    { label: "CPU, seconds", value: ({ cpuSeconds }) => cpuSeconds, digits: 3 },
    { label: "resident memory, peak, MB", value: (figures) => figures.peakResidentBytes / megabyte, digits: 0 },
    { label: "resident memory, at the end, MB", value: (figures) => figures.residentBytes / megabyte, digits: 0 },
    { label: "CPU of the control plane, seconds", value: (figures) => figures.controlPlaneCpuSeconds, digits: 1 },
    { label: "CPU of kubelets, load and observer, seconds", value: (figures) => figures.harnessCpuSeconds, digits: 1 },
  ];
}

/**
 * The table of one size, with the requests of each contender under it.
 *
 * @param more rows after those that every replacement has
 */
export function replacementTable<T extends Replacement>(
  size: Size,
  contenders: readonly ContenderName[],
  trials: readonly Trial<T>[],
  more: readonly Row<T>[] = [],
): string {
  return [
    describeSize(size),
    ...compare([...rowsOf(size), ...more], contenders, trials),
    ...contenders.flatMap((name) => {
      const [first] = figuresOf(name, trials);
      return first === undefined ? [] : [`  ${name}, first trial, requests per pod: ${requestsOf(first, size)}`];
    }),
  ].join("\n");
}

function requestsOf({ requestCounts }: Effort, size: Size): string {
  const all = podsOf(size);
  return requestCounts
    .map(
      ({ verb, resource, requests }) => `${verb} ${resource} ${(requests / all).toFixed(requests < all / 20 ? 3 : 2)}`,
    )
    .join(", ");
}
