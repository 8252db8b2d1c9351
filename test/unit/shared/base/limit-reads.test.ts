/** How often many callers together read something. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { limitReads } from "../../../../functions/shared/base/limit-reads.ts";

const limits = { everyMs: 2_000, waitMs: 500, earlyMs: 100 };

/** Calls at these times, in milliseconds, and resolves to those at which something was read. A wait takes no time of its own. */
async function readsAt(...calls: readonly number[]): Promise<readonly number[]> {
  let nowMs = 0;
  const reads: number[] = [];
  const sleep = async (ms: number, signal?: AbortSignal) => {
    // That of a caller that waits for the read.
    if (signal !== undefined) return new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
    nowMs += ms;
    return undefined;
  };
  const refresh = limitReads({ monotonicMs: () => nowMs, sleep }, limits, async () => reads.push(nowMs));
  for (const ms of calls) {
    nowMs = ms;
    await refresh();
  }
  return reads;
}

test("many callers read once in the time of the limits", async () => {
  assert.deepEqual(await readsAt(0, 1, 999, 1_899, 2_001, 3_000, 4_500), [0, 2_001, 4_500]);
});

test("a caller that comes every 2 s reads each time, although its timer is up to 100 ms early, and not more often than every 2 s", async () => {
  assert.deepEqual(await readsAt(0, 1_900, 3_950, 6_010, 8_009), [0, 2_000, 4_000, 6_010, 8_010]);
});

test("callers that come while a caller waits for the next read do not read as well", async () => {
  const reads: number[] = [];
  let nowMs = 0;
  const waits: (() => void)[] = [];
  const sleep = (_: number, signal?: AbortSignal) =>
    new Promise<void>((resolve) => {
      if (signal === undefined) waits.push(resolve);
      else signal.addEventListener("abort", () => resolve());
    });
  const refresh = limitReads({ monotonicMs: () => nowMs, sleep }, limits, async () => reads.push(nowMs));
  await refresh();
  nowMs = 1_950;
  const early = [refresh(), refresh()];
  nowMs = 2_000;
  early.push(refresh());
  assert.deepEqual([waits.length, reads], [1, [0]]);
  waits[0]?.();
  await Promise.all(early);
  assert.deepEqual(reads, [0, 2_000]);
});
