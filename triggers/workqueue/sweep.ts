/** A tick of the timer, or of a PingSource, starts a sweep, which finds the functions' work by LISTs. */

import { messageOf } from "../../functions/shared/base/error-message.ts";
import type { Clock } from "../../functions/shared/clock/clock.ts";
import type { FunctionDefinition } from "../../functions/shared/contract/definition.ts";
import { isGroup, type Key } from "../../functions/shared/contract/keys.ts";
import { hasCode, resources } from "../../functions/shared/kubernetes/cluster.ts";
import type { Reporting } from "../telemetry/logs-and-metrics.ts";
import { KeyedQueue } from "./queue.ts";
import { causeOf, type ServedFunction } from "./worker.ts";

/** The type of a PingSource's CloudEvents. The user writes their data, and nothing reads it. */
export const pingType = "dev.knative.sources.ping";

/** At the end of the name of a PingSource that ticks for a function's own schedule, and not for its sweep. */
export const dueSuffix = "-due";

/** Any client can post a tick, and a sweep lists much. Ticks beyond this pace share one sweep. */
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
      return { requeueAfterMs: undefined, acting: undefined };
    },
    onFailure() {},
  });
  return () => ticks.offer("tick");
}

export interface SweepOptions {
  readonly served: readonly ServedFunction[];
  readonly reporting: Reporting;
  /** Namespaces that are swept one by one, so that an unreadable one holds up no other; undefined: all of them at once. */
  readonly namespaces: readonly string[] | undefined;
  /** Wakes a function for one of its keys; false where it could not be queued. */
  wake(served: ServedFunction, key: Key): boolean;
}

/** The keys of one namespace, or of all where there is none, for the functions that list them in the same way. */
interface Listing {
  readonly served: readonly ServedFunction[];
  readonly namespace: string | undefined;
  readonly listed: { readonly keys: readonly Key[] } | { readonly error: unknown };
}

/**
 * Lists the keys of each namespace, wakes each function for all of its keys, and lets each do what its sweep does besides. What
 * one function's sweep could not do is left to the next one. Throws, having swept the other namespaces: ClusterError when one
 * cannot be listed, unless only a right is missing there; Error when the queue is full.
 */
export async function sweep({ served, reporting, namespaces, wake }: SweepOptions): Promise<void> {
  const listings = await Promise.all(listAll(served, namespaces, ({ listKeys }) => listKeys));
  const failures = listings.flatMap(({ listed }) => ("error" in listed ? [listed.error] : []));
  const found = listings.flatMap((one) => ("keys" in one.listed ? [{ ...one, keys: one.listed.keys }] : []));
  // The keys of a namespace that could not be listed have not vanished.
  const isWhole = (namespace: string | undefined) =>
    listings.every((one) => one.namespace !== namespace || "keys" in one.listed);
  const whole = namespaces?.filter(isWhole);
  const keys = found.flatMap((one) => one.keys);
  if (whole !== undefined || failures.length === 0) reporting.keepOnly(keys, whole);
  const refused = found.flatMap(({ served: those, keys }) =>
    keys.filter((key) => those.filter((one) => !wake(one, key)).length > 0),
  );
  // The keys come first: what is done besides may take long in a namespace where a user has made much work for it.
  for (const { served: those, namespace, keys } of found) {
    for (const one of those) await sweepBesides(one, reporting, namespace, keys);
  }
  throwSevere(failures, listings.length, reporting);
  const what = keys.every(isGroup) ? "groups" : "keys";
  if (refused.length > 0)
    throw new Error(`the queue is full: ${refused.length} of ${keys.length} ${what} could not be woken`);
  reporting.log("debug", `swept ${keys.length} ${what}`);
}

/**
 * Wakes functions for the keys that their own schedules list: between two sweeps, and without what a sweep does besides. Throws
 * as a sweep does.
 */
export async function sweepDue({ served, reporting, namespaces, wake }: SweepOptions): Promise<void> {
  const listings = await Promise.all(listAll(served, namespaces, ({ schedule }) => schedule?.listDue));
  const failures = listings.flatMap(({ listed }) => ("error" in listed ? [listed.error] : []));
  const refused = listings.flatMap(({ served: those, listed }) =>
    "keys" in listed ? listed.keys.filter((key) => those.filter((one) => !wake(one, key)).length > 0) : [],
  );
  throwSevere(failures, listings.length, reporting);
  if (refused.length > 0) throw new Error(`the queue is full: ${refused.length} keys could not be woken`);
}

/** A right is not given within seconds: a retry would only put off the next sweep of the other namespaces. */
function throwSevere(failures: readonly unknown[], of: number, reporting: Reporting): void {
  const severe = failures.find((error) => !hasCode(error, 403) || failures.length === of);
  if (severe !== undefined) throw severe;
  for (const error of failures) {
    const sentence = `a namespace waits for the next sweep: ${causeOf(error)}`;
    reporting.log("warn", sentence, { reason: "sweep-failed", err: error });
  }
}

type Lister = FunctionDefinition["listKeys"];

/** Each resolves, none rejects. Nothing is listed for a function without a lister. */
function listAll(
  served: readonly ServedFunction[],
  namespaces: readonly string[] | undefined,
  listerOf: (definition: FunctionDefinition) => Lister | undefined,
): Promise<Listing>[] {
  const alike = Map.groupBy(served, ({ definition }) => listerOf(definition));
  return [...alike].flatMap(([listKeys, those]) => {
    if (listKeys === undefined) return [];
    const [{ definition, context }] = those as [ServedFunction, ...ServedFunction[]];
    const { keyedBy } = definition;
    const isNamespaced = keyedBy === "groups" || resources[keyedBy].isNamespaced;
    const scopes = (isNamespaced ? namespaces : undefined) ?? [undefined];
    return scopes.map(async (namespace): Promise<Listing> => {
      try {
        return { served: those, namespace, listed: { keys: await listKeys(context, namespace) } };
      } catch (error) {
        return { served: those, namespace, listed: { error } };
      }
    });
  });
}

/** Resolves, never rejects. */
async function sweepBesides(
  { definition, context }: ServedFunction,
  reporting: Reporting,
  namespace: string | undefined,
  keys: readonly Key[],
): Promise<void> {
  try {
    await definition.sweep?.(namespace === undefined ? context : { ...context, namespaces: [namespace] }, keys);
  } catch (error) {
    const message = messageOf(error);
    const sentence = `a sweep is left to the next one: ${message}`;
    reporting.log("warn", sentence, { function: definition.name, reason: "sweep-failed", err: error });
  }
}
