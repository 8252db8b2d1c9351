/** Ends a call when its time is over, or its caller gives it up. */
import type { Clock } from "../clock/clock.ts";

export interface TimeoutOptions {
  readonly clock: Pick<Clock, "sleep">;
  readonly timeoutMs: number;
  /** The caller's; absent: only time ends the work. */
  readonly signal: AbortSignal | undefined;
  /** The error to throw for the error of the work, and for the reason why the work was ended, if it was. */
  readonly errorOf: (error: unknown, why?: "aborted" | "time") => unknown;
}

/** Settles as `work` does, whose signal is aborted when the time is over or the caller gives up. */
export async function withTimeout<T>(
  { clock, timeoutMs, signal, errorOf }: TimeoutOptions,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  if (signal?.aborted) throw errorOf(undefined, "aborted");
  // Not AbortSignal.any: with a signal that lives as long as the process, that is much slower than one listener.
  const ending = new AbortController();
  const over = new AbortController();
  let timedOut = false;
  void clock.sleep(timeoutMs, over.signal).then(() => {
    timedOut = !over.signal.aborted;
    if (timedOut) ending.abort();
  });
  const onAbort = () => ending.abort();
  signal?.addEventListener("abort", onAbort, { once: true });
  try {
    return await work(ending.signal);
  } catch (error) {
    if (signal?.aborted) throw errorOf(error, "aborted");
    throw errorOf(error, timedOut ? "time" : undefined);
  } finally {
    over.abort();
    signal?.removeEventListener("abort", onAbort);
  }
}
