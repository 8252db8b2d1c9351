/** Enqueues reconciles. An event, a watch or a timer names an object, and each function that it concerns is queued. */

import { asPartOf, inSpan } from "../../functions/shared/base/spans.ts";
import type { OnDemandCache } from "../../functions/shared/cache/on-demand.ts";
import type { Clock } from "../../functions/shared/clock/clock.ts";
import type { FunctionDefinition } from "../../functions/shared/contract/definition.ts";
import {
  isGroup,
  type Key,
  type KeyLookUp,
  pathOf,
  type WatchedSource,
  type WatchSource,
} from "../../functions/shared/contract/keys.ts";
import {
  hasCode,
  type KnownResource,
  type ObjectKey,
  type Resource,
} from "../../functions/shared/kubernetes/cluster.ts";
import type { GroupKey } from "../../functions/shared/workloads/statefulsets.ts";
import type { EventResult, Reporting } from "../telemetry/logs-and-metrics.ts";
import { inReconcileSpan } from "../telemetry/tracing-spans.ts";
import type { KnownGroups } from "./known-groups.ts";
import { KeyedQueue, type RunOutcome, type Trigger } from "./queue.ts";
import type { RateLimit } from "./rate-limiter.ts";
import { sweep, sweepDue } from "./sweep.ts";
import { causeOf, failureMessage, leastBackoffMs, runReconcile, type ServedFunction } from "./worker.ts";

export interface Enqueuer {
  /** An event names an object that has changed: what becomes of that. Any client may have sent it. */
  changed(resource: Resource, object: ObjectKey): Exclude<EventResult, "malformed">;
  /** The same, but a watch of ours reports it, for functions that wait for what has this label; undefined: for all objects. */
  watched(resource: Resource, object: ObjectKey, selector: string | undefined): void;
  /** An object of type `by` has changed, and with it this group. False when it was refused. */
  group(key: GroupKey, by: Resource): boolean;
  /** Starts a sweep, unless one is queued or runs. False when it was refused: the process is ending. */
  sweep(): boolean;
  /**
   * Enqueues the keys that are due by a function's own schedule, of the function of this name or of all. False when it was
   * refused: the process is ending.
   */
  due(name?: string): boolean;
  /** Ends what is queued and runs; false when that took until `deadlineMs` of the monotonic clock. */
  drain(deadlineMs: number): Promise<boolean>;
  /** Keys that are queued, running or to be retried. */
  readonly keys: number;
}

export interface EnqueuerOptions {
  readonly clock: Clock;
  readonly known: KnownGroups;
  /** True where watches report every change, and reconciles decide from the cache. */
  readonly isWatching: boolean;
  /** A cache that watches for a while after an event, so that a reconcile costs no lists. Undefined: there is none. */
  readonly onDemand?: Pick<OnDemandCache, "isWatched" | "noteEvent"> | undefined;
  readonly served: readonly ServedFunction[];
  readonly reporting: Reporting;
  /** True where a sweep begins with the process. */
  readonly isSwept: boolean;
  /** Undefined: all of them. */
  readonly namespaces: readonly string[] | undefined;
  readonly gatherMs: number;
  readonly concurrency: number;
  readonly capacity: number;
}

/** The look-up that a function needs to know which of its keys a changed object concerns. */
interface KeyLookUpJob {
  readonly served: ServedFunction;
  readonly source: WatchSource;
  readonly object: ObjectKey;
  readonly lookUp: KeyLookUp;
}

interface QueuedReconcile {
  readonly served: ServedFunction;
  readonly key: Key;
}

const done: RunOutcome = { requeueAfterMs: undefined, pendingActs: undefined };

/**
 * Any client can post an event, and each may cost a read. At most 100 look-ups of objects that no reconcile has seen happen at
 * once, then 20 a second, and each function has an object looked up at most once in five seconds. At most 500 wait, and the sweep
 * finds the rest.
 */
const lookUpsTogether: RateLimit = { burst: 100, everyMs: 50 };
const lookUpsOfOne: RateLimit = { burst: 1, everyMs: 5_000 };
const mostLookUps = 500;
/**
 * The sweep at a start reconciles every group, and an object that a reconcile reads need not be looked up. Look-ups wait for
 * that sweep for this long from the start, in milliseconds.
 */
const firstSweepMs = 400;
/** The rate limit if a reconcile lists its whole view, however many events name its group. A rollout needs seven a second. */
const listingReconciles: RateLimit = { burst: 100, everyMs: 100 };

