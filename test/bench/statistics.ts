/** Statistics of several trials. */

export interface Spread {
  readonly median: number;
  readonly least: number;
  readonly most: number;
}

/** For an even number of values the median is the mean of the two in the middle. Throws if there are none. */
export function spreadOf(values: readonly number[]): Spread {
  const sorted = [...values].sort((one, other) => one - other);
  const middle = sorted.length / 2;
  const upper = sorted[Math.floor(middle)];
  const lower = sorted[Math.ceil(middle) - 1];
  const [least, most] = [sorted[0], sorted.at(-1)];
  if (upper === undefined || lower === undefined || least === undefined || most === undefined)
    throw new Error("a spread of no values");
  return { median: (lower + upper) / 2, least, most };
}

/** A generator of numbers from 0 up to 1, with the same numbers for the same seed (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A copy in random order. */
export function shuffled<T>(items: readonly T[], random: () => number): T[] {
  const copy = [...items];
  for (let last = copy.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    [copy[last], copy[other]] = [copy[other] as T, copy[last] as T];
  }
  return copy;
}
