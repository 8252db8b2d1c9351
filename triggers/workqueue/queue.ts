/**
 * A keyed queue. Triggers of a key are gathered, then one run serves them all. Two runs of a key never overlap; a key that is
 * triggered while it runs, runs once more. A run that throws is tried again, after longer and longer pauses. Keys beyond the
 * bounds are refused, so that the server can say so. Triggers that come faster than the rate limit wait, and one run serves them.
 * It is made by hand: the common queues of promises know no keys, and simulations need one that uses their clock.
 */

import { activeSpans, joinSpans, type SpanContext } from "../../functions/shared/base/spans.ts";
import type { Clock } from "../../functions/shared/clock/clock.ts";
import type { ReconcileResult } from "../../functions/shared/contract/definition.ts";
import { type RateLimit, RateLimiter } from "./rate-limiter.ts";

export interface Trigger {
  /** True for a sweep. Triggers that are gathered are a sweep when one of them is. */
  readonly sweep: boolean;
  /** The spans that enqueued the key, for traces; absent: the active one. */
  readonly triggeredBy?: readonly SpanContext[];
}

/** How a run ended. */
export type RunOutcome = Pick<ReconcileResult, "requeueAfterMs" | "absorbsEvents" | "pendingActs">;

export interface QueueOptions<Item> {
  readonly clock: Clock;
  /** Items of the same name are one key. */
  nameOf(item: Item): string;
  run(item: Item, trigger: Trigger): Promise<RunOutcome>;
  /** Called when a run, or acts after it, threw. `retryMs` is undefined where it is not tried again. */
  onFailure(item: Item, error: unknown, retryMs: number | undefined): void;
  /** How long triggers of a key are gathered from the first, in milliseconds. */
  readonly gatherMs: number;
  /** Keys that run at once, at most. */
  readonly concurrency: number;
  /** Keys that are queued, running or to be retried, at most. As many again may wait for a requeue. */
  readonly capacity: number;
  /** How often a key may run; absent: as often as it is triggered. */
  readonly rateLimit?: RateLimit;
  /** Whether a key has to keep that rate limit now; absent: always. */
  isRateLimited?(item: Item): boolean;
  /** How often all keys together may run; absent: as often as `concurrency` lets them. */
  readonly limitedTogether?: RateLimit;
  /**
   * The shortest wait before a retry that makes sense after this error, in milliseconds; absent: 0. Never more than
   * {@link longestBackoffMs} of it is kept: whatever an error asks for, triggers and sweeps of its key are not held back longer.
   */
  leastBackoffMs?(error: unknown): number;
  /** From 0 to 1, for the jitter. */
  random?(): number;
}

export const shortestBackoffMs = 100;
export const longestBackoffMs = 30_000;
/** The longest timer that Node keeps; a longer one would fire at once. */
const longestTimerMs = 2 ** 31 - 1;

interface QueuedKey<Item> {
  readonly name: string;
  readonly item: Item;
  /** The timer while triggers are gathered, or before its rate limit or a retry; undefined while the entry is queued or runs. */
  timer: AbortController | undefined;
  running: boolean;
  /** When it was first triggered since the present run began. */
  enqueuedMs: number | undefined;
  /** Of the next run. */
  sweep: boolean;
  /** Of the next run. */
  triggeredBy: readonly SpanContext[];
  failures: number;
}

interface Requeue {
  readonly dueMs: number;
  /** Whether a trigger before that starts no run of its own, unless it is a sweep's. */
  readonly isEnough: boolean;
  readonly timer: AbortController;
}

export class KeyedQueue<Item> {
  readonly #options: QueueOptions<Item>;
  readonly #entries = new Map<string, QueuedKey<Item>>();
  /** Due keys, in the order in which they became due. */
  readonly #queued = new Set<QueuedKey<Item>>();
  readonly #requeues = new Map<string, Requeue>();
  readonly #pendingActs = new Set<Promise<void>>();
  readonly #idle = Promise.withResolvers<void>();
  readonly #rateLimiter: RateLimiter | undefined;
  readonly #rateLimiterOfAll: RateLimiter | undefined;
  /** The timer while all keys wait for the rate limit that they share. */
  #resting: AbortController | undefined;
  #running = 0;
  #draining = false;

