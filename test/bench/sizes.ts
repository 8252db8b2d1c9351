/** The size of a trial's group, and the time below which no contender can roll it. */

export interface Size {
  /** The text of the command line: `3x20`. */
  readonly label: string;
  readonly zones: number;
  /** Number of pods of each zone. */
  readonly pods: number;
  /** Number of pods of each zone that may be down at once. */
  readonly budget: number;
  /** Number of such groups that are rolled at once. Absent: one. */
  readonly groups?: number;
}

/** Number of pods of all groups. */
export function podsOf({ zones, pods, groups = 1 }: Size): number {
  return groups * zones * pods;
}

/** The size in words, for tables. */
export function describeSize(size: Size): string {
  const { zones, pods, budget, groups = 1 } = size;
  const one = `${zones} zones of ${pods} pods, budget ${budget}: the limit is ${limitMs(size) / 1000} s`;
  return groups === 1 ? one : `${groups} groups at once, each of ${one}`;
}

/** Time from a pod's creation to its readiness. */
export const readyAfterMs = 1_000;

/** One machine cannot run a namespace with more pods. */
const mostPods = 30_000;

/**
 * Reads `ZONESxPODS` or `ZONESxPODS/BUDGET`. The default budget is a quarter of up to 50 pods, and a tenth of more. Undefined
 * if it does not parse.
 */
export function parseSize(text: string): Size | undefined {
  const match = /^(\d{1,2})x(\d{1,5})(?:\/(\d{1,5}))?$/.exec(text);
  if (match === null) return undefined;
  const zones = Number(match[1]);
  const pods = Number(match[2]);
  const budget = match[3] === undefined ? Math.ceil(pods / (pods <= 50 ? 4 : 10)) : Number(match[3]);
  const possible = zones >= 1 && zones <= 26 && pods >= 1 && zones * pods <= mostPods && budget >= 1 && budget <= pods;
  return possible ? { label: text, zones, pods, budget } : undefined;
}

/**
 * The limit in milliseconds: zone after zone and batch after batch, each batch down for as long as a pod takes to be ready.
 * Nothing that keeps the budget is faster.
 */
export function limitMs({ zones, pods, budget }: Size): number {
  return zones * Math.ceil(pods / budget) * readyAfterMs;
}
