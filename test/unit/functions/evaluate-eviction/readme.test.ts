/** Compares the README of evaluate-eviction with the guards that its code can answer. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { evaluateEviction } from "../../../../functions/evaluate-eviction/function.ts";

const read = (path: string) => readFile(new URL(`../../../../functions/${path}`, import.meta.url), "utf8");
const readme = await read("evaluate-eviction/README.md");

/** The cells of every row of a README's table, found by the first cell of its head. */
function tableOf(head: string): string[][] {
  const lines = readme.split("\n");
  const start = lines.findIndex((line) => line.startsWith(`| ${head} |`));
  assert.ok(start >= 0, `no table begins with ${head}`);
  const end = lines.findIndex((line, index) => index > start && !line.startsWith("|"));
  return lines.slice(start + 2, end).map((line) =>
    line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

const guardsIn = (cell = ""): string[] => [...cell.matchAll(/`([a-z0-9-]+)`/g)].map(([, guard]) => guard ?? "");

test("the README explains every guard that the code can answer, and no other", async () => {
  const sources = await Promise.all(
    [
      "evaluate-eviction/decide-asked.ts",
      "evaluate-eviction/budget.ts",
      "evaluate-eviction/decide-alone.ts",
      "evaluate-eviction/decide.ts",
      "evaluate-eviction/observe.ts",
      "evaluate-eviction/owned.ts",
      "shared/admission/answers.ts",
      "evaluate-eviction/group-commit/commit.ts",
      "shared/admission/failures.ts",
      "shared/health/permit.ts",
      "shared/groups/governing.ts",
      "shared/ledger/claim-kinds.ts",
      "shared/standby/decide-other-operator.ts",
      "shared/ledger/health-rule.ts",
      "shared/transaction/ledger-age.ts",
      "shared/transaction/ledger-copy.ts",
    ].map(read),
  );
  const pattern =
    /(?:guard: |guard = .*\? |(?:askAgain|notYet|refuse|wait|allow|badRequest|forbidden|notFound|conflict|internalError)\(\s*)"([a-z0-9-]+)"(?: : "([a-z0-9-]+)")?/g;
  const stated = sources.flatMap((text) =>
    [...text.matchAll(pattern)].flatMap(([, one = "", other]) => [one, other ?? one]),
  );
  const known = new Set(stated);
  assert.ok(known.size >= 25, [...known].join());
  const explained = tableOf("guard").flatMap(([cell]) => guardsIn(cell));
  assert.deepEqual(explained.sort(), [...known].sort());
});

test("the README's table of rollout-operator's reasons is the one that the code uses", () => {
  const reasons = evaluateEviction.peerReasons ?? {};
  const codes = new Map(tableOf("guard").map(([guard = "", code = ""]) => [guardsIn(guard)[0], code.split(", ")]));
  const rows = tableOf("its reason");
  const listed = rows.flatMap(([reason = "", , guards, code = ""]) => {
    return guardsIn(guards).map((guard) => {
      assert.ok(codes.get(guard)?.includes(code.slice(0, 3)), guard);
      return [guard, guardsIn(reason)[0]];
    });
  });
  const counted = listed.filter(([, reason]) => reason !== "denied");
  assert.deepEqual(Object.fromEntries(counted), reasons);
  for (const [guard, reason] of listed.filter((row) => !counted.includes(row))) {
    assert.deepEqual([reason, codes.get(guard)], ["denied", ["429"]]);
  }
});

test("the README marks the guards that an eviction may wait for, and no others", async () => {
  const sources = await Promise.all(
    [
      "evaluate-eviction/decide-asked.ts",
      "evaluate-eviction/budget.ts",
      "evaluate-eviction/decide-alone.ts",
      "evaluate-eviction/decide.ts",
      "evaluate-eviction/group-commit/commit.ts",
      "shared/admission/failures.ts",
    ].map(read),
  );
  const stated = sources.flatMap((text) =>
    [...text.matchAll(/(?:notYet|refuse)\(\s*"([a-z-]+)"/g)].map(([, one]) => one),
  );
  // A new reservation, and two answers about health, are refused by a wait with a guard of its own.
  const listed = ["health-beside-others", "health-stale", "ledger-elsewhere", "ledger-new", "zone-joined"];
  const marked = tableOf("guard").flatMap(([cell = ""]) => (cell.endsWith("*w*") ? guardsIn(cell) : []));
  assert.deepEqual(marked.sort(), [...new Set([...stated, ...listed])].sort());
});
