/** Sorts the reviews of a batch: which are written to the ledger, and which leave no trace. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type Decision,
  sortDecisions,
} from "../../../../../functions/evaluate-eviction/group-commit/sort-decisions.ts";
import { allow, askAgain } from "../../../../../functions/shared/admission/answers.ts";
import { wait } from "../../../../../functions/shared/contract/verdict.ts";

const reserve = { statefulSet: "db", ordinal: 1, uid: "u" };
const [real, dry, refused] = [{ dryRun: false }, { dryRun: true }, { dryRun: false }];
const reviews = [real, dry, refused];
const allowed: Decision = { answer: allow("allowed"), reserve };
const decisions: readonly Decision[] = [allowed, allowed, { answer: askAgain("zone-budget", "not now") }];

test("an allowed pod is reserved before the answer, and a dry run reserves nothing (R16)", () => {
  const { granted, traceless, unreserved } = sortDecisions(reviews, decisions, { mode: "act", tooNew: undefined });
  assert.deepEqual(granted, [{ waiting: real, ...allowed }]);
  assert.deepEqual([...traceless], [[dry, allowed.answer]]);
  assert.deepEqual([...unreserved], [[refused, decisions[2]?.answer]]);
});

test("in shadow mode nothing is reserved, and an allowing answer says what Sluice would have answered (R16)", () => {
  const { granted, traceless, unreserved } = sortDecisions(reviews, decisions, { mode: "shadow", tooNew: undefined });
  assert.deepEqual(granted, []);
  assert.deepEqual([...traceless.values()], [{ ...allowed.answer, otherwise: "reserved" }, allowed.answer]);
  assert.deepEqual([...unreserved.keys()], [refused]);
});

test("a new ledger reserves nothing for any review, and the answer says for how long (R4)", () => {
  const tooNew = wait("ledger-new", "it is new", { requeueAfterMs: 9_000 });
  for (const mode of ["act", "shadow"] as const) {
    const { granted, traceless, unreserved } = sortDecisions(reviews, decisions, { mode, tooNew });
    assert.deepEqual([granted.length, traceless.size], [0, 0]);
    const answers = [...unreserved.values()].map((one) => !one.allowed && [one.guard, one.code, one.curedInMs]);
    const blocked = ["ledger-new", 429, 9_000];
    assert.deepEqual(answers, [blocked, blocked, ["zone-budget", 429, undefined]]);
  }
});
