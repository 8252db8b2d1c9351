/** Shares reads: callers that ask for one object at the same time get the answer of one request. */

import { BoundedMap } from "../base/bounded-map.ts";
import type { Cluster } from "../kubernetes/cluster.ts";

/** How long an answer serves later callers, in milliseconds. What a watch delivers may be older than that. */
const readServesMs = 1_000;
/** More objects than memory is asked for in a second. */
const mostReadings = 10_000;

interface SharedRead<Value> {
  readonly askedMs: number;
  readonly answer: Promise<Value>;
}

/** Remembers the reads of the last second. A read that failed serves no later caller. */
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
