/**
 * The times of a group's suspended volumes in its ledger: since when they have been observed without a gap, and when the last
 * removal ended. Both survive the volumes and the processes. Pure.
 */

import { wallClockSkewMs } from "../clock/skew.ts";
import type { LedgerSurroundings } from "../groups/refuse-claim.ts";
import type { Claim } from "../ledger/claim.ts";
import type { LedgerTimes } from "../ledger/reservation.ts";
import { isBegun, lastDisruption, type Member } from "../volumes/members.ts";

export type SuspensionTimes = Pick<LedgerTimes, "looks" | "lastRemovalMs">;

/** The beginning of the id of each claim under which suspended pods go. */
const suspensionPrefix = "suspension ";

/** The id of a claim under which suspended pods of a zone go. `nowMs`: since the epoch. */
export function suspensionId(zone: string, nowMs: number): string {
  return `${suspensionPrefix}${zone} ${nowMs}`;
}

/** True for a claim by which suspended pods go, or their volumes. */
function isRemoval({ id, kind }: Claim): boolean {
  return kind === "volume" || id.startsWith(suspensionPrefix);
}

/** Two sweeps: a volume that no process observed for longer may have been in use. Its time counts from the next observation. */
export const longestGapMs = 600_000;
/** Observations are noted this often, and besides with whatever else is written. Less than a sweep, which is 5 minutes. */
const noteEveryMs = 240_000;

/** When the observations without a gap began. It is now where none is known, or the last one is of the future. */
export function seenSinceMs({ looks }: SuspensionTimes, nowMs: number): number {
  if (looks === undefined || looks.untilMs > nowMs + wallClockSkewMs || nowMs - looks.untilMs > longestGapMs)
    return nowMs;
  return Math.min(looks.sinceMs, nowMs);
}

/** The observation times that a reconcile writes; undefined if no member is suspended or about to be. */
export function notesOf(times: SuspensionTimes, members: readonly Member[], nowMs: number) {
  if (!members.some(isBegun)) return undefined;
  const { looks, lastRemovalMs = 0 } = times;
  const sinceMs = seenSinceMs(times, nowMs);
  const isOneRow = looks !== undefined && sinceMs === looks.sinceMs;
  const isMended = lastRemovalMs > nowMs + wallClockSkewMs;
  return {
    change: {
      looks: { sinceMs, untilMs: isOneRow ? Math.max(looks.untilMs, nowMs) : nowMs },
      ...(isMended ? { lastRemovalMs: nowMs } : {}),
    },
    isDue: isMended || !isOneRow || nowMs - looks.untilMs >= noteEveryMs,
  };
}

/** The time that the write at the end of a removal stores. A clock that is a little behind takes nothing back. */
export function removalEnded(
  { lastRemovalMs = 0 }: SuspensionTimes,
  nowMs: number,
): Pick<LedgerTimes, "lastRemovalMs"> {
  return { lastRemovalMs: lastRemovalMs > nowMs + wallClockSkewMs ? nowMs : Math.max(lastRemovalMs, nowMs) };
}

/**
 * When a pod or a volume of the group last went, in milliseconds since the epoch; a time in the future counts as now. The ledger
 * has this time. Earlier versions did not write it, so a later time on pods and volume claims that still exist counts instead. In
 * zones of `due` a removal whose claim stands counts as now, because the time is written when the claim ends. A claim in another
 * zone blocks `due` by itself.
 */
export function lastRemovalOf(
  { lastRemovalMs }: SuspensionTimes,
  {
    members,
    zones,
    nowMs,
  }: Pick<LedgerSurroundings, "zones"> & { readonly members: readonly Member[]; readonly nowMs: number },
  due: readonly Member[],
): number | undefined {
  const own = zones.filter(({ workload }) => due.some(({ set }) => set.name === workload.name));
  if (own.some(({ claims }) => claims.some(isRemoval))) return nowMs;
  const known = [lastRemovalMs, lastDisruption(members, nowMs)].filter((ms) => ms !== undefined);
  return known.length === 0 ? undefined : Math.min(Math.max(...known), nowMs);
}
