/** How often an action may happen for a key: a burst at once, then evenly (the generic cell rate algorithm). */

import { BoundedMap } from "../../functions/shared/base/bounded-map.ts";

export interface RateLimit {
  /** How many may come at once, after a pause of `burst` times `everyMs`. */
  readonly burst: number;
  /** After a burst one may come in this time, in milliseconds. */
  readonly everyMs: number;
}

/** A forgotten key has its whole burst again. No queue with a limiter has as many keys. */
const mostLimited = 1_000_000;

/** Keeps one number for each key that was busy lately, and nothing about the others. */
export class RateLimiter {
  readonly #rateLimit: RateLimit;
  /** When a key has its whole burst again, by a clock that never jumps. */
  readonly #wholeMs = new BoundedMap<string, number>(mostLimited);

  constructor(rateLimit: RateLimit) {
    this.#rateLimit = rateLimit;
  }

  /** How long the key's next action has to wait, in milliseconds. */
  waitMs(key: string, nowMs: number): number {
    const { burst, everyMs } = this.#rateLimit;
    return Math.max(0, (this.#wholeMs.get(key) ?? 0) - (burst - 1) * everyMs - nowMs);
  }

  /** Counts one action of the key. */
  take(key: string, nowMs: number): void {
    const fromMs = Math.max(nowMs, this.#wholeMs.get(key) ?? 0);
    // It becomes the last one in the map; keys that have been quiet for long are at the front.
    this.#wholeMs.delete(key);
    this.#wholeMs.set(key, fromMs + this.#rateLimit.everyMs);
    for (const [quiet, wholeMs] of this.#wholeMs) {
      if (wholeMs > nowMs) break;
      this.#wholeMs.delete(quiet);
    }
  }

  /** How many keys are remembered. */
  get size(): number {
    return this.#wholeMs.size;
  }
}
