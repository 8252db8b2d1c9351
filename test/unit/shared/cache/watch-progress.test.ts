/** Which objects count as equal: a needless trigger costs a reconcile, and without a trigger a change waits for a sweep. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { isSame, sameButRevision } from "../../../../functions/shared/cache/watch-progress.ts";

test("two values are equal if all their fields are, in any order and at any depth", () => {
  const value = { name: "a", labels: { app: "db", zone: "b" }, ordinals: [1, 2], none: null, time: Number.NaN };
  assert.ok(isSame(value, structuredClone(value)));
  assert.ok(isSame({ one: 1, two: 2 }, { two: 2, one: 1 }));
  const others = [
    { ...value, name: "b" },
    { ...value, labels: { app: "db", zone: "c" } },
    { ...value, labels: { app: "db" } },
    { ...value, labels: { app: "db", zone: "b", more: "c" } },
    { ...value, labels: { app: "db", another: "b" } },
    { ...value, labels: "app" },
    { ...value, labels: null },
    { ...value, ordinals: [2, 1] },
    { ...value, none: {} },
    { ...value, time: 0 },
  ];
  for (const other of others) {
    assert.ok(!isSame(value, other) && !isSame(other, value), JSON.stringify(other));
  }
  assert.ok(!isSame(["a"], "a") && !isSame("a", ["a"]), "a list of one text is no text");
  assert.ok(!isSame(1, "1") && !isSame(undefined, null) && !isSame([], ""));
});

test("an object has not changed if only its revision differs, and an unknown object has", () => {
  const pod = { resourceVersion: 5, name: "a-0", labels: { app: "db" } };
  assert.ok(sameButRevision(pod, { ...structuredClone(pod), resourceVersion: 6 }));
  assert.ok(!sameButRevision(pod, { ...pod, labels: { app: "web" } }));
  assert.ok(!sameButRevision(undefined, pod));
});
