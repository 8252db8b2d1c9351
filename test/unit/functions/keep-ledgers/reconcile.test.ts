/** One reconcile of a group that an event named: what it creates and collects, and how rarely it asks. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { keepLedgers } from "../../../../functions/keep-ledgers/function.ts";
import type { ReconcileResult } from "../../../../functions/shared/contract/definition.ts";
import { groupOfBudget } from "../../../../functions/shared/workloads/group-key.ts";
import type { GroupKey } from "../../../../functions/shared/workloads/statefulsets.ts";
import { Harness, key, namespace, played, refused } from "../../shared/reconcile/harness.ts";
import { addBudget } from "../evaluate-eviction/group-commit/reviews.ts";
import { leasesOf, populate, sweepOver } from "./ledgers.ts";

const reconcile = (harness: Harness, at: GroupKey = key, sweep = false): Promise<ReconcileResult> =>
  played(harness.timeline, keepLedgers.reconcile(harness.context, at, { sweep }));

test("a new group gets its ledger at once, and Sluice removes the ledger of a removed group within half a minute", async () => {
  const harness = new Harness();
  assert.deepEqual(await reconcile(harness), { requeueAfterMs: undefined, pendingActs: undefined });
  assert.deepEqual(leasesOf(harness), ["db/sluice-group"]);
  await harness.goOn(10_000);
  populate(harness, []);
  const { requeueAfterMs = 0 } = await reconcile(harness);
  assert.ok(requeueAfterMs > 15_000 && requeueAfterMs <= 20_000, `${requeueAfterMs}`);
  assert.deepEqual(leasesOf(harness), ["db/sluice-group"]);
  await harness.goOn(requeueAfterMs);
  await reconcile(harness);
  assert.deepEqual(leasesOf(harness), []);
});

test("Sluice reads the ledger of a group at most once in half a minute, however often the group is reported", async () => {
  const harness = new Harness();
  await reconcile(harness);
  harness.forget();
  for (let event = 0; event < 100; event++) await reconcile(harness);
  assert.deepEqual(harness.requests, []);
});

test("with watches, and with a ledger that another function of the process knows, a reconcile costs no request", async () => {
  const harness = new Harness();
  const cache = await harness.watch();
  await harness.run();
  await harness.goOn(1_000);
  harness.forget();
  await reconcile(harness);
  assert.deepEqual(harness.requests, []);
  await played(harness.timeline, cache.stop());
});

test("a failed reconcile does not count: the next one asks again, and a missing right makes the reconcile fail", async () => {
  const harness = new Harness();
  const refusal = 'leases is forbidden: User "u" cannot create resource "leases"';
  harness.interfere = ({ verb }) => {
    if (verb === "create") throw refused(403, refusal);
  };
  await assert.rejects(reconcile(harness), { message: refusal });
  harness.interfere = () => {};
  await reconcile(harness);
  assert.deepEqual(leasesOf(harness), ["db/sluice-group"]);
});

test("a new budget creates the ledger of the StatefulSets that it alone selects, and the ledger goes with the budget", async () => {
  const harness = new Harness();
  const spec = { template: { metadata: { labels: { app: "db" } } } };
  for (const name of ["group-a", "group-b"]) {
    const change = { metadata: { labels: { "rollout-group": null } }, spec };
    harness.world.store.patch("statefulsets", { namespace, name }, change);
  }
  const made = { namespace, group: groupOfBudget("db") };
  await reconcile(harness, made);
  assert.deepEqual(leasesOf(harness), []);
  addBudget(harness, { selector: { matchLabels: { app: "db" } } }, "db");
  await harness.goOn(30_000);
  await reconcile(harness, made);
  assert.equal(leasesOf(harness).length, 1);
  harness.world.store.delete("zoneawarepoddisruptionbudgets", { namespace, name: "db" });
  await harness.goOn(30_000);
  await reconcile(harness, made);
  assert.deepEqual(leasesOf(harness), []);
});

test("Sluice does not read a group again right after its sweep, and reads nothing in shadow mode (R16)", async () => {
  const harness = new Harness();
  await reconcile(harness, key, true);
  harness.restart({ mode: "shadow" });
  await reconcile(harness);
  assert.deepEqual([harness.requests, leasesOf(harness)], [[], []]);
});

test("for half a minute after a sweep over all groups Sluice reads no group again", async () => {
  const harness = new Harness();
  assert.equal(await sweepOver(harness, [key]), undefined);
  harness.forget();
  await reconcile(harness);
  await harness.goOn(29_000);
  await reconcile(harness);
  assert.deepEqual(harness.requests, []);
});

test("the ledger of a vanished group goes although the process knows it, and is then forgotten", async () => {
  const harness = await new Harness().prepare();
  await harness.run();
  harness.world.settle();
  await harness.run();
  assert.notEqual(harness.context.memoryOf(key).copy.ledger, undefined);
  populate(harness, []);
  await harness.goOn(700_000);
  await reconcile(harness);
  assert.deepEqual([leasesOf(harness), harness.context.memoryOf(key).copy.ledger], [[], undefined]);
});

test("a ledger that is gone, or that another client has written, by the time of its removal is left alone without a failure", async () => {
  for (const [code, isFailure] of [
    [404, false],
    [409, false],
    [503, true],
  ] as const) {
    const harness = new Harness();
    await reconcile(harness);
    populate(harness, []);
    await harness.goOn(700_000);
    harness.interfere = ({ verb, resource }) => {
      if (verb === "delete" && resource === "leases") throw refused(code);
    };
    const failed = await reconcile(harness).then(
      () => false,
      () => true,
    );
    assert.deepEqual([failed, leasesOf(harness)], [isFailure, ["db/sluice-group"]], `${code}`);
  }
});

test("Sluice leaves a ledger that it cannot read to a person, and reports it once", async () => {
  const harness = new Harness();
  await reconcile(harness);
  harness.writeLedger({ "sluice.dev/reservations": "{" });
  populate(harness, []);
  for (let time = 0; time < 3; time++) {
    await harness.goOn(30_000);
    assert.deepEqual(await reconcile(harness), { requeueAfterMs: undefined, pendingActs: undefined });
  }
  assert.deepEqual(leasesOf(harness), ["db/sluice-group"]);
  assert.equal(harness.problems.length, 1);
  assert.match(harness.problems[0] ?? "", /Lease sluice-group cannot be read/);
});
