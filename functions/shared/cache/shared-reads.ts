/** Reads that many ask for at one moment: each is made once for all of them. */

import { BoundedMap } from "../base/bounded-map.ts";
import type { Cluster } from "../kubernetes/cluster.ts";

/** For so long an answer serves those who come later, in milliseconds: what watches tell may be older. */
const readServesMs = 1_000;
/** More objects than memory is asked for in a second. */
const mostReadings = 10_000;

interface SharedRead<Value> {
  readonly askedMs: number;
  readonly answer: Promise<Value>;
}

/** It remembers the reads of the last second, and nothing of the others. A read that failed serves no later caller. */
export class SharedReads<Value> {
  readonly #clock: Pick<Cluster, "monotonicMs">;
  /** In the order in which they were made. */
  readonly #readings = new BoundedMap<string, SharedRead<Value>>(mostReadings);

  constructor(clock: Pick<Cluster, "monotonicMs">) {
    this.#clock = clock;
  }

  read(key: string, ask: () => Promise<Value>): Promise<Value> {
    const nowMs = this.#clock.monotonicMs();
    for (const [other, { askedMs }] of this.#readings) {
      if (nowMs - askedMs < readServesMs) break;
      this.#readings.delete(other);
    }
    const known = this.#readings.get(key);
    if (known !== undefined) return known.answer;
    const reading = { askedMs: nowMs, answer: ask() };
    this.#readings.set(key, reading);
    reading.answer.catch(() => {
      if (this.#readings.get(key) === reading) this.#readings.delete(key);
    });
    return reading.answer;
  }

  /** How many reads are remembered. */
  get size(): number {
    return this.#readings.size;
  }
}