/** The types that the cache watches. It reports a changed object by its groups. */
const viewed: ReadonlySet<Resource> = new Set(["pods", "statefulsets", "zoneawarepoddisruptionbudgets"]);

/** The sources that enqueue functions and that no cache watches. A cache reports groups, whatever object has changed. */
export function unviewed(definitions: readonly FunctionDefinition[]): readonly WatchSource[] {
  return definitions.flatMap(({ keyedBy, watches }) =>
    watches.filter(({ resource }) => keyedBy !== "groups" || !viewed.has(resource)),
  );
}

/** The types of objects whose changes trigger one of the functions. */
export function watchedTypes(
  definitions: readonly { readonly watches?: readonly WatchedSource[] }[],
): ReadonlySet<KnownResource> {
  return new Set(definitions.flatMap(({ watches = [] }) => watches.map(({ resource }) => resource)));
}

/** The possible results of an event, in order: if it concerns several functions, the first one that occurs is the answer. */
const results = ["refused", "queued", "deferred", "ignored"] as const;
type Result = (typeof results)[number];

/** The answer to an event that had these results for several functions. */
export function answerOf(became: readonly Result[]): Result {
  return results.find((result) => became.includes(result)) ?? "ignored";
}

/** Three queues: look-ups of changed objects, sweeps, and the reconciles that both enqueue, each of one function and one key. */
export function createEnqueuer(options: EnqueuerOptions): Enqueuer {
  const { known, isWatching, onDemand } = options;
  let isDraining = false;
  const reconciles = queueOfReconciles(options);
  const enqueue = (served: ServedFunction, key: Key, how: Trigger): boolean => reconciles.offer({ served, key }, how);
  const lookUps = queueOfLookUps(options, enqueue);
  const sweeps = queueOfSweeps(options, (served, key) => enqueue(served, key, { sweep: true }));
  const changedFor = (served: ServedFunction, source: WatchSource, object: ObjectKey, isFromEvent = false): Result => {
    const isViewed = isWatching && viewed.has(source.resource);
    if (isFromEvent && isViewed && served.definition.keyedBy === "groups") return "ignored";
    const found = source.keysOf(object, known);
    if (!("name" in found)) {
      const queued = found.map((key) => enqueue(served, key, { sweep: false }));
      return answerOf(queued.map((isQueued) => (isQueued ? "queued" : "refused")));
    }
    if (isDraining) return "refused";
    // A watch delivers the object, so that nothing needs to be read.
    if (isViewed && !isFromEvent) return "ignored";
    return lookUps.offer({ served, source, object, lookUp: found }) ? "queued" : "deferred";
  };
  const enqueueAll = (
    resource: Resource,
    object: ObjectKey,
    watched?: { readonly selector: string | undefined },
  ): Result => {
    const became = options.served.flatMap((served) => {
      const sources = served.definition.watches.filter(
        (one) => one.resource === resource && (watched === undefined || one.selector?.key === watched.selector),
      );
      return sources.map((one) => changedFor(served, one, object, watched !== undefined));
    });
    return answerOf(became);
  };
  return {
    changed(resource, object) {
      onDemand?.noteEvent(resource, object);
      return enqueueAll(resource, object);
    },
    watched: (resource, object, selector) => void enqueueAll(resource, object, { selector }),
    group(key, by) {
      const isTriggered = ({ definition: { keyedBy, watches } }: ServedFunction) =>
        keyedBy === "groups" && watches.some(({ resource }) => resource === by);
      const refused = options.served.filter((served) => isTriggered(served) && !enqueue(served, key, { sweep: false }));
      return refused.length === 0;
    },
    sweep: () => sweeps.has("sweep") || sweeps.offer("sweep"),
    due(name) {
      const isDue = ({ definition }: ServedFunction) =>
        definition.schedule !== undefined && (name === undefined || definition.name === name);
      return options.served.filter(isDue).every((one) => sweeps.has(one) || sweeps.offer(one));
    },
    async drain(deadlineMs) {
      isDraining = true;
      // In this order, because a look-up or a sweep that runs still enqueues its keys.
      const found = await Promise.all([lookUps.drain(deadlineMs), sweeps.drain(deadlineMs)]);
      const isDrained = await reconciles.drain(deadlineMs);
      return isDrained && found.every(Boolean);
    },
    get keys() {
      return lookUps.size + sweeps.size + reconciles.size;
    },
  };
}

