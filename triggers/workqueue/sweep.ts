/** A tick of the timer, or of a PingSource, starts a sweep, which finds the functions' work by LISTs. */

import { messageOf } from "../../functions/shared/base/error-message.ts";
import type { Clock } from "../../functions/shared/clock/clock.ts";
import type { FunctionDefinition } from "../../functions/shared/contract/definition.ts";
import { isGroup, type Key } from "../../functions/shared/contract/keys.ts";
import { hasCode, resources } from "../../functions/shared/kubernetes/cluster.ts";
import type { Reporting } from "../telemetry/logs-and-metrics.ts";
import { KeyedQueue } from "./queue.ts";
import { causeOf, type ServedFunction, standByFor } from "./worker.ts";

/** The type of a PingSource's CloudEvents. The user writes their data, which Sluice does not read. */
export const pingType = "dev.knative.sources.ping";

/** The end of the name of a PingSource that ticks for a function's own schedule, and not for its sweep. */
export const dueSuffix = "-due";

/** Any client can post a tick, and a sweep lists much. Ticks beyond this rate share one sweep. */
const ticksLimit = { burst: 3, everyMs: 5_000 };

/**
 * Returns the function for ticks. It sweeps at once, or when the limit permits the next sweep, which serves all ticks until
 * then.
 */
export function limitTicks(clock: Clock, sweepNow: () => void): () => boolean {
  const ticks = new KeyedQueue<"tick">({
    clock,
    gatherMs: 0,
    concurrency: 1,
    capacity: 1,
    rateLimit: ticksLimit,
    nameOf: (name) => name,
    async run() {
      sweepNow();
      return { requeueAfterMs: undefined, pendingActs: undefined };
    },
    onFailure() {},
  });
  return () => ticks.offer("tick");
}

type SweepReporting = Pick<Reporting, "log" | "keepOnly">;

export interface SweepOptions {
  readonly served: readonly ServedFunction[];
  readonly reporting: SweepReporting;
  /** Namespaces that are swept one by one, so that an unreadable one holds up no other; undefined: all of them at once. */
  readonly namespaces: readonly string[] | undefined;
  /** Enqueues a function for one of its keys; false where the queue refused it. */
  enqueue(served: ServedFunction, key: Key): boolean;
}

/** The keys of one namespace, or of all, for the functions that list them in the same way. */
interface Listing {
  readonly served: readonly ServedFunction[];
  readonly namespace: string | undefined;
  /** None where they could not be listed. */
  readonly keys: readonly Key[];
  /** Why they could not be listed; undefined where they were. */
  readonly error?: unknown;
}

/**
 * Lists the keys of each namespace, enqueues each function for all of its keys, and runs what its sweep does besides. What
 * one function's sweep could not do is left to the next one. Throws, having swept the other namespaces: ClusterError when one
 * cannot be listed, unless only a right is missing there; Error when the queue is full.
 */
export async function sweep({ served, reporting, namespaces, enqueue }: SweepOptions): Promise<void> {
  const listings = await listAll(served, namespaces, ({ listKeys }) => listKeys);
  const found = listings.filter(({ error }) => error === undefined);
  // The keys of a namespace that could not be listed have not vanished.
  const whole = namespaces?.filter((namespace) =>
    listings.every((one) => one.namespace !== namespace || one.error === undefined),
  );
  const keys = found.flatMap((one) => one.keys);
  if (whole !== undefined || found.length === listings.length) reporting.keepOnly(keys, whole);
  const refused = enqueueListed(found, enqueue);
  // The keys come first, because the additional work may take long in a namespace where a user has caused much of it.
  for (const { served: those, namespace, keys } of found) {
    for (const one of those) await sweepBesides(one, reporting, namespace, keys);
  }
  throwSevere(listings, reporting);
  const what = keys.every(isGroup) ? "groups" : "keys";
  if (refused.length > 0)
    throw new Error(`the queue is full: ${refused.length} of ${keys.length} ${what} could not be enqueued`);
  reporting.log("debug", `swept ${keys.length} ${what}`);
}

