/** How often many callers together read something, and how long each of them waits for that. */
import type { Clock } from "../clock/clock.ts";

export interface ReadLimits {
  /** Time for which one read serves all callers, in milliseconds: a flood of callers is no flood of reads. */
  readonly everyMs: number;
  /** No caller waits for a read for longer than this, in milliseconds. */
  readonly waitMs: number;
}

/**
 * Returns a function that calls `read` at most once in `everyMs`, and never twice at once. It resolves when the last read has
 * ended, and at the latest after `waitMs`. `read` must not reject.
 */
export function limitReads(
  clock: Clock,
  { everyMs, waitMs }: ReadLimits,
  read: () => Promise<unknown>,
): () => Promise<void> {
  let askedMs = Number.NEGATIVE_INFINITY;
  let reading: Promise<unknown> | undefined;
  return async () => {
    if (reading === undefined && clock.monotonicMs() - askedMs >= everyMs) {
      askedMs = clock.monotonicMs();
      reading = read().finally(() => {
        reading = undefined;
      });
    }
    if (reading === undefined) return;
    const over = new AbortController();
    await Promise.race([reading, clock.sleep(waitMs, over.signal)]);
    over.abort("read");
  };
}
