import assert from "node:assert/strict";
import { test } from "node:test";
import { Queue, type Waiting } from "./queue.ts";

const waiting = (file: string, share = 1, more: Partial<Waiting> = {}): Waiting => {
  return { file, share, tookMs: undefined, ...more };
};

test("files run side by side as long as the sum of their shares fits the processors", () => {
  const queue = new Queue([waiting("a", 0.9), waiting("b", 0.9), waiting("c", 0.2), waiting("d", 0.3)], 2);
  assert.equal(queue.next([]), "a");
  assert.equal(queue.next(["a"]), "b");
  assert.equal(queue.next(["a", "b"]), "c");
  assert.equal(queue.next(["a", "b", "c"]), undefined, "0.3 more is more than 2");
  assert.equal(queue.next(["b", "c"]), "d");
  assert.equal(queue.next([]), undefined);
});

test("a file that takes more than all processors runs alone", () => {
  const queue = new Queue([waiting("a", 3), waiting("b", 0.1)], 2);
  assert.equal(queue.next([]), "a");
  assert.equal(queue.next(["a"]), undefined);
  assert.equal(queue.next([]), "b");
});

test("shares that add up to all processors, but for a rounding error, run side by side", () => {
  const files = Array.from({ length: 20 }, (_, index) => waiting(`${index}`, 0.1));
  const queue = new Queue(files, 2);
  const running: string[] = [];
  for (let file = queue.next(running); file !== undefined; file = queue.next(running)) running.push(file);
  assert.equal(running.length, 20);
});

test("only one file of a group runs at a time", () => {
  const group = "knative";
  const queue = new Queue([waiting("a", 0.1, { group }), waiting("b", 0.1, { group }), waiting("c", 0.1)], 2);
  assert.equal(queue.next([]), "a");
  assert.equal(queue.next(["a"]), "c");
  assert.equal(queue.next(["a", "c"]), undefined);
  assert.equal(queue.next(["c"]), "b");
});

test("files that took longest the last time begin first, and files that have not run yet keep their order", () => {
  const files = [waiting("a"), waiting("b", 1, { tookMs: 2 }), waiting("c", 1, { tookMs: 3 }), waiting("d")];
  const queue = new Queue(files, 2);
  assert.deepEqual(
    [1, 2, 3, 4].map(() => queue.next([])),
    ["c", "b", "a", "d"],
  );
});

test("where running files use less than their shares, one more begins, but four fifths of the shares always count", () => {
  const next = (share: number, used?: number) => {
    const queue = new Queue([waiting("a", 1, { tookMs: 3 }), waiting("b", 1, { tookMs: 2 }), waiting("c", share)], 2);
    assert.deepEqual([queue.next([]), queue.next(["a"])], ["a", "b"]);
    return queue.next(["a", "b"], used);
  };
  assert.equal(next(0.3), undefined, "not measured");
  assert.equal(next(0.3, 1.6), "c");
  assert.equal(next(0.3, 1.8), undefined, "0.3 more is more than 2");
  assert.equal(next(0.5, 0.1), undefined, "both may want a processor again");
  assert.equal(next(0.4, 0.1), "c");
  assert.equal(next(0, 2.5), "c", "what other programs use is not counted twice");
});
