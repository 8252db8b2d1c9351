/** The watches of one namespace, which are open while there is work in it, and end early if they may stand still. */

import { BoundedMap } from "../base/bounded-map.ts";
import { hasCode, type ObjectKey, type Resource, tooManyToKeep } from "../kubernetes/cluster.ts";
import { type GroupKey, groupPathOf } from "../workloads/statefulsets.ts";
import { createWatchCache, type WatchCache, type WatchingOptions } from "./watching.ts";

/** Why watches ended: no function used them, the process was stopped for far longer, or they failed. */
export type WatchEnd = "idle" | "overslept" | "broken" | "stopped";

export interface NamespaceWatchOptions extends Pick<WatchingOptions, "cluster" | "onChange" | "onTrouble"> {
  readonly namespace: string;
  /** Time without a use after which the watches end, in milliseconds. */
  readonly idleMs: number;
  /** Pods of the namespace that are kept, at most. */
  readonly mostPods: number;
  /** Called once, when they are let go: `error` says what they broke of. `known` are the groups that were read from them. */
  readonly onEnd: (watch: NamespaceWatch, how: WatchEnd, known: Iterable<GroupKey>, error?: unknown) => void;
}

/** A timer that is later than this shows that the process itself was stopped: frozen, throttled, asleep. */
const overslepMs = 1_000;
/** In milliseconds. A watch that was silent for this long when an event comes must report it within the same time. */
const silentMs = 1_000;
/** In milliseconds. A watch that was not silent has usually reported it already. It is checked if nothing comes for this long. */
const quietMs = 5_000;
/** Groups that are enqueued when the watches break. One that is forgotten waits for its next event, or the sweep. */
const mostKnownGroups = 10_000;

interface Doubt {
  readonly object: ObjectKey;
  readonly eventMs: number;
  /** Monotonic time of the check. */
  readonly dueMs: number;
}

export class NamespaceWatch {
  readonly #options: NamespaceWatchOptions;
  readonly cache: WatchCache;
  readonly #opening = Promise.withResolvers<boolean>();
  /** Resolves to whether the first lists are in memory: false where they cannot be had. Never rejects. */
  readonly opened = this.#opening.promise;
  readonly #known = new BoundedMap<string, GroupKey>(mostKnownGroups);
  readonly #ended = new AbortController();
  /** By type, the last event that the watch may not have reported. */
  readonly #doubts = new Map<Resource, Doubt>();
  readonly beganMs: number;
  #isReady = false;
  #uses = 0;
  #usedMs: number;
  #stopped: Promise<void> | undefined;

