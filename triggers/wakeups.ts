/** What the doors share: an object or a tick comes in, the passes that it asks for come out. */

import type { GroupKey } from "../functions/shared/statefulsets.ts";
import type { Views } from "../functions/shared/views.ts";
import { leastBackoffMs, runPass, type Served, sentenceOf } from "./passes.ts";
import { sweep } from "./ping.ts";
import { type Clock, KeyedQueue, type RunOutcome } from "./queue.ts";
import type { Reporting } from "./reporting.ts";

export interface WakeUps {
  /** A StatefulSet, or a pod of it, has changed: which group it is in is found out later. False when it was refused. */
  statefulSet(namespace: string, name: string): boolean;
  /** Something of a group has changed. False when it was refused. */
  group(key: GroupKey): boolean;
  /** Starts a sweep, unless one is queued or runs. False when it was refused. */
  sweep(): boolean;
  /** Ends what is queued and runs; false when that took until `deadlineMs` of the monotonic clock. */
  drain(deadlineMs: number): Promise<boolean>;
  /** Keys that are queued, running or to be retried. */
  readonly keys: number;
}

export interface WakeUpOptions {
  readonly clock: Clock;
  readonly views: Views;
  readonly served: readonly Served[];
  readonly reporting: Reporting;
  /** Undefined: all of them. */
  readonly namespaces: readonly string[] | undefined;
  readonly gatherMs: number;
  readonly concurrency: number;
  readonly capacity: number;
}

type Arrival =
  | { readonly kind: "sweep" }
  | { readonly kind: "statefulset"; readonly namespace: string; readonly name: string };

interface Pass {
  readonly served: Served;
  readonly key: GroupKey;
}

const done: RunOutcome = { recheckMs: undefined, acting: undefined };

/**
 * Two queues, one behind the other: arrivals, which cost at most one read each and are not gathered, and passes, one key for
 * each function and group.
 */
export function createWakeUps(options: WakeUpOptions): WakeUps {
  const { clock, views, served, reporting, namespaces, gatherMs, concurrency, capacity } = options;
  const passes = new KeyedQueue<Pass>({
    clock,
    gatherMs,
    concurrency,
    capacity,
    leastBackoffMs,
    nameOf: ({ served: { definition }, key }) => `${definition.name} ${key.namespace}/${key.group}`,
    run: (pass, wake) => runPass(pass.served, reporting, pass.key, wake),
    onFailure: ({ served: { definition }, key }, error, retryMs) =>
      reporting.problem(key, definition.name, sentenceOf(error, retryMs), error),
  });
  const wake = (key: GroupKey, isSweep: boolean): boolean => {
    const refused = served.filter((one) => !passes.offer({ served: one, key }, { sweep: isSweep }));
    return refused.length === 0;
  };
  const resolve = async (namespace: string, name: string): Promise<void> => {
    const key = await views.groupOf(namespace, name);
    if (key !== undefined && !wake(key, false)) throw new Error(`the queue is full: ${key.group} could not be woken`);
  };
  const arrivals = new KeyedQueue<Arrival>({
    clock,
    gatherMs: 0,
    concurrency,
    capacity,
    leastBackoffMs,
    nameOf: (arrival) => (arrival.kind === "sweep" ? "sweep" : `statefulset ${arrival.namespace}/${arrival.name}`),
    async run(arrival) {
      if (arrival.kind === "statefulset") await resolve(arrival.namespace, arrival.name);
      else await sweep({ views, served, reporting, namespaces, wake: (key) => wake(key, true) });
      return done;
    },
    onFailure(arrival, error, retryMs) {
      const object = arrival.kind === "sweep" ? {} : { namespace: arrival.namespace, object: arrival.name };
      reporting.log("warn", sentenceOf(error, retryMs), { ...object, reason: `${arrival.kind}-failed`, err: error });
    },
  });
  return {
    statefulSet: (namespace, name) => arrivals.offer({ kind: "statefulset", namespace, name }),
    group: (key) => wake(key, false),
    sweep: () => arrivals.has({ kind: "sweep" }) || arrivals.offer({ kind: "sweep" }),
    async drain(deadlineMs) {
      // In this order: an arrival that is under way still wakes its group.
      const resolved = await arrivals.drain(deadlineMs);
      const passed = await passes.drain(deadlineMs);
      return resolved && passed;
    },
    get keys() {
      return arrivals.size + passes.size;
    },
  };
}
