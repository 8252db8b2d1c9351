import assert from "node:assert/strict";
import { test } from "node:test";
import { BoundedMap, BoundedSet } from "../../../../functions/shared/base/bounded-map.ts";
import { createLedgerCopies, createMemory } from "../../../../functions/shared/contract/memory.ts";
import { RateLimiter } from "../../../../triggers/workqueue/rate-limiter.ts";

test("it never holds more than it was made for, whatever is put into it", () => {
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

test("what came first is forgotten first, and what is set again keeps its place: it may be set while all are gone through", () => {
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

test("what a function remembers of a group is bounded, one by one: refusals, Events", () => {
  const memory = createMemory()({ namespace: "app", group: "ingester" });
  for (let count = 0; count < 20_000; count++) {
    const uid = `uid-${count}`;
    memory.sentEvents.add(uid);
    memory.refusals.set(uid, { uid, pod: "db-0", message: "no", stampMs: count });
    memory.refusedOnce.set(uid, { uid, statefulSet: "db", ordinal: 0, by: "f", stampMs: count });
  }
  assert.deepEqual([memory.sentEvents.size, memory.refusals.size, memory.refusedOnce.size], [1_000, 1_000, 1_000]);
});

test("10,000 groups are remembered, and 10,000 ledgers: the one that was least recently asked for is forgotten", () => {
  const group = (number: number) => ({ namespace: "app", group: `group-${number}` });
  const isKept = (remember: (key: ReturnType<typeof group>) => object) => {
    const [first, second] = [remember(group(0)), remember(group(1))];
    for (let number = 2; number < 10_000; number++) remember(group(number));
    assert.equal(remember(group(0)), first, "it is asked for again");
    remember(group(10_000));
    return [remember(group(0)) === first, remember(group(1)) === second];
  };
  assert.deepEqual(isKept(createMemory()), [true, false]);
  assert.deepEqual(isKept(createLedgerCopies()), [true, false]);
});

test("keys that are limited all at once are no more than a million", () => {
  const limiter = new RateLimiter({ burst: 1, everyMs: 60_000 });
  for (let key = 0; key < 1_000_100; key++) limiter.take(String(key), 0);
  assert.equal(limiter.size, 1_000_000);
});
