/** A message about many Secrets names five of them, and counts the others. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decide } from "../../../../functions/gc-restart-config/decide.ts";

function messageOf(count: number): string {
  const names = Array.from({ length: count }, (_, at) => `files-${at + 1}`);
  const one = { uid: "u", unnamedMs: 1_000, checks: 1 };
  const read = { kind: "there", uid: "u", resourceVersion: "7", isLabelled: true } as const;
  return decide({
    ...{ nowMs: 2_000, named: new Set<string>(), isRestarting: false },
    ...{ known: new Map(names.map((name) => [name, one])), read: new Map(names.map((name) => [name, read])) },
  }).message;
}

test("five Secrets that nothing names are all listed, and of six one is counted", () => {
  const five = "files-1, files-2, files-3, files-4, files-5";
  const rest = ": 15 minutes after that it is removed";
  assert.equal(messageOf(5), `nothing names ${five}${rest}`);
  assert.equal(messageOf(6), `nothing names ${five} and 1 more${rest}`);
  assert.equal(messageOf(8), `nothing names ${five} and 3 more${rest}`);
});
