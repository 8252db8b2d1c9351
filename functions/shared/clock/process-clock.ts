/** The clock of this process. Deadlines of reviews, acts and requests share it, because they are compared. */
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
 * For waits of some seconds within this process. Never compare its times with those of the clock above, because time that the
 * machine slept through does not count here.
 */
export const waitingTime = { monotonicMs: () => performance.now(), sleep };
