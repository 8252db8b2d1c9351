/** The watches of a memory: they list, watch, and begin again, whatever breaks, until they are stopped. */
import { type Cluster, hasCode, type Metadata, type Resource } from "./cluster.ts";
import type { Progress, Store } from "./progress.ts";

export interface Following {
  readonly resource: Resource;
  readonly query: { readonly namespace?: string };
  readonly store: Store<{ readonly metadata: Metadata }>;
  /** A type whose CRD may not be installed: then there are none of them, and that is no trouble. */
  readonly optional: boolean;
  /** How far it has got, where somebody may want it to begin again with a list. */
  readonly progress?: Progress;
}

export interface FollowOptions {
  readonly cluster: Cluster;
  /** Called when a watch broke; it is taken up again by itself. */
  readonly onTrouble: (resource: Resource, error: unknown) => void;
}

const longestBackoffMs = 10_000;
/** How often to look whether a CRD has been installed meanwhile: before anybody would list for having heard nothing (rule R5). */
const missingRecheckMs = 20_000;

/** Lists and watches until stopped, whatever breaks; a revision that is too old begins again with a list. */
export async function follow(
  { cluster, onTrouble }: FollowOptions,
  { resource, query, store, optional, progress }: Following,
  stopped: AbortSignal,
  listed: () => void,
): Promise<void> {
  let backoffMs = 0;
  let resourceVersion: string | undefined;
  while (!stopped.aborted) {
    if (progress !== undefined) progress.relist = new AbortController();
    const signal = progress === undefined ? stopped : AbortSignal.any([stopped, progress.relist.signal]);
    try {
      if (resourceVersion === undefined) {
        const list = await cluster.list(resource, query, { signal });
        store.replace(list.items, list.resourceVersion);
        resourceVersion = list.resourceVersion;
        listed();
      }
      for await (const event of cluster.watch(resource, { ...query, resourceVersion }, { signal })) {
        resourceVersion = event.type === "BOOKMARK" ? event.resourceVersion : event.object.metadata.resourceVersion;
        store.apply(event);
        backoffMs = 0;
      }
    } catch (error) {
      if (stopped.aborted) return;
      if (signal.aborted || hasCode(error, 410)) {
        resourceVersion = undefined;
        continue;
      }
      if (optional && hasCode(error, 404)) {
        resourceVersion = undefined;
        store.replace([], "0");
        listed();
        await cluster.sleep(missingRecheckMs, stopped);
        continue;
      }
      onTrouble(resource, error);
      backoffMs = Math.min(longestBackoffMs, backoffMs * 2 + 100);
      await cluster.sleep(backoffMs, stopped);
    }
  }
}
