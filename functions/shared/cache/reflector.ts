/** Watches that are kept up: they list, watch, and begin again, whatever breaks, until they are stopped. */
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

const longestBackoffMs = 10_000;
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
    this.#nextMs = Math.min(longestBackoffMs, pauseMs * 2 + 100);
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
export async function reflect(
  { cluster, onTrouble, leastBackoffMs = () => 0 }: FollowOptions,
  { resource, query, store, optional, progress, atMost }: Reflection,
  stopped: AbortSignal,
  listed: () => void,
): Promise<void> {
  let backoffMs = 0;
  let resourceVersion: string | undefined;
  let [listedMs, watchedMs] = [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY];
  const [relists, endings] = [new Pauses(), new Pauses()];
  const pause = async (ms: number, error: unknown): Promise<void> => {
    if (ms === 0) return;
    onTrouble(resource, error);
    await cluster.sleep(ms, stopped);
  };
  while (!stopped.aborted) {
    // It may have been asked for while this paused.
    if (progress?.relist.signal.aborted) resourceVersion = undefined;
    if (progress !== undefined) progress.relist = new AbortController();
    const signal = progress === undefined ? stopped : AbortSignal.any([stopped, progress.relist.signal]);
    try {
      if (resourceVersion === undefined) {
        listedMs = cluster.monotonicMs();
        const list = await cluster.list(resource, atMost === undefined ? query : { ...query, atMost }, { signal });
        store.replace(list.items, list.resourceVersion);
        resourceVersion = list.resourceVersion;
        listedMs = cluster.monotonicMs();
        listed();
      }
      watchedMs = cluster.monotonicMs();
      for await (const event of cluster.watch(resource, { ...query, resourceVersion }, { signal })) {
        resourceVersion = event.type === "BOOKMARK" ? event.resourceVersion : event.object.metadata.resourceVersion;
        store.apply(event);
        backoffMs = 0;
        endings.shorten();
      }
      const soon = cluster.monotonicMs() - watchedMs < watchLastsMs;
      await pause(endings.next(soon), new Error("the server ends it as soon as it has begun"));
    } catch (error) {
      if (stopped.aborted) return;
      if (signal.aborted || hasCode(error, 410)) {
        resourceVersion = undefined;
        await pause(relists.next(cluster.monotonicMs() - listedMs < listServesMs), error);
        continue;
      }
      if (optional && hasCode(error, 404)) {
        resourceVersion = undefined;
        store.replace([], "0");
        listed();
        await cluster.sleep(missingRequeueMs, stopped);
        continue;
      }
      onTrouble(resource, error);
      backoffMs = Math.min(longestBackoffMs, backoffMs * 2 + 100);
      await cluster.sleep(Math.max(backoffMs, leastBackoffMs(error)), stopped);
    }
  }
}
