/** Runs the functions of cron: at a tick, for events and watches that concern them, and at the time that they ask for. */

import { inSpan } from "../../functions/shared/base/spans.ts";
import type { CertificateSettings } from "../../functions/shared/certificates/settings.ts";
import type { CronDefinition, CronOutcome } from "../../functions/shared/contract/definition.ts";
import type { Cluster, Resource } from "../../functions/shared/kubernetes/cluster.ts";
import type { Reporting } from "../telemetry/logs-and-metrics.ts";
import { KeyedQueue } from "./queue.ts";
import { limitTicks } from "./sweep.ts";
import { failureMessage, leastBackoffMs } from "./worker.ts";

export interface Cron {
  /** Enqueues every function. False when it was refused: the process is ending. */
  enqueue(): boolean;
  /**
   * An event names an object of this type that has changed: enqueues the functions that such a change concerns. Any client may
   * post events, so that many of them share one run. `refused`: the process is ending.
   */
  changed(resource: Resource): "queued" | "refused" | "ignored";
  /** Ends what runs; false when that took until `deadlineMs` of the monotonic clock. */
  stop(deadlineMs: number): Promise<boolean>;
}

export interface CronOptions {
  readonly cluster: Cluster;
  readonly definitions: readonly CronDefinition[];
  readonly certificate: CertificateSettings;
  readonly mode: "act" | "shadow";
  readonly reporting: Reporting;
  /** However quiet it is, every function runs at least this often, in milliseconds. */
  readonly atLeastEveryMs: number;
}

/** Changes come together; and a tool that reverts our writes causes at most one run in this time, in milliseconds. */
const gatherMs = 200;

interface ServedCron {
  readonly definition: CronDefinition;
  readonly run: () => Promise<CronOutcome>;
}

/** Starts the functions: the first run of each begins at once. */
export function startCron(options: CronOptions): Cron {
  const { cluster, mode, reporting, certificate, atLeastEveryMs } = options;
  const context = { cluster, reporter: reporting, mode };
  const served = options.definitions.map((definition) => ({ definition, run: definition.open(context, certificate) }));
  const reported = new Map<string, string>();
  const queue = new KeyedQueue<ServedCron>({
    clock: cluster,
    gatherMs,
    concurrency: 1,
    capacity: served.length,
    leastBackoffMs,
    nameOf: ({ definition }) => definition.name,
    async run({ definition: { name }, run }, { triggeredBy = [] }) {
      const { guard, message, requeueAfterMs } = await inSpan(
        `run ${name}`,
        () => ({ root: true, links: triggeredBy }),
        run,
      );
      reporting.metrics.verdicts.inc({ function: name, guard });
      if (reported.get(name) !== message) reporting.log("info", message, { function: name, guard });
      reported.set(name, message);
      return { requeueAfterMs: Math.min(requeueAfterMs, atLeastEveryMs), pendingActs: undefined };
    },
    onFailure({ definition: { name } }, error, retryMs) {
      reporting.log("warn", failureMessage(error, retryMs), { function: name, reason: "run-failed", err: error });
    },
  });
  const enqueueOne = (one: ServedCron) => queue.offer(one, { sweep: true });
  const enqueue = () => served.map(enqueueOne).every(Boolean);
  enqueue();
  const byEvents = served.map((one) => ({
    watches: one.definition.watches ?? [],
    enqueueSoon: limitTicks(cluster, () => enqueueOne(one)),
  }));
  let isEnding = false;
  return {
    enqueue,
    changed(resource) {
      const triggered = byEvents.filter(({ watches }) => watches.some((source) => source.resource === resource));
      if (triggered.length === 0) return "ignored";
      return !isEnding && triggered.map(({ enqueueSoon }) => enqueueSoon()).every(Boolean) ? "queued" : "refused";
    },
    stop(deadlineMs) {
      isEnding = true;
      return queue.drain(deadlineMs);
    },
  };
}
