/**
 * The `Cluster` of the functions, directly on the store of a fake cluster. Every call takes its time on the timeline of the
 * world.
 */

import {
  type AnsweredObject,
  type CallOptions,
  type Cluster,
  ClusterError,
  type DeleteCallOptions,
  type DiscoveredResource,
  hasCode,
  type ListQuery,
  type ObjectCallOptions,
  type ObjectKey,
  type ObjectList,
  type ObjectTypes,
  type Preconditions,
  type Resource,
  type ServedKind,
  type Subresource,
  tooManyToKeep,
  type WatchEvent,
  type WatchQuery,
} from "../../functions/shared/kubernetes/cluster.ts";
import { Discovery } from "../../functions/shared/kubernetes/discovery.ts";
import { type Admission, anonymous, type UserInfo } from "./admission.ts";
import { badRequest, notServed, type Verb } from "./api-errors.ts";
import { discoveryDocument } from "./discovery.ts";
import type { Store } from "./store.ts";
import type { Cancel } from "./timeline.ts";
import { type UpdateRequest, update } from "./updates.ts";
import type { World } from "./world.ts";
import type { DeleteOptions } from "./write-rules.ts";

/** Direction of a message: to the store, back from it, or as an event of a watch. */
export type Leg = "request" | "reply" | "event";

export interface WorldClusterOptions {
  /** Time that a message takes, in milliseconds. Default 1. Events of one watch never overtake each other. */
  readonly latencyMs?: (leg: Leg, verb: Verb, resource: Resource) => number;
  /** Shows patches to the registered webhooks. Absent: webhooks are never asked. */
  readonly admission?: Admission;
  /** User that webhooks see. Default: {@link anonymous}. */
  readonly user?: UserInfo;
}

/**
 * A cluster in which every call reaches the store after one latency, and is answered after another. The store keeps bodies
 * without copying them: callers must not change them after the call.
 *
 * An aborted call or watch rejects at once with code 0 and reason `Aborted`; a call that was made still reaches the store.
 */
export function createWorldCluster(world: World, options: WorldClusterOptions = {}): Cluster {
  return new WorldCluster(world, options);
}

class WorldCluster implements Cluster {
  readonly #world: World;
  readonly #latencyMs: (leg: Leg, verb: Verb, resource: Resource) => number;
  readonly #admission: Admission | undefined;
  readonly #user: UserInfo;
  readonly #startMs: number;
  readonly #discovery: Discovery;

