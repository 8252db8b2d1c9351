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
