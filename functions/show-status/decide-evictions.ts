/** The evictions that wait or were refused, by the Events about them. Pure. */

import type { WaitingEviction } from "../shared/contract/status.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import type { SeenEvent } from "./snapshot.ts";
import { formatTime } from "./times.ts";

/**
 * Clients retry a refused eviction more often than this, so that a later Event of it would be there. Clients write the times of
 * Events, which may lie in the future.
 */
export const recentEvictionMs = 120_000;

/** The newest report of each zone and guard, of the last two minutes. */
export function decideEvictions(events: readonly SeenEvent[], nowMs: number): WaitingEviction[] {
  const newest = new Map<string, WaitingEviction>();
  for (const { namespace, object: zone, reason, message, atMs } of events) {
    const refused = reason === eventReasons.evictionRefused;
    if (!(refused || reason === eventReasons.evictionWaits) || Math.abs(nowMs - atMs) > recentEvictionMs) continue;
    const { guard, sentence } = splitGuard(message);
    const key = `${namespace}/${zone}/${guard}`;
    if (!newest.has(key)) newest.set(key, { namespace, zone, guard, sentence, at: formatTime(atMs), refused });
  }
  return [...newest.values()];
}

/** The guard that the message of an eviction begins with, and the rest. */
export function splitGuard(message: string): { readonly guard: string; readonly sentence: string } {
  const [, guard = "", sentence = message] = /^([a-z]+(?:-[a-z0-9]+)*): (.*)$/s.exec(message) ?? [];
  return { guard, sentence };
}
