/** Suspension of pods whose owner is no StatefulSet, over drawn histories in which processes are killed at any write. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type HistoryOptions, playOwned, withoutRevisions } from "../support/owned-history.ts";

const seeds = Array.from({ length: 12 }, (_, index) => index + 1);

test("one zone goes at a time, no volume goes before its time or against an annotation, and in the end nothing waits", async (context) => {
  const counts: Record<string, number> = {};
  for (const seed of seeds) {
    const { violations, left, ...history } = await playOwned(seed);
    assert.deepEqual([violations, left], [[], []], `seed ${seed}`);
    for (const [what, count] of Object.entries(history.counts)) counts[what] = (counts[what] ?? 0) + count;
  }
  context.diagnostic(JSON.stringify(counts));
  for (const what of ["pods", "volumes", "recovered", "wishes", "kills", "stalls"])
    assert.ok((counts[what] ?? 0) > 10, what);
});

test("if the two volumes of a pod have different annotations, none goes before its time, or while the other one must stay", async (context) => {
  const counts: Record<string, number> = {};
  for (const seed of seeds.slice(0, 6)) {
    const { violations, left, ...history } = await playOwned(seed, { volumes: 2 });
    assert.deepEqual([violations, left], [[], []], `seed ${seed}`);
    for (const [what, count] of Object.entries(history.counts)) counts[what] = (counts[what] ?? 0) + count;
  }
  context.diagnostic(JSON.stringify(counts));
  for (const what of ["pods", "volumes", "recovered", "wishes", "kills", "stalls"])
    assert.ok((counts[what] ?? 0) > 10, what);
});

test("if a ledger is written without a condition on its revision, two zones go at the same time", async () => {
  const found = await find(withoutRevisions("leases"), /goes while/);
  assert.ok(found, "within the same seeds");
});

test("if a volume claim is marked without a condition on its revision, a wish or a hold is ignored", async () => {
  const found = await find(withoutRevisions("persistentvolumeclaims"), /is removed though/);
  assert.ok(found, "within the same seeds");
});

async function find(wrap: HistoryOptions["wrap"] & {}, message: RegExp): Promise<boolean> {
  for (const seed of seeds)
    if ((await playOwned(seed, { wrap })).violations.some((one) => message.test(one))) return true;
  return false;
}
