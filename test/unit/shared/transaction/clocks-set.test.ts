/** The clocks of API servers are set forward during a scale-down: its claim must not look abandoned because of that. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { findEnd } from "../../../../functions/shared/transaction/claims.ts";
import { claimStoodForMs, isLongKnown } from "../../../../functions/shared/transaction/ledger-age.ts";
import { claimOf } from "../../functions/advance-zone-rollout/given.ts";
import { Harness, key, played } from "../reconcile/harness.ts";

/** A claim that was written a second ago, by the API servers' clock before it was set. */
function written() {
  const harness = new Harness({ replicas: 3 });
  let setMs = 0;
  const cluster = { ...harness.cluster, serverTimeMs: () => harness.cluster.serverTimeMs() + setMs };
  const context = { ...harness.context, cluster };
  const claim = claimOf("group-a:2", "scale-down", { stampMs: cluster.serverTimeMs() - 1_000 });
  return {
    harness,
    claim,
    setClocks: (ms: number) => (setMs = ms),
    end: async () => (await played(harness.timeline, findEnd(context, key, claim))).kind,
  };
}

test("a claim stands for ten seconds after a process has first seen it, whatever the API servers' clocks say", async () => {
  const { harness, setClocks, end } = written();
  setClocks(156_000);
  assert.equal(await end(), "stands");
  await harness.goOn(9_000);
  assert.equal(await end(), "stands");
  await harness.goOn(1_000);
  assert.equal(await end(), "abandoned");
});

test("a claim of a quarter of an hour ends by its age, also for a process that has just started", async () => {
  const { setClocks, end } = written();
  setClocks(15 * 60_000 - 1_001);
  assert.equal(await end(), "stands", "clocks are set by minutes");
  setClocks(15 * 60_000 - 1_000);
  assert.equal(await end(), "abandoned");
});

test("a claim that a process has known for longer ends by its age, and a renewed claim counts as seen again", async () => {
  const { harness, claim, setClocks, end } = written();
  assert.equal(await end(), "stands");
  await harness.goOn(20_000);
  assert.equal(await end(), "stands");
  setClocks(156_000);
  assert.equal(await end(), "abandoned");
  Object.assign(claim, { stampMs: claim.stampMs + 2_000 });
  assert.equal(await end(), "stands");
});

test("a claim has stood for nothing when it is first seen, and after exactly ten seconds no act rests on it any more (R9)", async () => {
  const { harness, claim } = written();
  const of = [harness.context, key, claim] as const;
  assert.equal(claimStoodForMs(...of), 0);
  await harness.goOn(9_999);
  assert.deepEqual([claimStoodForMs(...of), isLongKnown(...of)], [9_999, false]);
  await harness.goOn(1);
  assert.equal(isLongKnown(...of), true);
});
