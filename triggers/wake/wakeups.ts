/** What the doors share: an object or a tick comes in, and the passes that it needs are queued. */

import { hasCode } from "../../functions/shared/kubernetes/cluster.ts";
import { asPartOf, inSpan, type SpanContext } from "../../functions/shared/kubernetes/spans.ts";
import { type GroupKey, groupPathOf } from "../../functions/shared/objects/statefulsets.ts";
import type { Views } from "../../functions/shared/views/view.ts";
import type { EventResult, Reporting } from "../telemetry/reporting.ts";
import { inPassSpan } from "../telemetry/tracing-spans.ts";
import type { KnownGroups } from "./known-groups.ts";
import type { Pace } from "./pace.ts";
import { causeOf, leastBackoffMs, runPass, type Served, sentenceOf } from "./passes.ts";
import { sweep } from "./ping.ts";
import { type Clock, KeyedQueue, type QueueOptions, type RunOutcome, type Wake } from "./queue.ts";

export interface WakeUps {
  /** Somebody says that a StatefulSet, or a pod of it, has changed. Anybody may say so. Returns what happens then. */
  statefulSet(namespace: string, name: string): Exclude<EventResult, "malformed">;
  /** Something of a group has changed. False when it was refused. */
  group(key: GroupKey): boolean;
  /** Starts a sweep, unless one is queued or runs. False when it was refused: the process is ending. */
  sweep(): boolean;
  /** Ends what is queued and runs; false when that took until `deadlineMs` of the monotonic clock. */
  drain(deadlineMs: number): Promise<boolean>;
  /** Keys that are queued, running or to be retried. */
  readonly keys: number;
}

export interface WakeUpOptions {
  readonly clock: Clock;
  readonly views: Views;
  readonly known: KnownGroups;
  /** True where watches tell of every change, and passes decide from memory. */
  readonly isWatching: boolean;
  readonly served: readonly Served[];
  readonly reporting: Reporting;
  /** Undefined: all of them. */
  readonly namespaces: readonly string[] | undefined;
  readonly gatherMs: number;
  readonly concurrency: number;
  readonly capacity: number;
}

interface Named {
  readonly namespace: string;
  readonly name: string;
}

interface Pass {
  readonly served: Served;
  readonly key: GroupKey;
}

const done: RunOutcome = { recheckMs: undefined, acting: undefined };

/**
 * Anybody can post an event, and each may cost a read. At most 100 look-ups of StatefulSets that no pass has seen happen at once,
 * then 20 a second, and each StatefulSet is looked up at most once in five seconds. At most 500 wait; the sweep finds the rest.
 */
const lookUpsTogether: Pace = { burst: 100, everyMs: 50 };
const lookUpsOfOne: Pace = { burst: 1, everyMs: 5_000 };
const mostLookUps = 500;
/** The pace where a pass lists its whole view, however many events name its group. A rollout needs seven passes a second. */
const passesThatList: Pace = { burst: 100, everyMs: 100 };

/** Three queues: look-ups of StatefulSets, sweeps, and passes, which both lead to. A pass's key is its function and group. */
export function createWakeUps(options: WakeUpOptions): WakeUps {
  const { known, isWatching } = options;
  let isDraining = false;
  const passes = queueOfPasses(options);
  const wake = (key: GroupKey, how: Wake): boolean => {
    const refused = options.served.filter((one) => !passes.offer({ served: one, key }, how));
    return refused.length === 0;
  };
  const lookUps = queueOfLookUps(options, (key, wakers) => wake(key, { sweep: false, wakers }));
  const sweeps = queueOfSweeps(options, (key) => wake(key, { sweep: true }));
  return {
    statefulSet(namespace, name) {
      const key = known.groupOf(namespace, name);
      if (key !== undefined) return wake(key, { sweep: false }) ? "queued" : "refused";
      if (isDraining) return "refused";
      // The watch tells of it, if there is such a thing.
      if (isWatching) return "ignored";
      return lookUps.offer({ namespace, name }) ? "queued" : "deferred";
    },
    group: (key) => wake(key, { sweep: false }),
    sweep: () => sweeps.has("sweep") || sweeps.offer("sweep"),
    async drain(deadlineMs) {
      isDraining = true;
      // In this order: look-ups and sweeps that still run wake their groups.
      const found = await Promise.all([lookUps.drain(deadlineMs), sweeps.drain(deadlineMs)]);
      const passed = await passes.drain(deadlineMs);
      return passed && found.every(Boolean);
    },
    get keys() {
      return lookUps.size + sweeps.size + passes.size;
    },
  };
}

