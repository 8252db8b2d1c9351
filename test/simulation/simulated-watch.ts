/**
 * One watch over the failing connection of a process. It lags; it freezes and then delivers everything in order; it breaks; it
 * ends with 410; or it goes half-open, which means silence without an error for up to 70 s. Each kind of object has a watch of
 * its own: what the watch of pods has delivered proves nothing about StatefulSets.
 */
import {
  ClusterError,
  type Resource,
  type WatchEvent,
  type WatchQuery,
} from "../../functions/shared/kubernetes/cluster.ts";
import type { World } from "../fake-cluster/world.ts";
import type { Draw } from "./draw.ts";

/** Probabilities for one event, and times in milliseconds. */
export interface WatchFaults {
  /** The watch is always behind by up to this much. */
  readonly lagMs: number;
  /** It freezes for 0.5 to 20 s, and then delivers everything in order. */
  readonly freeze: number;
  /** It ends without an error after an event. */
  readonly break: number;
  /** It ends with 410: its revision is too old, and everything must be listed again. */
  readonly expire: number;
  /** Nothing arrives any more, and an error comes after 1 to 70 s. */
  readonly halfOpen: number;
  /** The server refuses to open it. */
  readonly refuse: number;
}

export const noWatchFaults: WatchFaults = { lagMs: 0, freeze: 0, break: 0, expire: 0, halfOpen: 0, refuse: 0 };

const freezeMs = [500, 20_000] as const;
/** A server that is alive sends a bookmark every minute: `kubernetes/watch.ts` gives up a silent watch after 70 s. */
const halfOpenMs = [1_000, 70_000] as const;

export interface SimulatedWatchOptions {
  readonly world: World;
  readonly draw: Draw;
  readonly resource: Resource;
  readonly query: WatchQuery;
  readonly signal: AbortSignal | undefined;
  readonly faults: () => WatchFaults;
  readonly latencyMs: () => number;
  /** Runs code of the process, now or when it goes on. */
  readonly resume: (go: () => void) => void;
  readonly log: (what: string) => void;
}

type PendingNext<T> = { resolve: (result: IteratorResult<T, undefined>) => void; reject: (error: unknown) => void };

export class SimulatedWatch<T> implements AsyncIterableIterator<WatchEvent<T>, undefined> {
  readonly #options: SimulatedWatchOptions;
  readonly #events: WatchEvent<T>[] = [];
  #waiting: PendingNext<WatchEvent<T>> | undefined;
  #cancel: (() => void) | undefined;
  #begun = false;
  /** No event is delivered before the one in front of it, nor while the watch is frozen. */
  #lastAtMs = 0;
  #frozenUntilMs = 0;
  #lagMs = 0;
  #deaf = false;
  #ended = false;
  #failure: { readonly error: unknown } | undefined;

  constructor(options: SimulatedWatchOptions) {
    this.#options = options;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<WatchEvent<T>, undefined>> {
    if (!this.#begun) this.#begin();
    const event = this.#events.shift();
    if (event !== undefined) return Promise.resolve({ done: false, value: event });
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure !== undefined) return Promise.reject(failure.error);
    if (this.#ended) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
    });
  }

  return(): Promise<IteratorResult<WatchEvent<T>, undefined>> {
    this.#events.length = 0;
    this.#end(undefined);
    return Promise.resolve({ done: true, value: undefined });
  }

  #begin(): void {
    const { world, draw, resource, query, signal, faults, latencyMs } = this.#options;
    this.#begun = true;
    this.#lagMs = faults().lagMs * draw.random();
    if (signal?.aborted) {
      this.#end(this.#failed(0, "Aborted", "given up"));
      return;
    }
    signal?.addEventListener("abort", this.#onAbort, { once: true });
    world.timeline.after(latencyMs(), () => {
      if (this.#ended) return;
      if (draw.chance(faults().refuse)) {
        this.#send(() => this.#end(this.#failed(draw.pick([401, 403, 429, 500, 503]), "Injected", "refused")));
        return;
      }
      try {
        const reported = (event: unknown) => this.#notify(event as WatchEvent<T>);
        this.#cancel = world.store.watch(resource, { ...query, bookmarks: true }, reported);
      } catch (error) {
        this.#send(() => this.#end(error));
      }
    });
  }

  readonly #onAbort = (): void => this.#end(this.#failed(0, "Aborted", "given up"));

  /** The server sends an event. What becomes of it on the way is drawn here. */
  #notify(event: WatchEvent<T>): void {
    if (this.#deaf || this.#ended) return;
    const { world, draw, faults, log } = this.#options;
    const nowMs = world.timeline.nowMs();
    const { freeze, break: breaks, expire, halfOpen } = faults();
    if (nowMs >= this.#frozenUntilMs) {
      if (draw.chance(freeze)) {
        this.#frozenUntilMs = nowMs + draw.between(...freezeMs);
        log(`freezes for ${((this.#frozenUntilMs - nowMs) / 1000).toFixed(1)} s`);
      } else if (draw.chance(halfOpen)) {
        this.#fallSilent();
        return;
      }
    }
    this.#send(() => this.#push(event));
    if (draw.chance(breaks)) {
      this.#deaf = true;
      this.#send(() => this.#end(undefined));
    } else if (draw.chance(expire)) {
      this.#deaf = true;
      this.#send(() => this.#end(this.#failed(410, "Expired", "too old resource version")));
    }
  }

  #fallSilent(): void {
    const { world, draw, log } = this.#options;
    this.#deaf = true;
    this.#cancel?.();
    const silentMs = draw.between(...halfOpenMs);
    log(`is half-open for ${(silentMs / 1000).toFixed(1)} s`);
    world.timeline.after(silentMs, () => {
      this.#options.resume(() => this.#end(this.#failed(0, "ConnectionFailed", "nothing received")));
    });
  }

  #send(deliver: () => void): void {
    const { timeline } = this.#options.world;
    const nowMs = timeline.nowMs();
    const lateMs = this.#options.latencyMs() + this.#lagMs;
    this.#lastAtMs = Math.max(this.#lastAtMs, this.#frozenUntilMs, nowMs + lateMs);
    timeline.after(this.#lastAtMs - nowMs, () => this.#options.resume(deliver));
  }

  #push(event: WatchEvent<T>): void {
    if (this.#ended) return;
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (waiting === undefined) this.#events.push(event);
    else waiting.resolve({ done: false, value: event });
  }

  /** The client can still read what was delivered before. */
  #end(error: unknown): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#cancel?.();
    this.#options.signal?.removeEventListener("abort", this.#onAbort);
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (waiting === undefined) {
      if (error !== undefined) this.#failure = { error };
    } else if (error === undefined) waiting.resolve({ done: true, value: undefined });
    else waiting.reject(error);
  }

  #failed(code: number, reason: string, message: string): ClusterError {
    return new ClusterError({ code, reason, message, verb: "watch", resource: this.#options.resource });
  }
}
