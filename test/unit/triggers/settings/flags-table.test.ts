import assert from "node:assert/strict";
import { test } from "node:test";
import { parseGoBoolean, parsePrometheusDuration } from "../../../../functions/shared/clock/durations.ts";
import { parseGoFloat, parseGoInteger } from "../../../../triggers/settings/flags-table.ts";

type Case<T> = readonly [string, T | undefined];

function check<T>(parse: (text: string) => T | undefined, cases: readonly Case<T>[]): void {
  for (const [text, value] of cases) assert.equal(parse(text), value, JSON.stringify(text));
}

test("a boolean flag accepts exactly Go's booleans", () => {
  for (const text of ["1", "t", "T", "TRUE", "true", "True"]) assert.equal(parseGoBoolean(text), true, text);
  for (const text of ["0", "f", "F", "FALSE", "false", "False"]) assert.equal(parseGoBoolean(text), false, text);
  for (const text of ["", "yes", "no", "on", "tRUE", "2", " true"]) assert.equal(parseGoBoolean(text), undefined, text);
});

test("a whole number is read as in Go, with prefixes and underscores", () => {
  check(parseGoInteger, [
    ["0", 0],
    ["8001", 8001],
    ["+8001", 8001],
    ["-1", -1],
    ["0x1F41", 8001],
    ["0o17501", 8001],
    ["017501", 8001],
    ["0b11", 3],
    ["8_001", 8001],
    ["0x_1f_41", 8001],
    ["", undefined],
    ["8001.0", undefined],
    ["8e3", undefined],
    ["08", undefined],
    ["8__001", undefined],
    ["_8", undefined],
    ["8_", undefined],
    [" 8", undefined],
    ["9007199254740993", undefined],
    ["port", undefined],
  ]);
});

test("a number may have decimals and an exponent", () => {
  check(parseGoFloat, [
    ["5", 5],
    ["0.5", 0.5],
    [".5", 0.5],
    ["5.", 5],
    ["-1e2", -100],
    ["", undefined],
    [".", undefined],
    ["5 ", undefined],
    ["x", undefined],
    ["1e999", undefined],
  ]);
});

test("a Prometheus duration consists of whole numbers with units, the largest unit first", () => {
  const hour = 3_600_000;
  check(parsePrometheusDuration, [
    ["1y", 365 * 24 * hour],
    ["2w", 14 * 24 * hour],
    ["1d12h", 36 * hour],
    ["90m", 90 * 60_000],
    ["1h30m5s7ms", 90 * 60_000 + 5_007],
    ["0", 0],
    ["0s", 0],
    ["", undefined],
    ["1.5h", undefined],
    ["-1h", undefined],
    ["30m1h", undefined],
    ["1h1h", undefined],
    ["10", undefined],
    ["1us", undefined],
    ["1Y", undefined],
    // The largest duration that Go can hold.
    ["292y", 292 * 365 * 24 * hour],
    ["293y", undefined],
    ["99999999y", undefined],
  ]);
});
