/** One look at a group that something was heard of: what it makes and collects, and how seldom it asks. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { keepLedgers } from "../../../../functions/keep-ledgers/function.ts";
import type { ReconcileResult } from "../../../../functions/shared/contract/definition.ts";
import { groupOfBudget } from "../../../../functions/shared/workloads/group-key.ts";
import type { GroupKey } from "../../../../functions/shared/workloads/statefulsets.ts";
import { key, namespace, Passes, played, refused } from "../../shared/reconcile/passes.ts";
import { addBudget } from "../evaluate-eviction/group-commit/reviews.ts";
import { leasesOf, populate } from "./ledgers.ts";

const look = (passes: Passes, at: GroupKey = key, sweep = false): Promise<ReconcileResult> =>
  played(passes.timeline, keepLedgers.reconcile(passes.context, at, { sweep }));

test("a group that comes has its ledger at once, and one that goes has none any more half a minute later at the latest", async () => {
  const passes = new Passes();
  assert.deepEqual(await look(passes), { requeueAfterMs: undefined, pendingActs: undefined });
  assert.deepEqual(leasesOf(passes), ["db/sluice-group"]);
  await passes.goOn(10_000);
  populate(passes, []);
  const { requeueAfterMs = 0 } = await look(passes);
  assert.ok(requeueAfterMs > 15_000 && requeueAfterMs <= 20_000, `${requeueAfterMs}`);
  assert.deepEqual(leasesOf(passes), ["db/sluice-group"]);
  await passes.goOn(requeueAfterMs);
  await look(passes);
  assert.deepEqual(leasesOf(passes), []);
});

test("however often a group is heard of, it is asked for once in half a minute", async () => {
  const passes = new Passes();
  await look(passes);
  passes.forget();
  for (let event = 0; event < 100; event++) await look(passes);
  assert.deepEqual(passes.words, []);
});

test("where watches tell, and another function of the process knows the ledger, a look costs no request", async () => {
  const passes = new Passes();
  const cache = await passes.watch();
  await passes.run();
  await passes.goOn(1_000);
  passes.forget();
  await look(passes);
  assert.deepEqual(passes.words, []);
  await played(passes.timeline, cache.stop());
});

test("a look that fails is none: the next one asks again, and a missing right is told to who wakes", async () => {
  const passes = new Passes();
  const words = 'leases is forbidden: User "u" cannot create resource "leases"';
  passes.interfere = ({ verb }) => {
    if (verb === "create") throw refused(403, words);
  };
  await assert.rejects(look(passes), { message: words });
  passes.interfere = () => {};
  await look(passes);
  assert.deepEqual(leasesOf(passes), ["db/sluice-group"]);
});

test("a budget that comes makes the ledger of the StatefulSets that it alone governs, and with it the ledger goes", async () => {
  const passes = new Passes();
  const spec = { template: { metadata: { labels: { app: "db" } } } };
  for (const name of ["group-a", "group-b"]) {
    const change = { metadata: { labels: { "rollout-group": null } }, spec };
    passes.world.store.patch("statefulsets", { namespace, name }, change);
  }
  const made = { namespace, group: groupOfBudget("db") };
  await look(passes, made);
  assert.deepEqual(leasesOf(passes), []);
  addBudget(passes, { selector: { matchLabels: { app: "db" } } }, "db");
  await passes.goOn(30_000);
  await look(passes, made);
  assert.equal(leasesOf(passes).length, 1);
  passes.world.store.delete("zoneawarepoddisruptionbudgets", { namespace, name: "db" });
  await passes.goOn(30_000);
  await look(passes, made);
  assert.deepEqual(leasesOf(passes), []);
});

test("a group that has just been swept is not looked at once more, and shadow mode asks for nothing (R16)", async () => {
  const passes = new Passes();
  await look(passes, key, true);
  passes.restart({ mode: "shadow" });
  await look(passes);
  assert.deepEqual([passes.words, leasesOf(passes)], [[], []]);
});

test("a ledger that cannot be read is left for a human, and said once", async () => {
  const passes = new Passes();
  await look(passes);
  passes.writeLedger({ "sluice.dev/reservations": "{" });
  populate(passes, []);
  for (let time = 0; time < 3; time++) {
    await passes.goOn(30_000);
    assert.deepEqual(await look(passes), { requeueAfterMs: undefined, pendingActs: undefined });
  }
  assert.deepEqual(leasesOf(passes), ["db/sluice-group"]);
  assert.equal(passes.problems.length, 1);
  assert.match(passes.problems[0] ?? "", /Lease sluice-group cannot be read/);
});
