/** The changes of one resource type: its watchers, and how far back a watch may begin. */

import type { Resource, WatchEvent } from "../../functions/shared/kubernetes/cluster.ts";
import { badRequest, expired } from "./api-errors.ts";
import { type LabelMatcher, LabelSelectorError, labelMatcher } from "./label-selector.ts";
import type { StoredObject } from "./objects.ts";
import type { Cancel } from "./timeline.ts";

/** One write. `current` is undefined for a removal; `final` is then the last object, with the revision of its removal. */
export interface Change<T extends StoredObject> {
  readonly revision: number;
  readonly atMs: number;
  readonly previous: T | undefined;
  readonly current: T | undefined;
  readonly final: T;
}

export interface WatchOptions {
  readonly namespace?: string;
  readonly labelSelector?: string;
  /** The watch gets changes after this revision. Absent or "0": every existing object comes first, as ADDED. */
  readonly resourceVersion?: string;
  /** True: the watch also gets bookmarks, whenever `sendBookmarks` is called. */
  readonly bookmarks?: boolean;
}

interface Watcher<T extends StoredObject> {
  readonly namespace: string | undefined;
  readonly matches: LabelMatcher | undefined;
  readonly bookmarks: boolean;
  readonly listener: (event: WatchEvent<T>) => void;
  /** The last revision that this watcher received or asked to skip. */
  after: number;
}

export class WatchLog<T extends StoredObject> {
  readonly #resource: Resource;
  readonly #capacity: number;
  /** The first revision that a watch can still receive. */
  #oldest: number;
  #changes: Change<T>[] = [];
  #start = 0;
  readonly #watchers = new Set<Watcher<T>>();

  constructor(resource: Resource, capacity: number, beginning: number) {
    this.#resource = resource;
    this.#capacity = capacity;
    this.#oldest = beginning + 1;
  }

  /** Remembers a change, and forgets the oldest if there are too many. */
  remember(change: Change<T>): void {
    this.#changes.push(change);
    if (this.#changes.length - this.#start > this.#capacity) {
      this.#start++;
      this.#oldest = (this.#changes[this.#start] as Change<T>).revision;
    }
    if (this.#start > this.#capacity) {
      this.#changes = this.#changes.slice(this.#start);
      this.#start = 0;
    }
  }

  /** Sends a change to every watcher. */
  publish(change: Change<T>): void {
    for (const watcher of this.#watchers) {
      if (change.revision <= watcher.after) continue;
      watcher.after = change.revision;
      const event = eventFor(change, watcher);
      if (event !== undefined) watcher.listener(event);
    }
  }

  /**
   * Opens a watch. `items`: the current objects. `revision`: the store's.
   *
   * @throws ApiStatusError 410 if the changes since that revision are forgotten, 400 for a malformed selector.
   */
  watch(options: WatchOptions, items: Iterable<T>, revision: number, listener: (event: WatchEvent<T>) => void): Cancel {
    const watcher: Watcher<T> = {
      namespace: options.namespace,
      matches: parseSelector("watch", this.#resource, options.labelSelector),
      bookmarks: options.bookmarks === true,
      listener,
      after: revision,
    };
    const from = options.resourceVersion ?? "";
    if (from === "" || from === "0") {
      for (const object of items) {
        if (isVisible(object, watcher)) listener({ type: "ADDED", object });
      }
    } else {
      const since = Number(from);
      for (const change of this.#since(since)) {
        const event = eventFor(change, watcher);
        if (event !== undefined) listener(event);
      }
      watcher.after = Math.max(revision, since);
    }
    this.#watchers.add(watcher);
    return () => {
      this.#watchers.delete(watcher);
    };
  }

  sendBookmarks(revision: number): void {
    for (const watcher of this.#watchers) {
      if (watcher.bookmarks && watcher.after <= revision) {
        watcher.listener({ type: "BOOKMARK", resourceVersion: String(revision) });
      }
    }
  }

  /**
   * The changes after a revision, the oldest first.
   *
   * @throws ApiStatusError 410 when some of them are forgotten.
   */
  #since(revision: number): Change<T>[] {
    if (revision < this.#oldest - 1) {
      throw expired("watch", this.#resource, `too old resource version: ${revision} (${this.#oldest - 1})`);
    }
    let low = this.#start;
    let high = this.#changes.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#changes[middle] as Change<T>).revision > revision) high = middle;
      else low = middle + 1;
    }
    return this.#changes.slice(low);
  }
}

function isVisible(object: StoredObject, watcher: Pick<Watcher<StoredObject>, "namespace" | "matches">): boolean {
  if (watcher.namespace !== undefined && object.metadata.namespace !== watcher.namespace) return false;
  return watcher.matches === undefined || watcher.matches(object.metadata.labels);
}

/**
 * For a watcher, an object that stops matching is DELETED, with its last matching state, and one that starts to match is
 * ADDED.
 */
function eventFor<T extends StoredObject>(change: Change<T>, watcher: Watcher<T>): WatchEvent<T> | undefined {
  const { previous, current } = change;
  const before = previous !== undefined && isVisible(previous, watcher);
  if (current !== undefined && isVisible(current, watcher)) {
    return { type: before ? "MODIFIED" : "ADDED", object: current };
  }
  if (!before) return undefined;
  if (current === undefined) return { type: "DELETED", object: change.final };
  const metadata = { ...previous.metadata, resourceVersion: current.metadata.resourceVersion };
  return { type: "DELETED", object: { ...previous, metadata } };
}

/** @throws ApiStatusError 400 for a malformed selector. */
export function parseSelector(
  verb: "list" | "watch",
  resource: Resource,
  selector: string | undefined,
): LabelMatcher | undefined {
  try {
    return labelMatcher(selector);
  } catch (error) {
    if (error instanceof LabelSelectorError) throw badRequest(verb, resource, error.message);
    throw error;
  }
}
