/** Keeps a few objects of one type in memory, fed by a watch: budgets of both kinds. If the watch is silent, it lists them. */

import { BoundedMap } from "../base/bounded-map.ts";
import type { Cluster, Metadata, WatchEvent } from "../kubernetes/cluster.ts";
import { silentAfterMs } from "./cache.ts";
import { newProgress, noteRelist, noteRevision, type Store } from "./watch-progress.ts";

/** Namespaces that were listed while the watch was silent. A namespace that is forgotten is listed again. */
const rememberedListings = 10_000;

interface StoredObject<T> {
  readonly namespace: string;
  readonly uid: string;
  readonly generation: number;
  readonly resourceVersion: number;
  readonly value: T;
}

/** What happened to an object in a watch event; `ignored`: its spec is already known. */
export type StoreEvent = "updated" | "ignored" | "deleted";

export interface ObjectStoreOptions<T, O> {
  readonly clock: Pick<Cluster, "monotonicMs">;
  parse(object: O): T;
  /** Called for every object that the watch or a list delivers. */
  seen(value: T, how: StoreEvent): void;
}

export class ObjectStore<T, O extends { readonly metadata: Metadata }> implements Store<O> {
  readonly #options: ObjectStoreOptions<T, O>;
  readonly #kept = new Map<string, StoredObject<T>>();
  readonly #listedMs = new BoundedMap<string, number>(rememberedListings);
  readonly #listings = new Map<string, Promise<void>>();
  /** Nothing has been received yet: the first caller lists. */
  readonly #progress = newProgress(Number.NEGATIVE_INFINITY);

  constructor(options: ObjectStoreOptions<T, O>) {
    this.#options = options;
  }

  /**
   * The objects of a namespace: from the watch, if it reported anything in the last 30 s, or else from `list`. Rejects as
   * `list` does.
   */
  async read(namespace: string, list: () => Promise<readonly O[]>): Promise<readonly T[]> {
    const { lastEventMs } = this.#progress;
    const knownMs = Math.max(lastEventMs, this.#listedMs.get(namespace) ?? lastEventMs);
    if (this.#options.clock.monotonicMs() - knownMs > silentAfterMs) {
      // One list serves all callers that come while it runs, because each of them would send the same request.
      const listing = this.#listings.get(namespace) ?? this.#list(namespace, list);
      this.#listings.set(namespace, listing);
      await listing;
    }
    return [...this.#kept.values()].filter((one) => one.namespace === namespace).map(({ value }) => value);
  }

  async #list(namespace: string, list: () => Promise<readonly O[]>): Promise<void> {
    const askedMs = this.#options.clock.monotonicMs();
    const before = this.#progress.reached;
    try {
      const objects = await list();
      // A report of the watch that came meanwhile is newer.
      if (this.#progress.reached !== before) return;
      this.#replace(objects, namespace);
      this.#listedMs.set(namespace, askedMs);
    } finally {
      this.#listings.delete(namespace);
    }
  }

  replace(objects: readonly O[], resourceVersion: string): void {
    this.#replace(objects);
    noteRelist(this.#progress, Number(resourceVersion), this.#options.clock.monotonicMs());
  }

  apply(event: WatchEvent<O>): void {
    const nowMs = this.#options.clock.monotonicMs();
    if (event.type === "BOOKMARK") {
      noteRevision(this.#progress, Number(event.resourceVersion), nowMs);
      return;
    }
    const { namespace = "", name, resourceVersion } = event.object.metadata;
    const path = `${namespace}/${name}`;
    // The deletion may be that of an earlier object of the same name, which a list has already shown to exist again.
    const isNews = (this.#kept.get(path)?.resourceVersion ?? 0) <= Number(resourceVersion);
    if (event.type !== "DELETED") this.#put(event.object);
    else if (isNews) this.#remove(path);
    noteRevision(this.#progress, Number(resourceVersion), nowMs);
  }

  #replace(objects: readonly O[], namespace?: string): void {
    const listed = new Set(objects.map(({ metadata }) => `${metadata.namespace ?? ""}/${metadata.name}`));
    for (const [path, one] of [...this.#kept]) {
      if ((namespace === undefined || one.namespace === namespace) && !listed.has(path)) this.#remove(path);
    }
    for (const object of objects) this.#put(object);
  }

  #put(object: O): void {
    const { namespace = "", name, uid, generation = 0 } = object.metadata;
    const resourceVersion = Number(object.metadata.resourceVersion);
    const before = this.#kept.get(`${namespace}/${name}`);
    if (before !== undefined && before.resourceVersion > resourceVersion) return;
    const value = this.#options.parse(object);
    this.#kept.set(`${namespace}/${name}`, { namespace, uid, generation, resourceVersion, value });
    // A budget without a status subresource in use changes its generation with every change of its spec.
    const isSame = before?.uid === uid && generation > 0 && before.generation >= generation;
    this.#options.seen(value, isSame ? "ignored" : "updated");
  }

  #remove(path: string): void {
    const before = this.#kept.get(path);
    if (before === undefined) return;
    this.#kept.delete(path);
    this.#options.seen(before.value, "deleted");
  }
}
