/**
 * Those who wait for something, each until a moment: one timer for all of them, however many there are. A timer for each costs
 * a busy door more than most of what it waits for.
 */
import type { Clock } from "./clock.ts";

/** One who waits. It is looked at, and not kept in order: the moment may be put off. Who brings it forward puts it in again. */
export interface HasDeadline {
  /** Of the monotonic clock, in milliseconds. */
  readonly deadlineMs: number;
  /** Is called once at the deadline, unless it has been taken out before. It must not throw: the process would end by it. */
  late(): void;
}

/** How long the timer runs on at most after the last one has gone, in milliseconds. */
const longestSleepMs = 1_000;

export class Deadlines {
  readonly #clock: Clock;
  readonly #waiting = new Set<HasDeadline>();
  #isWatched = false;
  /** Time of the next look, and what brings it forward. A look that is under way also sees what a caller adds meanwhile. */
  #nextMs = Number.NEGATIVE_INFINITY;
  #sooner = new AbortController();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Puts it in, or hears that its deadline is sooner now. Where it has passed, `late` may be called before this returns. */
  add(one: HasDeadline): void {
    this.#waiting.add(one);
    if (!this.#isWatched) void this.#watch();
    else if (one.deadlineMs < this.#nextMs) this.#sooner.abort("sooner");
  }

  /** Takes it out: it will not be late any more. */
  delete(one: HasDeadline): void {
    this.#waiting.delete(one);
  }

  async #watch(): Promise<void> {
    this.#isWatched = true;
    for (;;) {
      const nowMs = this.#clock.monotonicMs();
      this.#nextMs = nowMs + longestSleepMs;
      for (const one of this.#waiting) {
        if (one.deadlineMs > nowMs) this.#nextMs = Math.min(this.#nextMs, one.deadlineMs);
        else {
          this.#waiting.delete(one);
          one.late();
        }
      }
      if (this.#waiting.size === 0) break;
      this.#sooner = new AbortController();
      await this.#clock.sleep(this.#nextMs - nowMs, this.#sooner.signal);
    }
    this.#isWatched = false;
  }
}

/**
 * What `work` settles with, or what `late` answers where the deadline of the monotonic clock comes first. Late work goes on, and
 * must clean up after itself; its outcome is dropped.
 */
export async function withinDeadline<T>(
  deadlines: Deadlines,
  deadlineMs: number,
  work: () => Promise<T>,
  late: () => T,
): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const waiting = { deadlineMs, late: () => resolve(late()) };
  deadlines.add(waiting);
  work().then(resolve, reject);
  try {
    return await promise;
  } finally {
    deadlines.delete(waiting);
  }
}
