/**
 * Two clocks show how long a pod has been gone: the API server's, and this process's own. An age is the smaller of the two. If
 * they contradict each other, no time is over by either. Pure.
 */

import { formatTime } from "../clock/durations.ts";
import { wallClockSkewMs } from "../clock/skew.ts";
import { describeSpan } from "./time-left.ts";

/** One moment by both clocks, each in milliseconds since the epoch. */
export interface Clocks {
  /** The API server's clock. Every stamp is written by it. */
  readonly nowMs: number;
  /** The wall clock of this process. */
  readonly wallMs: number;
}

/** The moment up to which an age counts. */
export function earlierMs({ nowMs, wallMs }: Clocks): number {
  return Math.min(nowMs, wallMs);
}

/** The moment after which a stamp counts as being in the future. */
export function laterMs({ nowMs, wallMs }: Clocks): number {
  return Math.max(nowMs, wallMs);
}

/** Why no time is over by these clocks; undefined if they agree. */
export function whyClocksUnsure({ nowMs, wallMs }: Clocks) {
  const apartMs = Math.abs(nowMs - wallMs);
  if (apartMs <= wallClockSkewMs) return undefined;
  const [server, own] = [formatTime(nowMs), formatTime(wallMs)];
  const message = `it is ${server} by the API server's clock and ${own} by the clock of this process, ${describeSpan(apartMs)} apart: correct the one that is wrong`;
  return { guard: "clock-unsure", message } as const;
}
