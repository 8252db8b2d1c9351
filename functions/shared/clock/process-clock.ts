/** The clock of this process: one for all deadlines, of reviews, acts and requests alike, because they are compared. */
import { setTimeout as delay } from "node:timers/promises";
import { SteadyClock } from "./steady-clock.ts";

export const processClock = new SteadyClock({
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
});

/** Resolves after `ms`, or at once when the signal is aborted; never rejects. */
export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  // Nothing but the signal makes it reject.
  await delay(ms, undefined, signal === undefined ? {} : { signal }).catch(() => undefined);
}

/**
 * For waits of some seconds that begin and end in this process, and for nothing that is compared with a moment of the clock
 * above: time that the machine slept through does not count.
 */
export const waitingTime = { monotonicMs: () => performance.now(), sleep };
