import assert from "node:assert/strict";
import { test } from "node:test";
import { lineOf } from "../support/journal.ts";
import { cut, wrap } from "./text.ts";

/** Colours, a forged line, other line ends, C1 controls, and marks of right-to-left text. */
const hostile = "red\u001b[31m\nforged\r\u0085\u2028\u009b2J\u202egnp\u2066x\u200f\u061c\u007f";
const moving = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/u;

test("the demo's screen and its lines escape control characters", () => {
  for (const shown of [...wrap(hostile, 80), cut(hostile, 200), lineOf({ atMs: 0, zone: "a", what: hostile })]) {
    assert.doesNotMatch(shown, moving);
  }
});
