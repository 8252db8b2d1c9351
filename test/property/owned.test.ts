/** Suspension of pods whose owner is no StatefulSet, over drawn histories with kills at any write. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type HistoryOptions, playOwned, withoutRevisions } from "../support/owned-history.ts";

const seeds = Array.from({ length: 12 }, (_, index) => index + 1);

test("one zone goes at a time, no volume goes before its time or against a word, and in the end nothing is left waiting", async (context) => {
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

test("of pods with two volumes that say different things none goes before its time, or while the other one is to stay", async (context) => {
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

test("without the revision under which a ledger is written, two zones go at one time", async () => {
  const found = await find(withoutRevisions("leases"), /goes while/);
  assert.ok(found, "within the same seeds");
});

test("without the revision under which a volume claim is marked, a wish or a hold is overrun", async () => {
  const found = await find(withoutRevisions("persistentvolumeclaims"), /is removed though/);
  assert.ok(found, "within the same seeds");
});

async function find(wrap: HistoryOptions["wrap"] & {}, message: RegExp): Promise<boolean> {
  for (const seed of seeds)
    if ((await playOwned(seed, { wrap })).violations.some((one) => message.test(one))) return true;
  return false;
}
