import assert from "node:assert/strict";
import { test } from "node:test";
import { type Outcome, slowest, summarize } from "./outcome.ts";

const outcome = (file: string, changes: Partial<Outcome> = {}): Outcome => {
  return { file, passed: 3, skipped: 0, real: 1, failures: [], tookMs: 1_000, cpuMs: undefined, ...changes };
};
const failed = (file: string) => outcome(file, { passed: 2, failures: ["it holds"] });

test("a run is green if each file passed, and not if no test did", () => {
  const { isGreen, passed, real, skipped } = summarize([outcome("a"), outcome("b", { skipped: 1 })]);
  assert.deepEqual([isGreen, passed, real, skipped], [true, 6, 2, 1]);
  assert.equal(summarize([]).isGreen, false);
});

test("a file that failed, and fails when it runs once more, fails the run, and is counted once", () => {
  const { isGreen, passed, failures, flaky } = summarize([outcome("a"), failed("b")], [failed("b")]);
  assert.deepEqual([isGreen, passed, failures, flaky], [false, 5, ["b: it holds"], []]);
});

test("a file that failed, and passes when it runs once more, is flaky: the run is green, and names it", () => {
  const { isGreen, passed, failed: count, flaky } = summarize([failed("a"), outcome("b")], [outcome("a")]);
  assert.deepEqual([isGreen, passed, count, flaky], [true, 6, 0, ["a: it holds"]]);
});

test("a file that failed, and whose tests are skipped when it runs once more, has failed", () => {
  const { isGreen, failures, flaky } = summarize(
    [failed("a"), outcome("b")],
    [outcome("a", { passed: 0, skipped: 3 })],
  );
  assert.deepEqual([isGreen, failures, flaky], [false, ["a: it holds"], []]);
});

test("a run with three flaky files is red", () => {
  const files = ["a", "b", "c"];
  const again = files.map((file) => outcome(file));
  assert.equal(summarize(files.map(failed), again).isGreen, false);
  assert.equal(summarize(files.slice(1).map(failed), again.slice(1)).isGreen, true);
});

test("a file that failed and did not run once more has failed", () => {
  assert.equal(summarize([failed("a"), outcome("b")]).isGreen, false);
});

test("the slowest files come first", () => {
  const files = [1, 3, 2].map((seconds) => outcome(`${seconds}`, { tookMs: seconds * 1_000 }));
  assert.deepEqual(
    slowest(files, 2).map(({ file }) => file),
    ["3", "2"],
  );
});
