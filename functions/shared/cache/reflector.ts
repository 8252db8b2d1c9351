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
/** A whole list that serves for less than this was hardly worth its cost: the next one but one has to wait. */
const listServesMs = 10_000;
/** A watch that the server ends sooner than this has not been one: they last for minutes. */
const watchLastsMs = 1_000;
/** How often to look whether a CRD has been installed meanwhile: before a decision lists for having heard nothing (rule R5). */
const missingRequeueMs = 20_000;

/** Pauses between what is done again: none before the first, and then longer each time until one was not needed soon after. */
export class Pauses {
  #nextMs = 0;

  /** The pause now, in milliseconds. `soon`: the time before went by too fast. */
  next(soon: boolean): number {
    if (!soon) this.#nextMs = 0;
    const pauseMs = this.#nextMs;
    this.#nextMs = Math.min(longestWatchBackoffMs, pauseMs * 2 + 100);
    return pauseMs;
  }

  /** Something came of it: the next pause is short again. */
  shorten(): void {
    this.#nextMs = Math.min(this.#nextMs, 100);
  }
}

/**
 * Lists and watches until stopped, whatever breaks; a revision that is too old begins again with a list. Once is no matter; what
 * comes back within a short time waits, up to 10 s: whole lists are the dearest thing that can be asked of an API server.
 */
export function reflect(
  options: FollowOptions,
  reflection: Reflection,
  stopped: AbortSignal,
  listed: () => void,
): Promise<void> {
  return new Reflector(options, reflection, stopped, listed).run();
}

class Reflector {
  readonly #options: FollowOptions;
  readonly #reflection: Reflection;
  readonly #stopped: AbortSignal;
  readonly #listed: () => void;
  readonly #relists = new Pauses();
  readonly #endings = new Pauses();
  /** Where the watch goes on; undefined: with a list. */
  #resourceVersion: string | undefined;
  #backoffMs = 0;
  #listedMs = Number.NEGATIVE_INFINITY;

  constructor(options: FollowOptions, reflection: Reflection, stopped: AbortSignal, listed: () => void) {
    this.#options = options;
    this.#reflection = reflection;
    this.#stopped = stopped;
    this.#listed = listed;
  }

  async run(): Promise<void> {
    const { progress } = this.#reflection;
    while (!this.#stopped.aborted) {
      // It may have been asked for while this paused.
      if (progress?.relist.signal.aborted) this.#resourceVersion = undefined;
      if (progress !== undefined) progress.relist = new AbortController();
      const signal = progress === undefined ? this.#stopped : AbortSignal.any([this.#stopped, progress.relist.signal]);
      try {
        await this.#watch(this.#resourceVersion ?? (await this.#list(signal)), signal);
      } catch (error) {
        if (this.#stopped.aborted) return;
        await this.#recover(error, signal.aborted);
      }
    }
  }

  async #list(signal: AbortSignal): Promise<string> {
    const { cluster } = this.#options;
    const { resource, query, store, atMost } = this.#reflection;
    this.#listedMs = cluster.monotonicMs();
    const list = await cluster.list(resource, atMost === undefined ? query : { ...query, atMost }, { signal });
    store.replace(list.items, list.resourceVersion);
    this.#resourceVersion = list.resourceVersion;
    this.#listedMs = cluster.monotonicMs();
    this.#listed();
    return list.resourceVersion;
  }

  async #watch(resourceVersion: string, signal: AbortSignal): Promise<void> {
    const { cluster } = this.#options;
    const { resource, query, store } = this.#reflection;
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
    const { cluster, onTrouble, leastBackoffMs = () => 0 } = this.#options;
    const { resource, store, optional } = this.#reflection;
    if (isRelisting || hasCode(error, 410)) {
      this.#resourceVersion = undefined;
      return this.#pause(this.#relists.next(cluster.monotonicMs() - this.#listedMs < listServesMs), error);
    }
    if (optional && hasCode(error, 404)) {
      this.#resourceVersion = undefined;
      store.replace([], "0");
      this.#listed();
      return cluster.sleep(missingRequeueMs, this.#stopped);
    }
    onTrouble(resource, error);
    this.#backoffMs = Math.min(longestWatchBackoffMs, this.#backoffMs * 2 + 100);
    await cluster.sleep(Math.max(this.#backoffMs, leastBackoffMs(error)), this.#stopped);
  }

  async #pause(ms: number, error: unknown): Promise<void> {
    if (ms === 0) return;
    this.#options.onTrouble(this.#reflection.resource, error);
    await this.#options.cluster.sleep(ms, this.#stopped);
  }
}