  constructor(options: QueueOptions<Item>) {
    this.#options = options;
    const { rateLimit, limitedTogether } = options;
    this.#rateLimiter = rateLimit && new RateLimiter(rateLimit);
    this.#rateLimiterOfAll = limitedTogether && new RateLimiter(limitedTogether);
  }

  /** How many keys are queued, running or to be retried. */
  get size(): number {
    return this.#entries.size;
  }

  /** True while the key is queued, runs or will be retried; a later requeue does not count. */
  has(item: Item): boolean {
    return this.#entries.has(this.#options.nameOf(item));
  }

  /** Enqueues a key. False if it is refused: the queue is full, or drains. */
  offer(item: Item, trigger: Trigger = { sweep: false }): boolean {
    if (this.#draining) return false;
    const name = this.#options.nameOf(item);
    if (!trigger.sweep && this.#requeues.get(name)?.isEnough === true) return true;
    const { triggeredBy = activeSpans() } = trigger;
    const known = this.#entries.get(name);
    if (known !== undefined) {
      known.sweep ||= trigger.sweep;
      known.triggeredBy = joinSpans(known.triggeredBy, triggeredBy);
      if (known.running) known.enqueuedMs ??= this.#options.clock.monotonicMs();
      return true;
    }
    if (this.#entries.size >= this.#options.capacity) return false;
    const entry: QueuedKey<Item> = {
      name,
      item,
      timer: undefined,
      running: false,
      enqueuedMs: undefined,
      sweep: trigger.sweep,
      triggeredBy,
      failures: 0,
    };
    this.#entries.set(name, entry);
    this.#enqueueIn(entry, this.#options.gatherMs);
    return true;
  }

  /**
   * Refuses triggers, drops the timers and runs what is queued at once. What waits for a retry is tried once more.
   *
   * Resolves to true when all runs and acts have ended, to false at `deadlineMs` of the clock if some have not.
   */
  async drain(deadlineMs: number): Promise<boolean> {
    const { clock } = this.#options;
    this.#draining = true;
    for (const { timer } of this.#requeues.values()) timer.abort("cancelled");
    this.#requeues.clear();
    this.#resting?.abort("cancelled");
    this.#startQueued();
    for (const entry of this.#entries.values()) {
      if (entry.timer === undefined) continue;
      entry.timer.abort("cancelled");
      this.#enqueue(entry);
    }
    this.#resolveIfIdle();
    const finished = new AbortController();
    const late = clock.sleep(Math.max(0, deadlineMs - clock.monotonicMs()), finished.signal).then(() => false);
    const ended = await Promise.race([this.#idle.promise.then(() => true), late]);
    finished.abort("finished");
    return ended;
  }

  /** In `ms`, or when its rate limit permits the run. */
  #enqueueIn(entry: QueuedKey<Item>, ms: number): void {
    const waitMs = Math.max(ms, this.#limitedMs(entry));
    if (waitMs <= 0 || this.#draining) this.#enqueue(entry);
    else entry.timer = this.#after(waitMs, () => this.#enqueue(entry));
  }

  #limitedMs({ name, item }: QueuedKey<Item>): number {
    const { clock, isRateLimited } = this.#options;
    return isRateLimited?.(item) === false ? 0 : (this.#rateLimiter?.waitMs(name, clock.monotonicMs()) ?? 0);
  }

  #enqueue(entry: QueuedKey<Item>): void {
    entry.timer = undefined;
    this.#queued.add(entry);
    this.#startQueued();
  }

  #startQueued(): void {
    for (const entry of this.#queued) {
      if (this.#running >= this.#options.concurrency || this.#rests()) return;
      this.#queued.delete(entry);
      this.#running++;
      const nowMs = this.#options.clock.monotonicMs();
      if (this.#options.isRateLimited?.(entry.item) !== false) this.#rateLimiter?.take(entry.name, nowMs);
      this.#rateLimiterOfAll?.take("", nowMs);
      void this.#runOnce(entry);
    }
  }

  /** True while no key may run: then a timer starts the queued ones. A draining queue does not wait. */
  #rests(): boolean {
    if (this.#draining || this.#rateLimiterOfAll === undefined) return false;
    const waitMs = this.#rateLimiterOfAll.waitMs("", this.#options.clock.monotonicMs());
    if (waitMs === 0) return false;
    this.#resting ??= this.#after(waitMs, () => {
      this.#resting = undefined;
      this.#startQueued();
    });
    return true;
  }

  async #runOnce(entry: QueuedKey<Item>): Promise<void> {
    const trigger = { sweep: entry.sweep, triggeredBy: entry.triggeredBy };
    entry.running = true;
    entry.sweep = false;
    entry.triggeredBy = [];
    entry.enqueuedMs = undefined;
    // This run observes a newer state than the one for which an earlier run asked to be requeued.
    this.#requeues.get(entry.name)?.timer.abort("cancelled");
    this.#requeues.delete(entry.name);
    try {
      const { requeueAfterMs, absorbsEvents, pendingActs } = await this.#options.run(entry.item, trigger);
      entry.failures = 0;
      this.#requeueIn(entry, requeueAfterMs, absorbsEvents);
      if (pendingActs !== undefined) this.#await(entry, pendingActs);
      this.#finish(entry);
    } catch (error) {
      entry.sweep ||= trigger.sweep;
      entry.triggeredBy = joinSpans(trigger.triggeredBy, entry.triggeredBy);
      this.#retry(entry, error);
    }
    this.#running--;
    this.#startQueued();
    this.#resolveIfIdle();
  }

  #finish(entry: QueuedKey<Item>): void {
    entry.running = false;
    const { enqueuedMs } = entry;
    if (enqueuedMs === undefined) this.#entries.delete(entry.name);
    else this.#enqueueIn(entry, enqueuedMs + this.#options.gatherMs - this.#options.clock.monotonicMs());
  }

  #retry(entry: QueuedKey<Item>, error: unknown): void {
    const { onFailure } = this.#options;
    if (this.#draining) {
      onFailure(entry.item, error, undefined);
      this.#finish(entry);
      return;
    }
    entry.running = false;
    const retryMs = this.#backoffMs(entry.failures++, error);
    entry.timer = this.#after(retryMs, () => this.#enqueue(entry));
    onFailure(entry.item, error, retryMs);
  }

  #backoffMs(failures: number, error: unknown): number {
    const { random = Math.random, leastBackoffMs } = this.#options;
    const fullMs = Math.min(longestBackoffMs, shortestBackoffMs * 2 ** Math.min(failures, 20));
    // Between half of it and all of it, so that retries of many keys after one outage do not come at the same moment.
    const jitteredMs = Math.max(shortestBackoffMs, fullMs * (0.5 + random() / 2));
    return Math.max(jitteredMs, Math.min(longestBackoffMs, leastBackoffMs?.(error) ?? 0));
  }

  /** Acts go on beside later runs of the same key; only the end of the process waits for them. */
  #await(entry: QueuedKey<Item>, pendingActs: Promise<number | undefined>): void {
    const ended = pendingActs
      .then(
        (requeueAfterMs) => this.#requeueIn(entry, requeueAfterMs),
        (error: unknown) => {
          const retryMs = this.#draining ? undefined : longestBackoffMs;
          this.#requeueIn(entry, retryMs);
          this.#options.onFailure(entry.item, error, retryMs);
        },
      )
      .then(() => {
        this.#pendingActs.delete(ended);
        this.#resolveIfIdle();
      });
    this.#pendingActs.add(ended);
  }

