/** A process's connection to the world, with everything that can go wrong on it. */
import {
  type AnsweredObject,
  type CallOptions,
  type Cluster,
  ClusterError,
  type DeleteCallOptions,
  type ListQuery,
  type ObjectCallOptions,
  type ObjectKey,
  type ObjectList,
  type ObjectTypes,
  type Preconditions,
  type Resource,
  type ServedKind,
  type Subresource,
  type WatchEvent,
  type WatchQuery,
} from "../../functions/shared/kubernetes/cluster.ts";
import { Discovery } from "../../functions/shared/kubernetes/discovery.ts";
import { labelMatcher } from "../fake-cluster/label-selector.ts";
import type { World } from "../fake-cluster/world.ts";
import { deleteOptionsOf, documentFrom, getFrom, patchIn } from "../fake-cluster/world-cluster.ts";
import type { Draw } from "./draw.ts";
import { noWatchFaults, SimulatedWatch, type WatchFaults } from "./simulated-watch.ts";

/** Probabilities for one call, and times in milliseconds. */
export interface CallFaults {
  /** Typical time of one direction. */
  readonly latencyMs: number;
  /** The answer takes from `stallFromMs` (default: a second) to `stallMs`, because the process or its network hangs. */
  readonly stall: number;
  readonly stallMs: number;
  readonly stallFromMs?: number;
  /** The only verb that stalls; absent: all verbs. */
  readonly stallVerb?: string;
  /** The answer is 429, 500, 503 or none, and the server did nothing. */
  readonly refuse: number;
  /** The answer is 401, 403 or, to a write, 422, and the server did nothing: an expired token, or a policy that denies. */
  readonly deny: number;
  /** The server does what is asked, and the answer is lost. */
  readonly loseReply: number;
  /** A deletion takes this long on its way, and is carried out after its sender has given it up. */
  readonly slowDelete: number;
  readonly slowDeleteFromMs: number;
  readonly slowDeleteMs: number;
  /** The answer to a LIST takes up to eight seconds, and what it shows is then as old. */
  readonly lateList: number;
  /** A LIST that may be served from memory (`NotOlderThan`) is as old as `oldListMs` allows. */
  readonly oldList: number;
  readonly watch: WatchFaults;
}

export const noFaults: CallFaults = {
  latencyMs: 2,
  stall: 0,
  stallMs: 0,
  refuse: 0,
  deny: 0,
  loseReply: 0,
  slowDelete: 0,
  slowDeleteFromMs: 0,
  slowDeleteMs: 0,
  lateList: 0,
  oldList: 0,
  watch: noWatchFaults,
};

/** Receives the calls that checkers need. */
export interface CallObserver {
  /** Called when a deletion leaves the process. */
  onDeleteSent(replica: string, resource: Resource, key: ObjectKey, preconditions: Preconditions): void;
  /** Called when the server is about to carry out a deletion. */
  onDeleteArrived(replica: string, resource: Resource, key: ObjectKey, preconditions: Preconditions): void;
  /** Called when a patch leaves the process. */
  onPatchSent(replica: string, resource: Resource, body: object): void;
  /** Called when the server has carried out a patch. */
  onPatched(replica: string, resource: Resource, after: object, body: object): void;
  /** Called when the server has carried out a write of any kind. */
  onWritten(replica: string, verb: string, resource: Resource): void;
  log(who: string, what: string): void;
}

export interface Process {
  readonly name: string;
  alive: boolean;
  /** What waits while the process is stopped (SIGSTOP): none of its code runs, and what was sent to it has arrived. */
  backlog: (() => void)[] | undefined;
}

export function newProcess(name: string): Process {
  return { name, alive: true, backlog: undefined };
}

/** Runs code of a process: now, when it goes on, or never. */
export function runIn(process: Process, go: () => void): void {
  if (!process.alive) return;
  if (process.backlog === undefined) go();
  else process.backlog.push(go);
}

/** How far the clocks that a process reads are off the true time. */
export interface ProcessClocks {
  /** The clock of its API server, which is set anew at times. */
  skewMs: number;
  /** The process's own wall clock. */
  readonly wallSkewMs: number;
}

export interface SimulatedClusterOptions {
  readonly world: World;
  readonly draw: Draw;
  readonly process: Process;
  /** The faults at this time. They end with the safety phase. */
  readonly faults: () => CallFaults;
  readonly clock: ProcessClocks;
  /** The revision from which on LISTs are served from memory: the API server's memory lags as well. */
  readonly oldestRevision: () => number;
  readonly observer: CallObserver;
  /** Called when code of the process goes on. */
  readonly onResume: () => void;
}

