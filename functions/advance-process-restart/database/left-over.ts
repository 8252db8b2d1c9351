/**
 * Finds what a restart has left in its database: a function that slept may restrict allocation after all is over, and one that
 * could not reach the database has left its marker there.
 */

import { lastRestart, read } from "../../shared/annotations/table.ts";
import type { Context } from "../../shared/contract/context.ts";
import type { GroupMemory } from "../../shared/contract/memory.ts";
import type { LeaseObject } from "../../shared/kubernetes/cluster.ts";
import type { Claim } from "../../shared/ledger/claim.ts";
import { askAllocation } from "./allocation.ts";
import { isConfirmed, type LeftOver, noteMarker, type SeenMarker } from "./decide-left-over.ts";
import type { Database } from "./exchange.ts";

/** For so long after a restart its group is read again every ten seconds, in milliseconds. Later each resync reads it. */
const endedLatelyMs = 120_000;
/** A group with many events asks its database no more often, in milliseconds. */
const askAfterMs = 4_000;

/** What the last read has found, and when that was, by the monotonic clock. */
interface Observed {
  readonly atMs: number;
  readonly marker: SeenMarker | undefined;
}

/** By the memory of a group. Losing it costs ten seconds. */
const seen = new WeakMap<GroupMemory, Observed>();

/** True for a ledger that says that a restart has ended of late. */
export function hasEndedLately({ cluster }: Context, { metadata }: LeaseObject): boolean {
  const endedMs = read(lastRestart, metadata);
  return endedMs !== undefined && cluster.serverTimeMs() - endedMs < endedLatelyMs;
}

/**
 * The marker of a restart that is not in the ledger of its group; undefined where there is none, or the database gives no answer.
 * Throws ClusterError.
 *
 * @param claims those of the ledger, which was read before
 */
export async function findLeftOver(
  database: Database | undefined,
  memory: GroupMemory,
  claims: readonly Claim[],
): Promise<LeftOver | undefined> {
  if (database === undefined) return undefined;
  const { cluster } = database.context;
  const before = seen.get(memory);
  // A confirmed marker is about to be removed, so that each reconcile asks the database whether it still stands.
  const isRecent = before !== undefined && cluster.monotonicMs() - before.atMs < askAfterMs;
  if (isRecent && !isConfirmed(before.marker, before.atMs)) return leftOverOf(database, before);
  const answered = await askAllocation(database);
  const atMs = cluster.monotonicMs();
  // Without an answer nothing was seen, so that the ten seconds begin anew.
  const marker = "unknown" in answered ? undefined : noteMarker(answered.value.marker, claims, before?.marker, atMs);
  const now = { atMs, marker };
  seen.set(memory, now);
  return leftOverOf(database, now);
}

function leftOverOf(database: Database, { marker, atMs }: Observed): LeftOver | undefined {
  const [member] = database.members;
  if (marker === undefined || member === undefined) return undefined;
  const { statefulSet } = member;
  return { id: marker.id, database, statefulSet, isConfirmed: isConfirmed(marker, atMs) };
}