function queueOfPasses(options: WakeUpOptions): KeyedQueue<Pass> {
  const { isWatching, reporting } = options;
  return new KeyedQueue<Pass>({
    ...sharedBy(options),
    ...(isWatching ? {} : { pace: passesThatList }),
    nameOf: ({ served: { definition }, key }) => `${definition.name} ${groupPathOf(key)}`,
    run: ({ served, key }, wake) =>
      inPassSpan(served.definition.name, key, wake, () => runPass(served, reporting, key, wake)),
    onFailure: ({ served: { definition }, key }, error, retryMs) =>
      reporting.problem(key, definition.name, sentenceOf(error, retryMs), error),
  });
}

function queueOfLookUps(
  options: WakeUpOptions,
  wake: (key: GroupKey, wakers: readonly SpanContext[]) => boolean,
): KeyedQueue<Named> {
  const { views, known, reporting } = options;
  return new KeyedQueue<Named>({
    ...sharedBy(options),
    gatherMs: 0,
    capacity: mostLookUps,
    pace: lookUpsOfOne,
    pacedTogether: lookUpsTogether,
    nameOf: ({ namespace, name }) => `${namespace}/${name}`,
    async run({ namespace, name }, { wakers = [] }) {
      const key = known.groupOf(namespace, name) ?? (await asPartOf(wakers, () => groupOf(namespace, name)));
      if (key !== undefined && !wake(key, wakers))
        throw new Error(`the queue is full: ${key.group} could not be woken`);
      return done;
    },
    onFailure({ namespace, name }, error, retryMs) {
      const fields = { namespace, object: name, reason: "statefulset-failed", err: error };
      reporting.log("warn", sentenceOf(error, retryMs), fields);
    },
  });
  async function groupOf(namespace: string, name: string): Promise<GroupKey | undefined> {
    try {
      return await views.groupOf(namespace, name);
    } catch (error) {
      // An event about a namespace that Sluice may not read would be tried for ever. The sweep says which right is missing.
      if (!hasCode(error, 403)) throw error;
      reporting.log("debug", `left to the next sweep: ${causeOf(error)}`, { namespace, object: name, err: error });
      return undefined;
    }
  }
}

/** A queue of its own, so that no flood of events takes its place. */
function queueOfSweeps(options: WakeUpOptions, wake: (key: GroupKey) => boolean): KeyedQueue<"sweep"> {
  const { views, served, reporting, namespaces } = options;
  return new KeyedQueue<"sweep">({
    ...sharedBy(options),
    gatherMs: 0,
    capacity: 1,
    nameOf: (name) => name,
    async run(_, { wakers = [] }) {
      await inSpan(
        "sweep",
        () => ({ root: true, links: wakers }),
        () => sweep({ views, served, reporting, namespaces, wake }),
      );
      return done;
    },
    onFailure: (_, error, retryMs) =>
      reporting.log("warn", sentenceOf(error, retryMs), { reason: "sweep-failed", err: error }),
  });
}

type Shared = Pick<QueueOptions<unknown>, "clock" | "gatherMs" | "concurrency" | "capacity" | "leastBackoffMs">;

function sharedBy({ clock, gatherMs, concurrency, capacity }: WakeUpOptions): Shared {
  return { clock, gatherMs, concurrency, capacity, leastBackoffMs };
}
