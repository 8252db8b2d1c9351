/** The rate of a queue, from which waiting reviews learn when they can expect their turn. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { RateEstimate } from "../../../../../functions/evaluate-eviction/group-commit/rate-estimate.ts";

/** Allows `together` reviews at each of these times. Only at the first time does no review wait. */
function estimateOf(timesMs: readonly number[], together = 1): RateEstimate {
  const estimate = new RateEstimate();
  for (const [index, atMs] of timesMs.entries())
    for (let one = 0; one < together; one++) estimate.letGo(atMs + one, index > 0);
  return estimate;
}

test("the rate of a queue is unknown before a waiting review was allowed", () => {
  assert.equal(new RateEstimate().waitMs(0, 0), undefined);
  assert.equal(estimateOf([1_000]).waitMs(0, 1_500), undefined);
  assert.equal(estimateOf([1_000], 5).waitMs(0, 60_000), undefined);
  assert.equal(estimateOf([1_000, 2_000]).waitMs(0, 2_500), undefined, "nor when the first one has come back");
});

test("each review must wait for those before it, less the time since the last one went", () => {
  const estimate = estimateOf([0, 1_000, 2_000, 3_000]);
  assert.deepEqual(
    [0, 1, 9].map((before) => estimate.waitMs(before, 3_000)),
    [1_000, 2_000, 10_000],
  );
  assert.equal(estimate.waitMs(1, 3_400), 1_600);
});

test("reviews that are allowed together count as one moment", () => {
  const estimate = estimateOf([0, 1_000, 2_000, 3_000], 5);
  assert.equal(Math.round(estimate.waitMs(4, 3_000) ?? 0), 1_000);
  assert.equal(Math.round(estimate.waitMs(9, 3_000) ?? 0), 2_000);
});

test("a moment that is not over gives no rate, because more reviews may still go in it", () => {
  const estimate = new RateEstimate();
  for (const [atMs, hasWaited] of [
    [0, false],
    [30, true],
    [60, true],
    [1_100, true],
  ] as const)
    estimate.letGo(atMs, hasWaited);
  for (const atMs of [1_150, 1_200, 2_200]) estimate.letGo(atMs, true);
  assert.equal(estimate.waitMs(15, 2_210), undefined);
  for (const atMs of [2_250, 2_300]) estimate.letGo(atMs, true);
  assert.equal(Math.round(estimate.waitMs(15, 2_450) ?? 0), Math.round((16 * 2_200) / 6 - 250));
});

test("an overdue review makes the rate slower, and the next one is not expected in the past", () => {
  const estimate = estimateOf([0, 1_000, 2_000]);
  assert.equal(estimate.waitMs(0, 6_000), 0);
  assert.equal(estimate.waitMs(3, 6_000), 8_000);
  assert.equal(estimate.waitMs(0, 2_250), 750);
});

test("moments of half a minute ago do not count, and of the later ones only the last", () => {
  assert.equal(estimateOf([0, 500, 1_000]).waitMs(3, 31_001), undefined);
  const estimate = estimateOf([0, 10_000, 11_000, 12_000, 13_000, 14_000, 15_000]);
  assert.equal(estimate.waitMs(0, 15_000), 1_000);
});

test("a review that finds an empty queue restarts the estimate, because few reviews do not mean a slow rate", () => {
  const estimate = estimateOf([0, 1_000, 2_000]);
  estimate.letGo(20_000, false);
  assert.equal(estimate.waitMs(3, 20_500), undefined);
});