/**
 * Enqueues functions for the keys that their own schedules list: between two sweeps, and without what a sweep does besides.
 * Throws as a sweep does.
 */
export async function sweepDue({ served, reporting, namespaces, enqueue }: SweepOptions): Promise<void> {
  const listings = await listAll(served, namespaces, ({ schedule }) => schedule?.listDue);
  const refused = enqueueListed(listings, enqueue);
  throwSevere(listings, reporting);
  if (refused.length > 0) throw new Error(`the queue is full: ${refused.length} keys could not be enqueued`);
}

/** Enqueues the keys that were listed, and returns those that were refused for a function. */
function enqueueListed(listings: readonly Listing[], enqueue: SweepOptions["enqueue"]): readonly Key[] {
  return listings.flatMap(({ served, keys }) =>
    keys.filter((key) => served.filter((one) => !enqueue(one, key)).length > 0),
  );
}

/** A right is not given within seconds: a retry would only put off the next sweep of the other namespaces. */
function throwSevere(listings: readonly Listing[], reporting: SweepReporting): void {
  const failures = listings.flatMap(({ error }) => (error === undefined ? [] : [error]));
  const severe = failures.find((error) => !hasCode(error, 403) || failures.length === listings.length);
  if (severe !== undefined) throw severe;
  for (const error of failures) {
    const message = `a namespace waits for the next sweep: ${causeOf(error)}`;
    reporting.log("warn", message, { reason: "sweep-failed", err: error });
  }
}

/** Never rejects. Nothing is listed for a function without a lister. */
function listAll(
  served: readonly ServedFunction[],
  namespaces: readonly string[] | undefined,
  listerOf: (definition: FunctionDefinition) => FunctionDefinition["listKeys"] | undefined,
): Promise<readonly Listing[]> {
  const alike = Map.groupBy(served, ({ definition }) => listerOf(definition));
  const listings = [...alike].flatMap(([listKeys, those]) => {
    if (listKeys === undefined) return [];
    const [{ definition, context }] = those as [ServedFunction, ...ServedFunction[]];
    const { keyedBy } = definition;
    const isNamespaced = keyedBy === "groups" || resources[keyedBy].isNamespaced;
    const scopes = (isNamespaced ? namespaces : undefined) ?? [undefined];
    return scopes.map(async (namespace): Promise<Listing> => {
      try {
        return { served: those, namespace, keys: await listKeys(context, namespace) };
      } catch (error) {
        return { served: those, namespace, keys: [], error };
      }
    });
  });
  return Promise.all(listings);
}

/** Resolves, never rejects. */
async function sweepBesides(
  { definition, context }: ServedFunction,
  reporting: SweepReporting,
  namespace: string | undefined,
  keys: readonly Key[],
): Promise<void> {
  if (definition.sweep === undefined) return;
  try {
    const namespaces = await freeNamespaces({ definition, context }, namespace, keys);
    if (namespaces === undefined) return await definition.sweep(context, keys);
    if (namespaces.length === 0) return;
    const free = keys.filter((key) => namespaces.includes(key.namespace));
    await definition.sweep({ ...context, namespaces }, free);
  } catch (error) {
    const text = `a sweep is left to the next one: ${messageOf(error)}`;
    reporting.log("warn", text, { function: definition.name, reason: "sweep-failed", err: error });
  }
}

/**
 * The namespaces in which a function's sweep may act; undefined: all of them, by one LIST. While rollout-operator runs in one of
 * them, they are those of the keys in which it does not. Never rejects.
 */
async function freeNamespaces(
  served: ServedFunction,
  namespace: string | undefined,
  keys: readonly Key[],
): Promise<readonly string[] | undefined> {
  const isFree = async (one: string) => (await standByFor(served, one)) === undefined;
  if (namespace !== undefined) return (await isFree(namespace)) ? [namespace] : [];
  if (await isFree("")) return undefined;
  const all = [...new Set(keys.map((key) => key.namespace))].filter((one) => one !== "");
  const free = await Promise.all(all.map(isFree));
  return all.filter((_, index) => free[index]);
}