  /** Best effort: a requeue that comes earlier is kept, and beyond the limit there is none. The sweep is the guarantee. */
  #requeueIn({ name, item }: QueuedKey<Item>, ms: number | undefined, isEnough = false): void {
    if (this.#draining || ms === undefined || Number.isNaN(ms)) return;
    const dueMs = this.#options.clock.monotonicMs() + Math.max(0, ms);
    const known = this.#requeues.get(name);
    if (known === undefined && this.#requeues.size >= this.#options.capacity) return;
    if (known !== undefined && known.dueMs <= dueMs) return;
    known?.timer.abort("cancelled");
    const timer = this.#after(Math.max(0, ms), () => {
      this.#requeues.delete(name);
      // No span enqueues it then, because the one that was active when the timer was set has ended.
      this.offer(item, { sweep: false, triggeredBy: [] });
    });
    this.#requeues.set(name, { dueMs, isEnough, timer });
  }

  #after(ms: number, then: () => void): AbortController {
    const timer = new AbortController();
    void this.#options.clock.sleep(Math.min(ms, longestTimerMs), timer.signal).then(() => {
      if (!timer.signal.aborted) then();
    });
    return timer;
  }

  #resolveIfIdle(): void {
    if (this.#draining && this.#entries.size === 0 && this.#pendingActs.size === 0) this.#idle.resolve();
  }
}
