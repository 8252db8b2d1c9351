/** The rate limit of look-ups for reviews. A client of the port can name pods that do not exist, and each would cost a GET. */

import { type LookUps, TooManyLookUps } from "../../functions/shared/cache/look-ups.ts";
import type { Clock } from "../../functions/shared/clock/clock.ts";
import type { Cluster } from "../../functions/shared/kubernetes/cluster.ts";
import { type RateLimit, RateLimiter } from "./rate-limiter.ts";

/** 200 at once, then 100 a second: honest drains name fewer pods without a StatefulSet. */
export const lookUpLimit: RateLimit = { burst: 200, everyMs: 10 };
/** The most look-ups that wait for their turn. */
export const mostWaiting = 8_000;
/** A review waits at least this long before it is refused, unless too many wait. */
export const patienceMs = 2_000;
/**
 * Then as many are refused at a time as it takes for {@link mostWaiting} to be gone within this time, before an API server's
 * ten seconds are over. That slows down a client that tries again after each answer. Reviews without look-ups go on.
 */
export const refusedWithinMs = 6_500;

const tickMs = 10;
const refusedAtOnce = Math.ceil((mostWaiting * tickMs) / refusedWithinMs);

interface PendingLookUp {
  readonly sinceMs: number;
  begin(): void;
  refuse(): void;
}

/** The same reads, within that limit and over connections of their own. Each may reject with TooManyLookUps. */
export function limitLookUps(cluster: Pick<Cluster, "get" | "list" | "monotonicMs" | "sleep">): LookUps {
  const queue = new RateLimitedQueue(cluster);
  return {
    get: (resource, key, options) => queue.next().then(() => cluster.get(resource, key, { ...options, aside: true })),
    list: (resource, query, options) =>
      queue.next().then(() => cluster.list(resource, query, { ...options, aside: true })),
  };
}

/** Gives turns in the order of the requests. */
class RateLimitedQueue {
  readonly #clock: Clock;
  readonly #rateLimiter = new RateLimiter(lookUpLimit);
  readonly #waiting = new Set<PendingLookUp>();
  #isServing = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async next(): Promise<void> {
    const nowMs = this.#clock.monotonicMs();
    if (this.#waiting.size === 0 && this.#rateLimiter.waitMs("", nowMs) === 0) return this.#rateLimiter.take("", nowMs);
    if (this.#waiting.size >= mostWaiting) throw new TooManyLookUps();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#waiting.add({ sinceMs: nowMs, begin: resolve, refuse: () => reject(new TooManyLookUps()) });
    if (!this.#isServing) void this.#serve();
    return promise;
  }

  async #serve(): Promise<void> {
    this.#isServing = true;
    while (this.#waiting.size > 0) {
      this.#begin(this.#clock.monotonicMs());
      this.#refuse(this.#clock.monotonicMs());
      await this.#clock.sleep(tickMs);
    }
    this.#isServing = false;
  }

  /** Lets the callers continue whose turn it is. */
  #begin(nowMs: number): void {
    for (const first of this.#waiting) {
      if (this.#rateLimiter.waitMs("", nowMs) > 0) return;
      this.#rateLimiter.take("", nowMs);
      this.#waiting.delete(first);
      first.begin();
    }
  }

  /** Refuses callers that have waited for too long, but not all at one moment, because their answers would delay all others. */
  #refuse(nowMs: number): void {
    for (const first of [...this.#waiting.values().take(refusedAtOnce)]) {
      if (nowMs - first.sinceMs < patienceMs) return;
      this.#waiting.delete(first);
      first.refuse();
    }
  }
}
