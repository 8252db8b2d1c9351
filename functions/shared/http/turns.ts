/** So many at once and no more; those that wait are not too many either, and none waits for ever. */
import type { Cluster } from "../kubernetes/cluster.ts";

export interface TurnsOptions {
  readonly clock: Pick<Cluster, "sleep">;
  readonly mostAtOnce: number;
  readonly mostWaiting: number;
}

/** What the wait for a turn came to: `full` and `late` mean that it did not come. */
export type Turn = { readonly end: () => void } | "full" | "late" | "aborted";

export class Turns {
  readonly #options: TurnsOptions;
  #free: number;
  /** In the order in which they came. */
  readonly #waiting = new Set<() => void>();

  constructor(options: TurnsOptions) {
    this.#options = options;
    this.#free = options.mostAtOnce;
  }

  /** Waits for a turn, at most so many milliseconds. Whoever has one ends it once. */
  take(waitMs: number, signal: AbortSignal | undefined): Promise<Turn> {
    if (signal?.aborted) return Promise.resolve("aborted");
    if (this.#free > 0) {
      this.#free -= 1;
      return Promise.resolve(this.#turn());
    }
    if (this.#waiting.size >= this.#options.mostWaiting) return Promise.resolve("full");
    if (waitMs <= 0) return Promise.resolve("late");
    return new Promise((resolve) => {
      const over = new AbortController();
      const leave = (turn: Turn) => {
        this.#waiting.delete(begin);
        over.abort();
        signal?.removeEventListener("abort", onAbort);
        resolve(turn);
      };
      const begin = () => leave(this.#turn());
      const onAbort = () => leave("aborted");
      this.#waiting.add(begin);
      signal?.addEventListener("abort", onAbort, { once: true });
      void this.#options.clock.sleep(waitMs, over.signal).then(() => {
        if (this.#waiting.has(begin)) leave("late");
      });
    });
  }

  #turn(): Turn {
    let isOver = false;
    const end = () => {
      if (isOver) return;
      isOver = true;
      const [next] = this.#waiting;
      // The turn passes on: nobody who comes now overtakes those who wait.
      if (next !== undefined) next();
      else this.#free += 1;
    };
    return { end };
  }
}
