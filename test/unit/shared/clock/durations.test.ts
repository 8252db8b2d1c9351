import assert from "node:assert/strict";
import { test } from "node:test";
import { parseGoDuration } from "../../../../functions/shared/clock/durations.ts";

test("durations are those of Go's time.ParseDuration", () => {
  for (const [text, ms] of [
    ["0", 0],
    ["-0", 0],
    ["+0", 0],
    ["0s", 0],
    ["-0s", 0],
    ["5m", 300_000],
    ["+5m", 300_000],
    ["-5m", -300_000],
    ["1m30s", 90_000],
    ["1.5m", 90_000],
    ["1.s", 1_000],
    [".5m", 30_000],
    ["1h2m3s4ms", 3_723_004],
    ["30s1h", 3_630_000],
    ["1s1s", 2_000],
    ["2us", 0.002],
    ["2µs", 0.002],
    ["2μs", 0.002],
    ["3000000ns", 3],
    ["2562047h", 9_223_369_200_000],
  ] as const) {
    assert.equal(parseGoDuration(text), ms, text);
  }
});

test("a text that Go refuses is no duration", () => {
  const refused = ["", "-", "+", "5", "1d", "m", ".s", ".", "5 m", " 5m", "5m ", "5m5", "--5m", "+-5m", "5M", "1e3s"];
  for (const text of [...refused, "1_000s", "٥m", "2562048h", `${"9".repeat(400)}h`, "constructor", "5m\n"]) {
    assert.equal(parseGoDuration(text), undefined, text);
  }
});

test("a long text that is almost a duration is refused at once", () => {
  const startedMs = performance.now();
  assert.equal(parseGoDuration(`${"1".repeat(200_000)}x`), undefined);
  assert.equal(parseGoDuration(`${"1s".repeat(100_000)}x`), undefined);
  assert.ok(performance.now() - startedMs < 1_000);
});
