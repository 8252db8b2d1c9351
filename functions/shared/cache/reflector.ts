/** Lists and watches one type of objects, and begins again whatever breaks, until it is stopped. */
import { type Cluster, hasCode, type ListQuery, type Metadata, type Resource } from "../kubernetes/cluster.ts";
import type { Store, WatchProgress } from "./watch-progress.ts";

export interface Reflection {
  readonly resource: Resource;
  readonly query: Pick<ListQuery, "namespace" | "labelSelector">;
  readonly store: Store<{ readonly metadata: Metadata }>;
  /** A type whose CRD may not be installed: then there are none of them, and that is no trouble. */
  readonly optional: boolean;
  /** Progress of the watch; absent if no caller may have it begin again with a list. */
  readonly progress?: WatchProgress;
  /** More objects than this are not listed: see {@link ListQuery.atMost}. */
  readonly atMost?: number;
}

export interface FollowOptions {
  readonly cluster: Cluster;
  /** Called when a watch broke, or ended at once or began with a list again and again; it starts again by itself. */
  readonly onTrouble: (resource: Resource, error: unknown) => void;
  /** The shortest pause after an error, in milliseconds. Absent: none but its own. */
  readonly leastBackoffMs?: (error: unknown) => number;
}

const longestWatchBackoffMs = 10_000;
/** A whole list that serves for less than this was hardly worth its cost: the list after the next one has to wait. */
const listServesMs = 10_000;
/** A watch that the server ends sooner than this has not been one: they last for minutes. */
const watchLastsMs = 1_000;
/** How often to list a type without a CRD: sooner than a decision lists it itself after receiving nothing for 30 s (rule R5). */
const missingRequeueMs = 20_000;

/** Pauses between tries: none before the first, and then longer and longer until one try has lasted. */
export class Pauses {
  #nextMs = 0;

  /** The pause now, in milliseconds. `soon`: the time before went by too fast. */
  next(soon: boolean): number {
    if (!soon) this.#nextMs = 0;
    const pauseMs = this.#nextMs;
    this.#nextMs = Math.min(longestWatchBackoffMs, pauseMs * 2 + 100);
    return pauseMs;
  }

  /** A try has lasted, so that the next pause is short again. */
  shorten(): void {
    this.#nextMs = Math.min(this.#nextMs, 100);
  }
}

/**
 * Lists and watches until stopped, whatever breaks; a revision that is too old begins again with a list. The first failure costs
 * no pause. One that comes back soon waits, up to 10 s, because whole lists cost an API server more than any other request.
 */
export function reflect(
  options: FollowOptions,
  reflection: Reflection,
  stopped: AbortSignal,
  listed: () => void,
): Promise<void> {
  return new Reflector({ ...options, ...reflection, stopped, listed }).run();
}

interface ReflectorOptions extends FollowOptions, Reflection {
  readonly stopped: AbortSignal;
  readonly listed: () => void;
}

class Reflector {
  readonly #options: ReflectorOptions;
  readonly #relists = new Pauses();
  readonly #endings = new Pauses();
  /** The revision at which the watch goes on; undefined: it begins with a list. */
  #resourceVersion: string | undefined;
  #backoffMs = 0;
  #listedMs = Number.NEGATIVE_INFINITY;

  constructor(options: ReflectorOptions) {
    this.#options = options;
  }

  async run(): Promise<void> {
    const { progress, stopped } = this.#options;
    while (!stopped.aborted) {
      // A new list may have been requested during the pause.
      if (progress?.relist.signal.aborted) this.#resourceVersion = undefined;
      if (progress !== undefined) progress.relist = new AbortController();
      const signal = progress === undefined ? stopped : AbortSignal.any([stopped, progress.relist.signal]);
      try {
        await this.#watch(this.#resourceVersion ?? (await this.#list(signal)), signal);
      } catch (error) {
        if (stopped.aborted) return;
        await this.#recover(error, signal.aborted);
      }
    }
  }

  async #list(signal: AbortSignal): Promise<string> {
    const { cluster, resource, query, store, atMost, listed } = this.#options;
    this.#listedMs = cluster.monotonicMs();
    const list = await cluster.list(resource, atMost === undefined ? query : { ...query, atMost }, { signal });
    store.replace(list.items, list.resourceVersion);
    this.#resourceVersion = list.resourceVersion;
    this.#listedMs = cluster.monotonicMs();
    listed();
    return list.resourceVersion;
  }

  async #watch(resourceVersion: string, signal: AbortSignal): Promise<void> {
    const { cluster, resource, query, store } = this.#options;
    const watchedMs = cluster.monotonicMs();
    for await (const event of cluster.watch(resource, { ...query, resourceVersion }, { signal })) {
      this.#resourceVersion = event.type === "BOOKMARK" ? event.resourceVersion : event.object.metadata.resourceVersion;
      store.apply(event);
      this.#backoffMs = 0;
      this.#endings.shorten();
    }
    const soon = cluster.monotonicMs() - watchedMs < watchLastsMs;
    await this.#pause(this.#endings.next(soon), new Error("the server ends it as soon as it has begun"));
  }

  async #recover(error: unknown, isRelisting: boolean): Promise<void> {
    const { cluster, stopped, listed, onTrouble, leastBackoffMs = () => 0, resource, store, optional } = this.#options;
    if (isRelisting || hasCode(error, 410)) {
      this.#resourceVersion = undefined;
      return this.#pause(this.#relists.next(cluster.monotonicMs() - this.#listedMs < listServesMs), error);
    }
    if (optional && hasCode(error, 404)) {
      this.#resourceVersion = undefined;
      store.replace([], "0");
      listed();
      return cluster.sleep(missingRequeueMs, stopped);
    }
    onTrouble(resource, error);
    this.#backoffMs = Math.min(longestWatchBackoffMs, this.#backoffMs * 2 + 100);
    await cluster.sleep(Math.max(this.#backoffMs, leastBackoffMs(error)), stopped);
  }

  async #pause(ms: number, error: unknown): Promise<void> {
    if (ms === 0) return;
    const { cluster, stopped, onTrouble, resource } = this.#options;
    onTrouble(resource, error);
    await cluster.sleep(ms, stopped);
  }
}
