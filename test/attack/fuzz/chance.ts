/** What a generator draws from its randomness. */
import type { Random } from "../../fake-cluster/random.ts";

/** One of these. */
export function pick<T>(random: Random, items: readonly T[]): T {
  const item = items[Math.floor(random() * items.length)];
  if (item === undefined) throw new Error("there is nothing to pick from");
  return item;
}

/** A whole number from `least` to `most`. */
export function whole(random: Random, least: number, most: number): number {
  return least + Math.floor(random() * (most - least + 1));
}

/** True once in `times`, on average. */
export function onceIn(random: Random, times: number): boolean {
  return random() * times < 1;
}
