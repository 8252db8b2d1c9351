import assert from "node:assert/strict";
import { test } from "node:test";
import { Queue } from "./queue.ts";

const unknown = () => undefined;

test("of the heavy files one runs at a time, as long as there are light ones to run beside it", () => {
  const queue = new Queue(["h1", "h2", "h3"], ["l1", "h1", "l2"], unknown);
  assert.equal(queue.next([]), "h1");
  assert.equal(queue.next(["h1"]), "l1");
  assert.equal(queue.next(["h1"]), "l2");
  assert.equal(queue.next(["h1"]), "h2", "no light one is left");
  assert.equal(queue.next([]), "h3");
  assert.equal(queue.next([]), undefined);
});

test("what took longest the last time begins first, and what has not run yet keeps its order", () => {
  const times = new Map([
    ["b", 2],
    ["c", 3],
  ]);
  const queue = new Queue([], ["a", "b", "c", "d"], (file) => times.get(file));
  assert.deepEqual(
    [1, 2, 3, 4].map(() => queue.next([])),
    ["c", "b", "a", "d"],
  );
});