function queueOfReconciles(options: EnqueuerOptions): KeyedQueue<QueuedReconcile> {
  const { isWatching, onDemand, reporting } = options;
  return new KeyedQueue<QueuedReconcile>({
    ...sharedBy(options),
    ...(isWatching ? {} : { rateLimit: listingReconciles }),
    isRateLimited: ({ key }) => !isGroup(key) || onDemand?.isWatched(key.namespace) !== true,
    nameOf: ({ served: { definition }, key }) => `${definition.name} ${pathOf(key)}`,
    run: ({ served, key }, trigger) =>
      inReconcileSpan(served.definition.name, key, trigger, () => runReconcile(served, reporting, key, trigger)),
    onFailure: ({ served: { definition }, key }, error, retryMs) =>
      reporting.problem(key, definition.name, failureMessage(error, retryMs), error),
  });
}

function queueOfLookUps(
  options: EnqueuerOptions,
  enqueue: (served: ServedFunction, key: Key, how: Trigger) => boolean,
): KeyedQueue<KeyLookUpJob> {
  const { known, reporting, clock } = options;
  const seenMs = options.isSwept ? clock.monotonicMs() + firstSweepMs : Number.NEGATIVE_INFINITY;
  return new KeyedQueue<KeyLookUpJob>({
    ...sharedBy(options),
    gatherMs: 0,
    capacity: mostLookUps,
    rateLimit: lookUpsOfOne,
    limitedTogether: lookUpsTogether,
    nameOf: ({ served: { definition }, lookUp }) => `${definition.name} ${lookUp.name}`,
    async run({ served, source, object }, { triggeredBy = [] }) {
      const waitMs = seenMs - clock.monotonicMs();
      if (waitMs > 0) await clock.sleep(waitMs);
      // A reconcile may have read it meanwhile.
      const found = source.keysOf(object, known);
      const keys = "name" in found ? await asPartOf(triggeredBy, () => find(served, found, object)) : found;
      const refused = keys.filter((key) => !enqueue(served, key, { sweep: false, triggeredBy }));
      if (refused.length > 0) throw new Error(`the queue is full: ${refused.map(pathOf)} could not be enqueued`);
      return done;
    },
    onFailure({ object: { namespace, name } }, error, retryMs) {
      const fields = { namespace, object: name, reason: "look-up-failed", err: error };
      reporting.log("warn", failureMessage(error, retryMs), fields);
    },
  });
  async function find({ context }: ServedFunction, lookUp: KeyLookUp, object: ObjectKey): Promise<readonly Key[]> {
    try {
      return await lookUp.find(context);
    } catch (error) {
      // A namespace that may not be read would be tried again without end. The sweep reports the missing right.
      if (!hasCode(error, 403)) throw error;
      const fields = { namespace: object.namespace, object: object.name, err: error };
      reporting.log("debug", `left to the next sweep: ${causeOf(error)}`, fields);
      return [];
    }
  }
}

/** A queue of its own for sweeps and for the schedules of functions, so that a flood of events cannot fill it. */
function queueOfSweeps(
  options: EnqueuerOptions,
  enqueue: (served: ServedFunction, key: Key) => boolean,
): KeyedQueue<"sweep" | ServedFunction> {
  const { served, reporting, namespaces } = options;
  const nameOf = (what: "sweep" | ServedFunction) => (what === "sweep" ? what : `due ${what.definition.name}`);
  return new KeyedQueue<"sweep" | ServedFunction>({
    ...sharedBy(options),
    gatherMs: 0,
    capacity: served.length + 1,
    nameOf,
    async run(what, { triggeredBy = [] }) {
      await inSpan(
        nameOf(what),
        () => ({ root: true, links: triggeredBy }),
        () =>
          what === "sweep"
            ? sweep({ served, reporting, namespaces, enqueue })
            : sweepDue({ served: [what], reporting, namespaces, enqueue }),
      );
      return done;
    },
    onFailure: (_, error, retryMs) =>
      reporting.log("warn", failureMessage(error, retryMs), { reason: "sweep-failed", err: error }),
  });
}

function sharedBy({ clock, gatherMs, concurrency, capacity }: EnqueuerOptions) {
  return { clock, gatherMs, concurrency, capacity, leastBackoffMs };
}