/** A call without an answer rejects after this long. */
const timeoutMs = 10_000;

export class SimulatedCluster implements Cluster {
  readonly #options: SimulatedClusterOptions;
  readonly #startMs: number;
  readonly #discovery: Discovery;

  constructor(options: SimulatedClusterOptions) {
    this.#options = options;
    this.#startMs = options.world.timeline.nowMs();
    const { store } = options.world;
    this.#discovery = new Discovery({
      read: (path) => this.#call("get", path, "", () => documentFrom(store, path)),
      nowMs: () => this.monotonicMs(),
    });
  }

  get<R extends Resource, S extends "scale" | undefined = undefined>(
    resource: R,
    key: ObjectKey,
    options?: ObjectCallOptions<S>,
  ): Promise<AnsweredObject<R, S>> {
    return this.#call("get", resource, key.name, () => getFrom(this.#options.world.store, resource, key, options));
  }

  list<R extends Resource>(resource: R, query: ListQuery): Promise<ObjectList<ObjectTypes[R]>> {
    return this.#call("list", resource, query.labelSelector ?? "", () => {
      const list = this.#options.world.store.list(resource, query) as ObjectList<ObjectTypes[R]>;
      return this.#olderList(resource, query, list);
    });
  }

  create<R extends Resource>(resource: R, namespace: string, body: object): Promise<ObjectTypes[R]> {
    return this.#call(
      "create",
      resource,
      "",
      () => this.#options.world.store.create(resource, namespace, body) as ObjectTypes[R],
    );
  }

  patch<R extends Resource, S extends Subresource | undefined = undefined>(
    resource: R,
    key: ObjectKey,
    body: object,
    options?: ObjectCallOptions<S>,
  ): Promise<AnsweredObject<R, S>> {
    const { world, observer, process } = this.#options;
    if (process.alive) observer.onPatchSent(process.name, resource, body);
    return this.#call("patch", resource, key.name, () => {
      const after = patchIn(world.store, resource, key, body, options);
      observer.onPatched(process.name, resource, after, body);
      return after;
    });
  }

  delete(resource: Resource, key: ObjectKey, preconditions: Preconditions, options?: DeleteCallOptions): Promise<void> {
    const { world, observer, process } = this.#options;
    if (process.alive) observer.onDeleteSent(process.name, resource, key, preconditions);
    return this.#call("delete", resource, key.name, () => {
      observer.onDeleteArrived(process.name, resource, key, preconditions);
      world.store.delete(resource, key, deleteOptionsOf(preconditions, options));
    });
  }

  watch<R extends Resource>(
    resource: R,
    query: WatchQuery,
    options?: CallOptions,
  ): AsyncIterable<WatchEvent<ObjectTypes[R]>> {
    const { world, draw, process, observer, faults } = this.#options;
    return new SimulatedWatch<ObjectTypes[R]>({
      world,
      draw,
      resource,
      query,
      signal: options?.signal,
      faults: () => faults().watch,
      latencyMs: () => this.#latencyMs(),
      resume: (go) => this.#resume(go),
      log: (what) => observer.log(process.name, `its watch of ${resource} ${what}`),
    });
  }

  resourceOf(group: string, kind: string, options?: Pick<CallOptions, "signal">): Promise<ServedKind> {
    return this.#discovery.resourceOf(group, kind, options?.signal);
  }

  /** The answer from the memory of an API server that is no newer than it must be. */
  #olderList<R extends Resource>(resource: R, query: ListQuery, now: ObjectList<ObjectTypes[R]>): typeof now {
    const { world, draw, faults, oldestRevision } = this.#options;
    const { notOlderThan, namespace, labelSelector } = query;
    if (notOlderThan === undefined || namespace === undefined || !draw.chance(faults().oldList)) return now;
    const least = Math.max(Number(notOlderThan), oldestRevision());
    const revision = draw.whole(least, Math.max(least, Number(now.resourceVersion)));
    const matches = labelMatcher(labelSelector);
    const { store } = world;
    const then =
      resource === "pods" ? store.podsAsOf(namespace, revision) : store.statefulSetsAsOf(namespace, revision);
    const items = matches === undefined ? then : then.filter(({ metadata }) => matches(metadata.labels));
    return {
      items: items as ObjectTypes[R][],
      resourceVersion: String(revision),
    };
  }

  serverTimeMs(): number {
    return Math.floor((this.#options.world.timeline.nowMs() + this.#options.clock.skewMs) / 1000) * 1000;
  }

  wallTimeMs(): number {
    return this.#options.world.timeline.nowMs() + this.#options.clock.wallSkewMs;
  }

  monotonicMs(): number {
    return this.#options.world.timeline.nowMs() - this.#startMs;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const trigger = () => {
      cancel();
      this.#resume(resolve);
    };
    const cancel = this.#options.world.timeline.after(ms, trigger);
    if (signal?.aborted) trigger();
    else signal?.addEventListener("abort", trigger, { once: true });
    return promise;
  }

  #latencyMs(): number {
    const { draw, faults } = this.#options;
    const { latencyMs } = faults();
    return latencyMs * (0.3 + 1.4 * draw.random()) * (draw.chance(0.03) ? 20 : 1);
  }

  #resume(go: () => void): void {
    runIn(this.#options.process, () => {
      this.#options.onResume();
      go();
    });
  }

  #call<T>(verb: string, resource: Resource, name: string, act: () => T): Promise<T> {
    const { world, draw, process, observer, faults } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    if (!process.alive) return promise;
    const {
      refuse,
      deny,
      loseReply,
      stall,
      stallMs,
      stallFromMs = 1_000,
      stallVerb = verb,
      slowDelete,
      slowDeleteFromMs,
      slowDeleteMs,
      lateList,
    } = faults();
    const { timeline } = world;
    const isRead = verb === "get" || verb === "list";
    const failed = (code: number, message: string) =>
      new ClusterError({ code, reason: code === 0 ? "Timeout" : "Injected", message, verb, resource });
    if (draw.chance(refuse)) {
      const code = draw.pick([0, 429, 500, 503, 504]);
      timeline.after(code === 0 ? timeoutMs : this.#latencyMs(), () =>
        this.#resume(() => reject(failed(code, "refused by the simulation"))),
      );
      return promise;
    }
    if (draw.chance(deny)) {
      const code = draw.pick(isRead ? [401, 403] : [401, 403, 422]);
      timeline.after(this.#latencyMs(), () => this.#resume(() => reject(failed(code, "denied by the simulation"))));
      return promise;
    }
    const lost = draw.chance(loseReply);
    let lateMs = verb === stallVerb && draw.chance(stall) ? draw.between(stallFromMs, stallMs) : 0;
    if (verb === "list" && draw.chance(lateList)) lateMs += draw.between(500, 8_000);
    let isAnswered = false;
    const wayMs =
      verb === "delete" && draw.chance(slowDelete) ? draw.between(slowDeleteFromMs, slowDeleteMs) : this.#latencyMs();
    if (wayMs > timeoutMs) {
      isAnswered = true;
      timeline.after(timeoutMs, () => this.#resume(() => reject(failed(0, "no answer"))));
    }
    timeline.after(wayMs, () => {
      const outcome = this.#carryOut(verb, resource, name, act);
      const answer = () => ("error" in outcome ? reject(outcome.error) : resolve(outcome.value));
      if (isAnswered) return;
      if (lost) {
        observer.log(process.name, `${verb} ${resource} ${name}: the reply is lost`);
        timeline.after(timeoutMs, () => this.#resume(() => reject(failed(0, "no answer"))));
      } else {
        timeline.after(this.#latencyMs() + lateMs, () => this.#resume(answer));
      }
    });
    return promise;
  }

  /** Does what the API server does, and reports writes to the observer. */
  #carryOut<T>(
    verb: string,
    resource: Resource,
    name: string,
    act: () => T,
  ): { readonly value: T } | { readonly error: ClusterError } {
    const { process, observer } = this.#options;
    const isRead = verb === "get" || verb === "list";
    try {
      const value = act();
      if (!isRead) observer.onWritten(process.name, verb, resource);
      if (!isRead) observer.log(process.name, `${verb} ${resource} ${name}: done`);
      return { value };
    } catch (error) {
      if (!(error instanceof ClusterError)) throw error;
      if (!isRead) observer.log(process.name, `${verb} ${resource} ${name}: ${error.code} ${error.message}`);
      if (error.code === 404) this.#discovery.doubt(resource);
      return { error };
    }
  }
}
