import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Answers, percentile } from "./answers.ts";

describe("answers", () => {
  it("are counted by their kind, and a pod that is allowed again counts once", () => {
    const answers = new Answers();
    for (const name of ["a-0", "a-1", "a-0"]) answers.add({ kind: "allowed", zone: "a", name }, 1);
    answers.add({ kind: "allowed", zone: "b", name: "b-0" }, 2);
    answers.add({ kind: "refused", message: "no" }, 3);
    answers.add({ kind: "error", message: "broken" }, 4);
    const report = answers.report(2_000);
    assert.deepEqual([report.answers, report.allowed, report.refused, report.errors], [6, 4, 1, 1]);
    assert.equal(report.perSecond, 3);
    assert.deepEqual(report.allowedPods, { a: ["a-0", "a-1"], b: ["b-0"] });
    assert.deepEqual([report.p50Ms, report.p99Ms], [1, 4]);
  });

  it("that differ only in pods, zones and numbers are one message, the most frequent first", () => {
    const answers = new Answers();
    answers.add({ kind: "error", message: "no pod bench-zone-a-3" }, 1);
    for (const count of [1, 2]) answers.add({ kind: "refused", message: `${count} down in bench-zone-b` }, 1);
    answers.add({ kind: "refused", message: "7 down in bench-zone-c" }, 1);
    assert.deepEqual(Object.entries(answers.report(1).messages), [
      ["# down in bench-zone-#", 3],
      ["error: no pod #", 1],
    ]);
  });

  it("that all differ do not fill the memory", () => {
    const answers = new Answers();
    const word = (count: number) => [...String(count)].map((digit) => "abcdefghij"[Number(digit)]).join("");
    for (let count = 0; count < 1_000; count++) answers.add({ kind: "refused", message: word(count) }, 1);
    const { messages } = answers.report(1);
    assert.ok(Object.keys(messages).length < 30);
    assert.equal(
      Object.values(messages).reduce((sum, count) => sum + count, 0),
      1_000,
    );
  });

  it("have no percentiles if there were none", () => {
    const { answers, perSecond, p50Ms, p99Ms } = new Answers().report(1_000);
    assert.deepEqual([answers, perSecond, p50Ms, p99Ms], [0, 0, undefined, undefined]);
  });
});

describe("percentiles", () => {
  it("are the nearest rank", () => {
    const hundred = Array.from({ length: 100 }, (_, index) => index + 1);
    assert.equal(percentile(hundred, 0.5), 50);
    assert.equal(percentile(hundred, 0.99), 99);
    assert.equal(percentile([...hundred, 101], 0.99), 100);
    assert.equal(percentile([7], 0.01), 7);
    assert.equal(percentile([], 0.5), undefined);
  });
});
