/** The cron door: a tick starts a sweep, which finds the functions' work by listing. */

import { hasCode } from "../../functions/shared/kubernetes/cluster.ts";
import { messageOf } from "../../functions/shared/kubernetes/errors.ts";
import type { GroupKey } from "../../functions/shared/objects/statefulsets.ts";
import type { Views } from "../../functions/shared/views/view.ts";
import type { Reporting } from "../telemetry/reporting.ts";
import { causeOf, type Served } from "./passes.ts";
import { type Clock, KeyedQueue } from "./queue.ts";

/** The type of a PingSource's CloudEvents. The user writes their data, and nothing reads it. */
export const pingType = "dev.knative.sources.ping";

/** Anybody can post a tick, and a sweep lists much. Ticks beyond this pace share one sweep. */
const ticksPace = { burst: 3, everyMs: 5_000 };

/** What a tick calls: it sweeps at once, or when the ticks before it leave room for it. Never false: one more is waited for. */
export function paceTicks(clock: Clock, sweepNow: () => void): () => boolean {
  const ticks = new KeyedQueue<"tick">({
    clock,
    gatherMs: 0,
    concurrency: 1,
    capacity: 1,
    pace: ticksPace,
    nameOf: (name) => name,
    async run() {
      sweepNow();
      return { recheckMs: undefined, acting: undefined };
    },
    onFailure() {},
  });
  return () => ticks.offer("tick");
}

export interface SweepOptions {
  readonly views: Views;
  readonly served: readonly Served[];
  readonly reporting: Reporting;
  /** Swept one by one, so that one that may not be read holds up no other. Undefined: all of them at once. */
  readonly namespaces: readonly string[] | undefined;
  /** Wakes every function for a group; false where it could not be queued. */
  wake(key: GroupKey): boolean;
}

/**
 * Lists the groups of each namespace, lets each function do what its sweep does besides, and wakes every group. What one
 * function's sweep could not do is left to the next one. Throws, having swept the other namespaces: ClusterError when one
 * cannot be listed, unless only a right is missing there; Error when the queue is full.
 */
export async function sweep({ views, served, reporting, namespaces, wake }: SweepOptions): Promise<void> {
  const scopes: readonly (string | undefined)[] = namespaces ?? [undefined];
  const listings = await Promise.allSettled(scopes.map((namespace) => views.groups(namespace)));
  const failures: unknown[] = listings.flatMap((listing) => (listing.status === "rejected" ? [listing.reason] : []));
  const groups = listings.flatMap((listing) => (listing.status === "fulfilled" ? listing.value : []));
  // The groups of a namespace that could not be listed have not vanished.
  const listed = namespaces?.filter((_, index) => listings[index]?.status === "fulfilled");
  if (listed !== undefined || failures.length === 0) reporting.keepOnly(groups, listed);
  for (const [index, listing] of listings.entries()) {
    if (listing.status === "rejected") continue;
    const namespace = scopes[index];
    const scope = namespace === undefined ? undefined : [namespace];
    for (const one of served) await sweepBesides(one, reporting, scope, listing.value);
  }
  const refused = groups.filter((key) => !wake(key)).length;
  // A right is not given within seconds: a retry would only put off the next sweep of the other namespaces.
  const severe = failures.find((error) => !hasCode(error, 403) || failures.length === scopes.length);
  if (severe !== undefined) throw severe;
  for (const error of failures) {
    const sentence = `a namespace waits for the next sweep: ${causeOf(error)}`;
    reporting.log("warn", sentence, { reason: "sweep-failed", err: error });
  }
  if (refused > 0) throw new Error(`the queue is full: ${refused} of ${groups.length} groups could not be woken`);
  reporting.log("debug", `swept ${groups.length} groups`);
}

/** Resolves, never rejects. */
async function sweepBesides(
  { definition, context }: Served,
  reporting: Reporting,
  namespaces: readonly string[] | undefined,
  groups: readonly GroupKey[],
): Promise<void> {
  try {
    await definition.sweep?.({ ...context, namespaces }, groups);
  } catch (error) {
    const message = messageOf(error);
    const sentence = `a sweep is left to the next one: ${message}`;
    reporting.log("warn", sentence, { function: definition.name, reason: "sweep-failed", err: error });
  }
}
