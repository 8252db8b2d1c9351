/** Decides whether a marker in a database belongs to no restart. Pure. */

import { type Claim, isNamedBy } from "../../shared/ledger/claim.ts";
import type { StatefulSet } from "../../shared/workloads/statefulsets.ts";
import type { Marker } from "./decide-allocation.ts";
import type { Database } from "./exchange.ts";

/** A marker counts as left over only if it is seen again after so long, in milliseconds: its restart may just have begun. */
export const confirmAfterMs = 10_000;

/** The marker of a restart that is in no ledger. */
export interface LeftOver {
  readonly id: string;
  readonly database: Database;
  /** A StatefulSet that names the database, for reports. */
  readonly statefulSet: StatefulSet;
  /** True once it was seen twice, long enough apart. */
  readonly isConfirmed: boolean;
}

/** When a process has first seen a marker, by the monotonic clock. */
export interface SeenMarker {
  readonly id: string;
  readonly sinceMs: number;
}

/** What is known of the marker after this read of it; undefined where none stands, or its restart is under way. */
export function noteMarker(
  marker: Marker | undefined,
  claims: readonly Claim[],
  before: SeenMarker | undefined,
  nowMs: number,
): SeenMarker | undefined {
  if (marker === undefined || claims.some(({ id }) => isNamedBy({ id }, marker.id))) return undefined;
  return before?.id === marker.id ? before : { id: marker.id, sinceMs: nowMs };
}

/** `seenMs`: when it was last seen. */
export function isConfirmed(marker: SeenMarker | undefined, seenMs: number): boolean {
  return marker !== undefined && seenMs - marker.sinceMs >= confirmAfterMs;
}
