import assert from "node:assert/strict";
import { test } from "node:test";
import { BoundedMap, BoundedSet } from "../../../../functions/shared/base/bounded-map.ts";
import { createLedgerCopies, createMemory } from "../../../../functions/shared/contract/memory.ts";
import { RateLimiter } from "../../../../triggers/workqueue/rate-limiter.ts";

test("a bounded map never holds more entries than its limit", () => {
  const map = new BoundedMap<number, number>(100);
  for (let key = 0; key < 100_000; key++) {
    map.set(key, key);
    assert.ok(map.size <= 100);
  }
  assert.deepEqual(
    [...map.keys()],
    Array.from({ length: 100 }, (_, index) => 99_900 + index),
  );
});

test("the oldest entry is dropped first, and an entry that is set again keeps its place, also during an iteration", () => {
  const map = new BoundedMap<string, string>(3);
  for (const key of "abcad") map.set(key, key);
  assert.deepEqual([...map.keys()], ["b", "c", "d"]);
  for (const key of map.keys()) map.set(key, `${key}!`);
  assert.deepEqual([...map.values()], ["b!", "c!", "d!"]);
  map.delete("b");
  map.set("e", "e");
  assert.deepEqual([...map.keys()], ["c", "d", "e"]);
  const set = new BoundedSet<string>(3);
  for (const item of "abcad") set.add(item);
  assert.deepEqual([...set], ["b", "c", "d"]);
});

test("a function's memory of a group has a limit for refusals, and one for Events", () => {
  const memory = createMemory()({ namespace: "app", group: "ingester" });
  for (let count = 0; count < 20_000; count++) {
    const uid = `uid-${count}`;
    memory.sentEvents.add(uid);
    memory.refusals.set(uid, { uid, pod: "db-0", message: "no", stampMs: count });
    memory.refusedOnce.set(uid, { uid, statefulSet: "db", ordinal: 0, by: "f", stampMs: count });
  }
  assert.deepEqual([memory.sentEvents.size, memory.refusals.size, memory.refusedOnce.size], [1_000, 1_000, 1_000]);
});

test("10,000 groups and 10,000 ledgers are remembered, and the one that was least recently used is dropped", () => {
  const group = (number: number) => ({ namespace: "app", group: `group-${number}` });
  const isKept = (remember: (key: ReturnType<typeof group>) => object) => {
    const [first, second] = [remember(group(0)), remember(group(1))];
    for (let number = 2; number < 10_000; number++) remember(group(number));
    assert.equal(remember(group(0)), first, "it is used again");
    remember(group(10_000));
    return [remember(group(0)) === first, remember(group(1)) === second];
  };
  assert.deepEqual(isKept(createMemory()), [true, false]);
  assert.deepEqual(isKept(createLedgerCopies()), [true, false]);
});

test("a rate limiter remembers at most a million keys", () => {
  const limiter = new RateLimiter({ burst: 1, everyMs: 60_000 });
  for (let key = 0; key < 1_000_100; key++) limiter.take(String(key), 0);
  assert.equal(limiter.size, 1_000_000);
});
