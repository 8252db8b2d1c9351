/** Draws from a seeded source: the same seed always draws the same values. */
import { type Random, seededRandom } from "../fake-cluster/random.ts";

export interface Draw {
  /** A number in [0, 1). */
  readonly random: Random;
  /** True with the probability given. */
  chance(probability: number): boolean;
  /** A number in [low, high). */
  between(low: number, high: number): number;
  /** A whole number from low to high, both included. */
  whole(low: number, high: number): number;
  pick<T>(choices: readonly T[]): T;
}

export function createDraw(seed: number): Draw {
  const random = seededRandom(seed);
  const whole = (low: number, high: number) => low + Math.floor(random() * (high - low + 1));
  return {
    random,
    chance: (probability) => random() < probability,
    between: (low, high) => low + random() * (high - low),
    whole,
    pick: (choices) => choices[whole(0, choices.length - 1)] as (typeof choices)[number],
  };
}
