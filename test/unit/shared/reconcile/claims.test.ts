/** Reconciles and reviews over ledgers with claims or with another format: they wait, and change nothing in them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { claimOf } from "../../functions/advance-zone-rollout/given.ts";
import { governedGroup, Replica, reserved } from "../../functions/evaluate-eviction/group-commit/reviews.ts";
import { Harness, ledgerKey, namespace } from "./harness.ts";

const later = '{ "id":"x", "kind":"later","zone":"group-b","n":1e400 }';

function annotationsOf(harness: Harness): Readonly<Record<string, string>> {
  return harness.world.store.get("leases", ledgerKey).metadata.annotations ?? {};
}

test("zone-scaling-down: a rollout reports the claim, waits as long as it stands, and then goes on", async () => {
  const harness = await new Harness().prepare();
  const { line } = claimOf("group-b:1", "scale-down");
  harness.writeLedger({ "sluice.dev/claims": line });
  await harness.run();
  assert.equal(harness.guard, "zone-scaling-down");
  for (let minutes = 0; minutes < 10; minutes++) {
    await harness.goOn(60_000);
    await harness.run(true);
  }
  assert.deepEqual([harness.guard, harness.acts], ["zone-scaling-down", []]);
  assert.equal(harness.ledger.verdicts["advance-zone-rollout"]?.guard, "zone-scaling-down");
  assert.equal(annotationsOf(harness)["sluice.dev/claims"], line, "no other function drops it by its age");
  harness.writeLedger({ "sluice.dev/claims": "" });
  await harness.run(true);
  assert.equal(harness.guard, "rolling");
});

test("a function that waits for a claim learns of its end within 5 s, with one read of the ledger in that time", async () => {
  for (const line of [claimOf("group-b:1", "scale-down").line, later]) {
    const harness = await governedGroup({ maxUnavailable: 1 });
    harness.writeLedger({ "sluice.dev/claims": line });
    const replica = new Replica(harness);
    const guard = line === later ? "zone-claim-unknown" : "zone-scaling-down";
    assert.deepEqual(await replica.guards(replica.review("group-a-0")), [guard]);
    harness.writeLedger({ "sluice.dev/claims": "" });
    for (const seconds of [0, 1, 2, 3, 4]) {
      assert.deepEqual(await replica.guards(replica.review("group-a-0")), [guard], `after ${seconds} s`);
      await harness.goOn(1_000);
    }
    assert.equal(replica.count("get leases"), 1, "the read serves for 5 s");
    assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["allowed"]);
    assert.equal(replica.count("get leases"), 2);
    harness.changeImage("app:2");
    harness.writeLedger({ "sluice.dev/claims": line });
    await harness.run(true);
    assert.equal(harness.guard, guard);
    harness.writeLedger({ "sluice.dev/claims": "" });
    await harness.goOn(5_000);
    await harness.run();
    assert.notEqual(harness.guard, guard, "no sweep is needed");
  }
});

test("a copy of a ledger with a claim serves for 5 s, so that a reconcile in that time costs no read", async () => {
  const harness = await new Harness().prepare();
  harness.writeLedger({ "sluice.dev/claims": claimOf("group-b:1", "scale-down").line });
  await harness.run(true);
  const readsAfter = async (ms: number) => {
    await harness.goOn(ms);
    harness.forget();
    await harness.run();
    return harness.count("get leases");
  };
  assert.equal(await readsAfter(4_000), 0);
  assert.equal(await readsAfter(1_100), 1);
});

test("rollouts and evictions that reserve beside claims leave every claim as it is, byte for byte", async () => {
  const harness = await governedGroup({ maxUnavailable: 3 }, { replicas: 4, maxUnavailable: 2 });
  const text = `${claimOf("group-a:3", "scale-down").line.replace("{", '{ "new": 1.50, ')}\n`;
  harness.writeLedger({ "sluice.dev/claims": text });
  const replica = new Replica(harness);
  assert.deepEqual(await replica.guards(replica.review("group-a-3"), replica.review("group-a-0")), [
    "zone-scaling-down",
    "allowed",
  ]);
  await harness.goOn(6_000);
  harness.changeImage("app:2");
  await harness.goOn(100);
  await harness.run(true);
  assert.deepEqual(reserved(harness), ["group-a-0 by evaluate-eviction"]);
  assert.equal(harness.guard, "zone-scaling-down");
  assert.equal(annotationsOf(harness)["sluice.dev/claims"], text);
});

test("zone-claim-unknown: a kind of a later version blocks the group, and is written back as it was", async () => {
  const harness = await new Harness().prepare();
  harness.writeLedger({ "sluice.dev/claims": later });
  await harness.run(true);
  await harness.goOn(6_000);
  await harness.run(true);
  assert.deepEqual([harness.guard, harness.acts], ["zone-claim-unknown", []]);
  assert.equal(annotationsOf(harness)["sluice.dev/claims"], later);
});

test("ledger-unreadable: a ledger of a later format, or with an unreadable claim, permits nothing and is not written", async () => {
  for (const annotations of [{ "sluice.dev/format": "2" }, { "sluice.dev/claims": '{"id":"x","kind":"scale-down"}' }]) {
    const harness = await governedGroup({ maxUnavailable: 1 });
    harness.changeImage("app:2");
    harness.writeLedger(annotations);
    const { resourceVersion } = harness.world.store.get("leases", ledgerKey).metadata;
    const replica = new Replica(harness);
    assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["ledger-unreadable"]);
    await harness.run(true);
    assert.deepEqual([harness.guard, harness.acts], ["ledger-unreadable", []]);
    assert.equal(harness.world.store.get("leases", ledgerKey).metadata.resourceVersion, resourceVersion);
  }
});

test("a ledger from before formats had numbers is used as it is, and the next write records its format", async () => {
  const harness = await new Harness().prepare();
  harness.writeLedger({ "sluice.dev/format": null });
  await harness.run(true);
  assert.equal(harness.guard, "rolling");
  assert.equal(annotationsOf(harness)["sluice.dev/format"], "1");
});

test("a broken pod that another function has claimed since the last read of the ledger is not repaired (R13, R18)", async () => {
  const harness = await new Harness().prepare();
  harness.world.kubelet.breakPod({ namespace, name: "group-b-1" });
  await harness.run();
  await harness.goOn(5_000);
  harness.forget();
  const { line } = claimOf("group-b:0-1", "scale-down");
  harness.world.kubelet.breakPod({ namespace, name: "group-b-0" });
  await harness.goOn(100);
  harness.writeLedger({ "sluice.dev/claims": line });
  await harness.run();
  assert.deepEqual(
    harness.acts.filter(({ action }) => action === "repair"),
    [],
  );
  assert.equal(harness.guard, "zone-scaling-down");
});