  constructor(options: NamespaceWatchOptions) {
    this.#options = options;
    const { cluster, namespace, onChange } = options;
    this.beganMs = cluster.monotonicMs();
    this.#usedMs = this.beganMs;
    this.cache = createWatchCache({
      ...options,
      namespaces: [namespace],
      // The first lists are part of the view for which they are made; all other groups of the namespace have not changed.
      onChange: (key, by) => {
        if (this.isReady) onChange(key, by);
      },
      onTrouble: (resource, error) => {
        // A LIST is no worse meanwhile, so that no reconcile has to wait until a watch works again.
        if (!this.#ended.signal.aborted) options.onTrouble(resource, error);
        this.#end("broken", error);
      },
    });
    void this.cache.ready.then(() => {
      this.#isReady = true;
      this.#opening.resolve(true);
    });
    void this.#endWhenIdle();
  }

  /** True while decisions are made from its memory. */
  get isReady(): boolean {
    return this.#isReady && !this.#ended.signal.aborted;
  }

  /** Reads something of a group. While it does, the watches stay. */
  async use<Value>(key: GroupKey, read: (cache: WatchCache) => Promise<Value>): Promise<Value> {
    this.#known.set(groupPathOf(key), key);
    this.#uses++;
    try {
      return await read(this.cache);
    } finally {
      this.#uses--;
      this.#usedMs = this.#options.cluster.monotonicMs();
    }
  }

  /** True once the watches have ended, or must end because this process was stopped or memory is full. */
  isOver(): boolean {
    if (this.#uses === 0 && this.#idleInMs() < 0) this.#end("overslept");
    const { mostPods } = this.#options;
    if (this.cache.pods > mostPods) this.#end("broken", tooManyToKeep("pods", this.cache.pods, mostPods));
    return this.#ended.signal.aborted;
  }

  /**
   * Takes an event of a changed object. If the watch of its type then reports nothing for a while, this process reads the
   * object. A watch that does not know the newest state of the object has stopped, and is ended. Any client may send such an
   * event, also late, which costs one GET a second at most.
   */
  doubt(resource: Resource, object: ObjectKey): void {
    const eventMs = this.#options.cluster.monotonicMs();
    const lastEventMs = this.#keptOf(resource)?.lastEventMs;
    if (!this.isReady || lastEventMs === undefined) return;
    const dueMs = eventMs + (eventMs - lastEventMs > silentMs ? silentMs : quietMs);
    const pending = this.#doubts.get(resource);
    // A stream of events must not put off the check.
    const isOne = pending !== undefined && lastEventMs < pending.eventMs;
    const since = isOne ? { eventMs: pending.eventMs, dueMs: Math.min(pending.dueMs, dueMs) } : { eventMs, dueMs };
    this.#doubts.set(resource, { object, ...since });
    if (pending === undefined) void this.#check(resource);
  }

  async #check(resource: Resource): Promise<void> {
    const { cluster, onTrouble } = this.#options;
    for (let doubt = this.#doubts.get(resource); doubt !== undefined; doubt = this.#doubts.get(resource)) {
      const waitMs = Math.max(0, doubt.dueMs - cluster.monotonicMs());
      if (waitMs > 0) await cluster.sleep(waitMs, this.#ended.signal);
      if (!this.isReady) return;
      const { eventMs } = doubt;
      const isSilent = () => (this.#keptOf(resource)?.lastEventMs ?? eventMs) < eventMs;
      if (isSilent() && (await this.#isBehind(resource, doubt.object)) && isSilent() && !this.isOver()) {
        onTrouble(
          resource,
          new Error(`it has not delivered the newest state of ${doubt.object.name}, as an event has`),
        );
        this.#end("broken");
        return;
      }
      // An event that came meanwhile is checked next.
      if (this.#doubts.get(resource)?.eventMs === eventMs) this.#doubts.delete(resource);
    }
  }

  /** The state of a type in memory, and when its watch last delivered anything; undefined for a type that is not kept. */
  #keptOf(resource: Resource) {
    const { pods: byPath, lastEventMs, membership } = this.cache.memoryOf(this.#options.namespace);
    if (resource === "pods") return { byPath, lastEventMs };
    return resource === "statefulsets" ? membership : undefined;
  }

  /** Whether memory has the object, but not its newest state. An object that cannot be read is not doubted. */
  async #isBehind(resource: Resource, object: ObjectKey): Promise<boolean> {
    const known = this.#keptOf(resource)?.byPath.get(`${object.namespace}/${object.name}`);
    if (known === undefined) return false;
    try {
      const { metadata } = await this.#options.cluster.get(resource, object);
      return Number(metadata.resourceVersion) > Number(known.resourceVersion);
    } catch (error) {
      return hasCode(error, 404);
    }
  }

  /** Ends the watches; resolves when none is left. */
  stop(): Promise<void> {
    this.#end("stopped");
    return this.#stopped ?? Promise.resolve();
  }

  #idleInMs(): number {
    return this.#usedMs + this.#options.idleMs - this.#options.cluster.monotonicMs();
  }

  async #endWhenIdle(): Promise<void> {
    const { cluster, idleMs } = this.#options;
    for (;;) {
      const restMs = this.#uses > 0 ? idleMs : this.#idleInMs();
      if (restMs <= 0) break;
      await cluster.sleep(restMs, this.#ended.signal);
      if (this.#ended.signal.aborted) return;
    }
    // After a pause the timer comes before the watches' reports of it.
    this.#end(this.#idleInMs() < -overslepMs ? "overslept" : "idle");
  }

  #end(how: WatchEnd, error?: unknown): void {
    if (this.#ended.signal.aborted) return;
    this.#ended.abort();
    this.#opening.resolve(false);
    this.#stopped = this.cache.stop();
    this.#options.onEnd(this, how, this.#known.values(), error);
  }
}
