import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { mapLimit } from "../../../../functions/shared/base/map-limit.ts";

test("items are begun in order up to the limit, and each that ends makes room for the next", async () => {
  const begun: number[] = [];
  const ends = new Map<number, () => void>();
  const all = mapLimit([0, 1, 2, 3, 4], 2, (item) => {
    begun.push(item);
    return new Promise<string>((resolve) => ends.set(item, () => resolve(`${item} ends`)));
  });
  await setImmediate();
  assert.deepEqual(begun, [0, 1]);
  ends.get(1)?.();
  await setImmediate();
  assert.deepEqual(begun, [0, 1, 2], "the slow first item delays no other");
  for (const item of [2, 3, 4, 0]) {
    ends.get(item)?.();
    await setImmediate();
  }
  assert.deepEqual(await all, ["0 ends", "1 ends", "2 ends", "3 ends", "4 ends"]);
});

test("a failure stops no other item, and the failure of the first item in order is thrown when all were tried", async () => {
  const tried: number[] = [];
  const all = mapLimit([0, 1, 2, 3, 4], 2, async (item) => {
    // The second item fails later than those after it.
    for (let turns = 0; turns < (item === 1 ? 10 : 1); turns++) await setImmediate();
    tried.push(item);
    if (item > 0 && item < 4) throw new Error(`${item} failed`);
  });
  await assert.rejects(all, /^Error: 1 failed$/);
  assert.deepEqual(tried.sort(), [0, 1, 2, 3, 4]);
});

test("an empty list is done at once", async () => {
  assert.deepEqual(await mapLimit([], 8, () => assert.fail("there is no item")), []);
});
