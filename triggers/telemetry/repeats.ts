/** Limits a log line that repeats to one a minute, so that a reader finds both it and the other lines. */
import { BoundedMap } from "../../functions/shared/base/bounded-map.ts";

const reportAgainAfterMs = 60_000;

/**
 * Returns whether a text is worth a line: true for the first time in a minute. At most `remembered` texts are kept, and a new
 * one replaces the one that was logged first. `nowMs`: milliseconds of a clock that never jumps.
 */
export function createRepeats(remembered: number, nowMs: () => number): (what: string) => boolean {
  const reportedMs = new BoundedMap<string, number>(remembered);
  return (what) => {
    const atMs = nowMs();
    if (atMs - (reportedMs.get(what) ?? Number.NEGATIVE_INFINITY) < reportAgainAfterMs) return false;
    reportedMs.set(what, atMs);
    return true;
  };
}
