/** How often many callers together read something, and how long each of them waits for that. */
import type { Clock } from "../clock/clock.ts";

export interface ReadLimits {
  /** Time for which one read serves all callers, in milliseconds: a flood of callers is no flood of reads. */
  readonly everyMs: number;
  /** No caller waits for a read for longer than this, in milliseconds. */
  readonly waitMs: number;
  /**
   * A caller that comes too early by at most this waits for the next read, in milliseconds; absent: 0. A timer is not exact: a
   * page that is fetched as often as this would otherwise show every second time what it has shown before.
   */
  readonly earlyMs?: number;
}

/**
 * Returns a function that calls `read` at most once in `everyMs`, and never twice at once. It resolves when the last read has
 * ended, and at the latest after `waitMs`. `read` must not reject.
 */
export function limitReads(
  clock: Clock,
  { everyMs, waitMs, earlyMs = 0 }: ReadLimits,
  read: () => Promise<unknown>,
): () => Promise<void> {
  let askedMs = Number.NEGATIVE_INFINITY;
  let reading: Promise<unknown> | undefined;
  const readAfter = async (ms: number): Promise<void> => {
    if (ms > 0) await clock.sleep(ms);
    askedMs = clock.monotonicMs();
    await read();
  };
  return async () => {
    const restMs = everyMs - (clock.monotonicMs() - askedMs);
    if (reading === undefined && restMs <= earlyMs) {
      reading = readAfter(restMs).finally(() => {
        reading = undefined;
      });
    }
    if (reading === undefined) return;
    const over = new AbortController();
    await Promise.race([reading, clock.sleep(waitMs, over.signal)]);
    over.abort("read");
  };
}