  constructor(world: World, { latencyMs = () => 1, admission, user = anonymous }: WorldClusterOptions) {
    this.#world = world;
    this.#latencyMs = latencyMs;
    this.#admission = admission;
    this.#user = user;
    this.#startMs = world.timeline.nowMs();
    this.#discovery = new Discovery({
      read: (path) => this.#call("get", path, undefined, () => documentFrom(world.store, path)),
      nowMs: () => this.monotonicMs(),
    });
  }

  get<R extends Resource, S extends "scale" | undefined = undefined>(
    resource: R,
    key: ObjectKey,
    options?: ObjectCallOptions<S>,
  ): Promise<AnsweredObject<R, S>> {
    return this.#call("get", resource, options, () => getFrom(this.#world.store, resource, key, options));
  }

  list<R extends Resource>(resource: R, query: ListQuery, options?: CallOptions): Promise<ObjectList<ObjectTypes[R]>> {
    if (query.notOlderThan === "0" || query.notOlderThan === "") {
      const message = `a list of ${resource} not older than "${query.notOlderThan}" would accept any state, however old`;
      return Promise.reject(badRequest("list", resource, message));
    }
    return this.#call("list", resource, options, () => {
      const list = this.#world.store.list(resource, query) as ObjectList<ObjectTypes[R]>;
      const { length } = list.items;
      if (query.atMost !== undefined && length > query.atMost) throw tooManyToKeep(resource, length, query.atMost);
      return list;
    });
  }

  create<R extends Resource>(
    resource: R,
    namespace: string,
    body: object,
    options?: CallOptions,
  ): Promise<ObjectTypes[R]> {
    return this.#call("create", resource, options, () => {
      return this.#world.store.create(resource, namespace, body) as ObjectTypes[R];
    });
  }

  patch<R extends Resource, S extends Subresource | undefined = undefined>(
    resource: R,
    key: ObjectKey,
    body: object,
    options?: ObjectCallOptions<S>,
  ): Promise<AnsweredObject<R, S>> {
    const { store } = this.#world;
    const admission = this.#admission;
    if (admission === undefined) {
      return this.#call("patch", resource, options, () => patchIn(store, resource, key, body, options));
    }
    const subresource: Subresource | undefined = options?.subresource;
    const request: UpdateRequest = { resource, key, subresource, how: "patch", body, user: this.#user };
    return this.#call(
      "patch",
      resource,
      options,
      async () => (await update(store, admission, request)) as AnsweredObject<R, S>,
    );
  }

  async delete(
    resource: Resource,
    key: ObjectKey,
    preconditions: Preconditions,
    options?: DeleteCallOptions,
  ): Promise<void> {
    await this.#call("delete", resource, options, () => {
      return this.#world.store.delete(resource, key, deleteOptionsOf(preconditions, options));
    });
  }

  watch<R extends Resource>(
    resource: R,
    query: WatchQuery,
    options?: CallOptions,
  ): AsyncIterable<WatchEvent<ObjectTypes[R]>> {
    const { timeline, store } = this.#world;
    const latencyMs = (leg: Leg): number => this.#latencyMs(leg, "watch", resource);
    return {
      [Symbol.asyncIterator]: () => {
        const stream = new EventStream<WatchEvent<ObjectTypes[R]>>();
        let lastAtMs = 0;
        const send = (deliver: () => void): void => {
          lastAtMs = Math.max(lastAtMs, timeline.nowMs() + latencyMs("event"));
          timeline.after(lastAtMs - timeline.nowMs(), deliver);
        };
        timeline.after(latencyMs("request"), () => {
          if (stream.ended) return;
          try {
            const cancel = store.watch(resource, { ...query, bookmarks: true }, (event) => {
              send(() => stream.push(event as WatchEvent<ObjectTypes[R]>));
            });
            stream.onEnd(cancel);
          } catch (error) {
            send(() => stream.fail(error));
          }
        });
        const { signal } = options ?? {};
        if (signal !== undefined) {
          const abort = (): void => stream.fail(aborted("watch", resource));
          if (signal.aborted) abort();
          signal.addEventListener("abort", abort, { once: true });
          stream.onEnd(() => signal.removeEventListener("abort", abort));
        }
        return stream;
      },
    };
  }

  resourceOf(group: string, kind: string, options?: Pick<CallOptions, "signal">): Promise<ServedKind> {
    return this.#discovery.resourceOf(group, kind, options?.signal);
  }

  serverTimeMs(): number {
    return Math.floor(this.#world.timeline.nowMs() / 1000) * 1000;
  }

  wallTimeMs(): number {
    return this.#world.timeline.nowMs();
  }

  monotonicMs(): number {
    return this.#world.timeline.nowMs() - this.#startMs;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const resume = (): void => {
        cancel();
        signal?.removeEventListener("abort", resume);
        resolve();
      };
      const cancel = this.#world.timeline.after(ms, resume);
      signal?.addEventListener("abort", resume, { once: true });
    });
  }

  #call<T>(verb: Verb, resource: Resource, options: CallOptions | undefined, act: () => T | Promise<T>): Promise<T> {
    const { timeline } = this.#world;
    const signal = options?.signal;
    return new Promise((resolve, reject) => {
      const abort = (): void => reject(aborted(verb, resource));
      if (signal?.aborted) return abort();
      // A call is sent at once or never, because nothing waits for a connection here.
      if (this.monotonicMs() > (options?.notAfterMs ?? Number.POSITIVE_INFINITY))
        return reject(tooLate(verb, resource));
      signal?.addEventListener("abort", abort, { once: true });
      timeline.after(this.#latencyMs("request", verb, resource), () => {
        const reply = (answer: () => void): void => {
          timeline.after(this.#latencyMs("reply", verb, resource), () => {
            signal?.removeEventListener("abort", abort);
            answer();
          });
        };
        const refuse = (error: unknown): void => {
          if (hasCode(error, 404)) this.#discovery.doubt(resource);
          reply(() => reject(error));
        };
        try {
          const value = act();
          if (value instanceof Promise) value.then((later) => reply(() => resolve(later)), refuse);
          else reply(() => resolve(value));
        } catch (error) {
          refuse(error);
        }
      });
    });
  }
}

