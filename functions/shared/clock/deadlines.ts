/**
 * Many deadlines over one timer. Under load a timer for each review would cost more than most of the work that the review waits
 * for.
 */
import type { Clock } from "./clock.ts";

/** A thing with a deadline, which may be put off at any time. To bring it forward, the caller adds the thing again. */
export interface HasDeadline {
  /** Monotonic time, in milliseconds. */
  readonly deadlineMs: number;
  /** Called once at the deadline, unless the thing was deleted before. It must not throw, because that would end the process. */
  late(): void;
}

/** The longest time, in milliseconds, for which the timer goes on after the last deadline was deleted. */
const longestSleepMs = 1_000;

export class Deadlines {
  readonly #clock: Clock;
  readonly #waiting = new Set<HasDeadline>();
  #isWatched = false;
  /** Time of the next check, which `#sooner` brings forward. A check that runs also sees what a caller adds meanwhile. */
  #nextMs = Number.NEGATIVE_INFINITY;
  #sooner = new AbortController();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Adds a deadline, or notes that it is sooner now. If it has passed, `late` may be called before this returns. */
  add(one: HasDeadline): void {
    this.#waiting.add(one);
    if (!this.#isWatched) void this.#watch();
    else if (one.deadlineMs < this.#nextMs) this.#sooner.abort("sooner");
  }

  /** Deletes a deadline, so that its `late` is not called any more. */
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
 * Settles as `work` does, or resolves to the answer of `late` if the deadline of the monotonic clock comes first. Late work goes
 * on, and must clean up after itself; its outcome is dropped.
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
