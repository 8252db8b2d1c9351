/** Draws of a generator. */
import type { Random } from "../../fake-cluster/random.ts";

/** Draws one of these items. */
export function pick<T>(random: Random, items: readonly T[]): T {
  const item = items[Math.floor(random() * items.length)];
  if (item === undefined) throw new Error("there is nothing to pick from");
  return item;
}

/** Draws a whole number from `least` to `most`. */
export function whole(random: Random, least: number, most: number): number {
  return least + Math.floor(random() * (most - least + 1));
}

/** True once in `times`, on average. */
export function onceIn(random: Random, times: number): boolean {
  return random() * times < 1;
}