/** The answer of a store's discovery, for every cluster on top of a store. */
export function documentFrom(store: Store, path: DiscoveredResource): object {
  const document = discoveryDocument(store, path);
  if (document === undefined) throw notServed("get", path);
  return document;
}

/** Reads from a store, for every cluster on top of a store. */
export function getFrom<R extends Resource, S extends "scale" | undefined>(
  store: Store,
  resource: R,
  key: ObjectKey,
  options: ObjectCallOptions<S> | undefined,
): AnsweredObject<R, S> {
  const object = options?.subresource === "scale" ? store.getScale(resource, key) : store.get(resource, key);
  return object as AnsweredObject<R, S>;
}

/** Patches a store, for every cluster on top of a store. */
export function patchIn<R extends Resource, S extends Subresource | undefined>(
  store: Store,
  resource: R,
  key: ObjectKey,
  body: object,
  options: ObjectCallOptions<S> | undefined,
): AnsweredObject<R, S> {
  const subresource: Subresource | undefined = options?.subresource;
  if (subresource === "scale") return store.patchScale(resource, key, body) as AnsweredObject<R, S>;
  return store.patch(resource, key, body, subresource) as unknown as AnsweredObject<R, S>;
}

/** The options of a deletion, for every cluster on top of a store. */
export function deleteOptionsOf(preconditions: Preconditions, options: DeleteCallOptions = {}): DeleteOptions {
  const { gracePeriodSeconds, propagationPolicy } = options;
  return {
    preconditions,
    ...(gracePeriodSeconds === undefined ? undefined : { gracePeriodSeconds }),
    ...(propagationPolicy === undefined ? undefined : { propagationPolicy }),
  };
}

function aborted(verb: Verb, resource: Resource): ClusterError {
  return new ClusterError({ code: 0, reason: "Aborted", message: `${verb} ${resource}: given up`, verb, resource });
}

function tooLate(verb: Verb, resource: Resource): ClusterError {
  const message = `${verb} ${resource}: too late to send it`;
  return new ClusterError({ code: 0, reason: "TooLate", message, verb, resource });
}

/** A queue for one reader, which takes from it in order. */
class EventStream<T> implements AsyncIterator<T, undefined> {
  readonly #events: T[] = [];
  readonly #endings: Cancel[] = [];
  #waiting: { resolve: (result: IteratorResult<T, undefined>) => void; reject: (error: unknown) => void } | undefined;
  #failure: { readonly error: unknown } | undefined;
  #ended = false;

  get ended(): boolean {
    return this.#ended;
  }

  push(event: T): void {
    if (this.#ended) return;
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (waiting === undefined) this.#events.push(event);
    else waiting.resolve({ done: false, value: event });
  }

  /** Fails the stream: the reader gets the error after the events before it. */
  fail(error: unknown): void {
    if (this.#ended) return;
    this.#failure = { error };
    this.end();
  }

  /** Ends the stream: the reader still gets the events before the end. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    for (const ending of this.#endings.splice(0)) ending();
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (waiting !== undefined) this.next().then(waiting.resolve, waiting.reject);
  }

  /** Runs `ending` once when the stream ends, or now if it has ended. */
  onEnd(ending: Cancel): void {
    if (this.#ended) ending();
    else this.#endings.push(ending);
  }

  next(): Promise<IteratorResult<T, undefined>> {
    if (this.#events.length > 0) return Promise.resolve({ done: false, value: this.#events.shift() as T });
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure !== undefined) return Promise.reject(failure.error);
    if (this.#ended) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
    });
  }

  return(): Promise<IteratorResult<T, undefined>> {
    this.#events.length = 0;
    this.end();
    return Promise.resolve({ done: true, value: undefined });
  }
}
