/** How large the group of a trial is, and the time below which no contender can roll it. */

export interface Size {
  /** As it was written: `3x20`. */
  readonly label: string;
  readonly zones: number;
  /** Of each zone. */
  readonly pods: number;
  /** Of each zone: how many pods may be down at once. */
  readonly budget: number;
  /** How many such groups are rolled at once. Absent: one. */
  readonly groups?: number;
}

/** Of all groups. */
export function podsOf({ zones, pods, groups = 1 }: Size): number {
  return groups * zones * pods;
}

/** In words, as tables have it. */
export function describeSize(size: Size): string {
  const { zones, pods, budget, groups = 1 } = size;
  const one = `${zones} zones of ${pods} pods, budget ${budget}: the limit is ${limitMs(size) / 1000} s`;
  return groups === 1 ? one : `${groups} groups at once, each of ${one}`;
}

/** From a pod's creation to its readiness. */
export const readyAfterMs = 1_000;

/** A namespace of more pods is no trial of one machine any more. */
const mostPods = 30_000;

/**
 * Reads `ZONESxPODS` or `ZONESxPODS/BUDGET`: a budget that is not named is a quarter of up to 50 pods, and a tenth of more.
 * Undefined where it does not parse.
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
 * The limit in milliseconds: zone after zone, batch after batch, each batch down for as long as a pod takes to be ready.
 * Nothing that keeps the budget is faster.
 */
export function limitMs({ zones, pods, budget }: Size): number {
  return zones * Math.ceil(pods / budget) * readyAfterMs;
}
