/** A FoundationDBCluster's own settings of removals, over drawn histories in which processes are killed at any write. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { playFoundation } from "../support/foundation-history.ts";
import type { Deletion } from "../support/foundation-options.ts";

const seeds = [1, 2, 3, 4];
/** Longest time between reading a setting and sending a deletion by it: a reconcile may be older than a change (rule R9). */
const lateMs = 15_000;
const changedMs = 300_000;

function during(deletions: readonly Deletion[], fromMs: number, toMs: number): readonly Deletion[] {
  return deletions.filter(({ atMs }) => atMs >= fromMs && atMs < toMs);
}

test("removalMode None: no pod and no volume is deleted in ten minutes", async () => {
  const waiting: string[] = [];
  for (const seed of seeds) {
    const settings = [{ atMs: 0, automationOptions: { removalMode: "None" } }];
    const { deletions, violations, left } = await playFoundation(seed, { settings });
    assert.deepEqual([during(deletions, 0, 600_000), violations], [[], []], `seed ${seed}`);
    waiting.push(...left);
  }
  assert.match(waiting.join("\n"), /mode-none: .* spec\.automationOptions\.removalMode of orders is None/);
});

test("removalMode None, or an unknown mode, freezes removals under way when it is written, and a later mode applies again", async () => {
  let before = 0;
  let after = 0;
  for (const seed of seeds) {
    const settings = [
      { atMs: changedMs, automationOptions: { removalMode: seed % 2 === 0 ? "None" : "Unknown" } },
      { atMs: 2 * changedMs, automationOptions: { removalMode: "All" } },
    ];
    const { deletions, violations, left } = await playFoundation(seed, { settings });
    const frozen = during(deletions, changedMs + lateMs, 2 * changedMs);
    assert.deepEqual([frozen, violations, left], [[], [], []], `seed ${seed}`);
    before += during(deletions, 0, changedMs).length;
    after += during(deletions, 2 * changedMs, Number.POSITIVE_INFINITY).length;
  }
  assert.ok(before > 10 && after > 10, `${before} before, ${after} after`);
});
