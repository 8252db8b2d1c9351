/** Passes and reviews over ledgers that hold claims or are of another format: they wait, and change nothing of them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { claimOf } from "../../functions/advance-zone-rollout/given.ts";
import { governedGroup, Replica, reserved } from "../../functions/evaluate-eviction/group-commit/reviews.ts";
import { ledgerKey, namespace, Passes } from "./passes.ts";

const later = '{ "id":"x", "kind":"later","zone":"group-b","n":1e400 }';

function annotationsOf(passes: Passes): Readonly<Record<string, string>> {
  return passes.world.store.get("leases", ledgerKey).metadata.annotations ?? {};
}

test("zone-scaling-down: a rollout says so, waits as long as the claim stands, and then goes on", async () => {
  const passes = await new Passes().prepare();
  const { line } = claimOf("group-b:1", "scale-down");
  passes.writeLedger({ "sluice.dev/claims": line });
  await passes.run();
  assert.equal(passes.guard, "zone-scaling-down");
  for (let minutes = 0; minutes < 10; minutes++) {
    await passes.goOn(60_000);
    await passes.run(true);
  }
  assert.deepEqual([passes.guard, passes.acts], ["zone-scaling-down", []]);
  assert.equal(passes.ledger.verdicts["advance-zone-rollout"]?.guard, "zone-scaling-down");
  assert.equal(annotationsOf(passes)["sluice.dev/claims"], line, "no other function drops it by its age");
  passes.writeLedger({ "sluice.dev/claims": "" });
  await passes.run(true);
  assert.equal(passes.guard, "rolling");
});

test("who waits for a claim and writes nothing hears of its end within 5 s, and asks no more often than that", async () => {
  for (const line of [claimOf("group-b:1", "scale-down").line, later]) {
    const passes = await governedGroup({ maxUnavailable: 1 });
    passes.writeLedger({ "sluice.dev/claims": line });
    const replica = new Replica(passes);
    const guard = line === later ? "zone-claim-unknown" : "zone-scaling-down";
    assert.deepEqual(await replica.guards(replica.review("group-a-0")), [guard]);
    passes.writeLedger({ "sluice.dev/claims": "" });
    for (const seconds of [0, 1, 2, 3, 4]) {
      assert.deepEqual(await replica.guards(replica.review("group-a-0")), [guard], `after ${seconds} s`);
      await passes.goOn(1_000);
    }
    assert.equal(replica.count("get leases"), 1, "what was read serves for 5 s");
    assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["allowed"]);
    assert.equal(replica.count("get leases"), 2);
    passes.changeImage("app:2");
    passes.writeLedger({ "sluice.dev/claims": line });
    await passes.run(true);
    assert.equal(passes.guard, guard);
    passes.writeLedger({ "sluice.dev/claims": "" });
    await passes.goOn(5_000);
    await passes.run();
    assert.notEqual(passes.guard, guard, "no sweep is needed");
  }
});

test("a copy of a ledger that holds a claim serves for 5 s: a look before that costs no read", async () => {
  const passes = await new Passes().prepare();
  passes.writeLedger({ "sluice.dev/claims": claimOf("group-b:1", "scale-down").line });
  await passes.run(true);
  const readsAfter = async (ms: number) => {
    await passes.goOn(ms);
    passes.forget();
    await passes.run();
    return passes.count("get leases");
  };
  assert.equal(await readsAfter(4_000), 0);
  assert.equal(await readsAfter(1_100), 1);
});

test("a rollout and evictions that reserve beside claims leave every claim as it was, to the byte", async () => {
  const passes = await governedGroup({ maxUnavailable: 3 }, { replicas: 4, maxUnavailable: 2 });
  const text = `${claimOf("group-a:3", "scale-down").line.replace("{", '{ "new": 1.50, ')}\n`;
  passes.writeLedger({ "sluice.dev/claims": text });
  const replica = new Replica(passes);
  assert.deepEqual(await replica.guards(replica.review("group-a-3"), replica.review("group-a-0")), [
    "zone-scaling-down",
    "allowed",
  ]);
  await passes.goOn(6_000);
  passes.changeImage("app:2");
  await passes.goOn(100);
  await passes.run(true);
  assert.deepEqual(reserved(passes), ["group-a-0 by evaluate-eviction"]);
  assert.equal(passes.guard, "zone-scaling-down");
  assert.equal(annotationsOf(passes)["sluice.dev/claims"], text);
});

test("zone-claim-unknown: a kind of a later version holds the group, and is written back as it was", async () => {
  const passes = await new Passes().prepare();
  passes.writeLedger({ "sluice.dev/claims": later });
  await passes.run(true);
  await passes.goOn(6_000);
  await passes.run(true);
  assert.deepEqual([passes.guard, passes.acts], ["zone-claim-unknown", []]);
  assert.equal(annotationsOf(passes)["sluice.dev/claims"], later);
});

test("ledger-unreadable: a ledger of a later format, or with a claim that cannot be read, permits nothing, and no function writes it", async () => {
  for (const annotations of [{ "sluice.dev/format": "2" }, { "sluice.dev/claims": '{"id":"x","kind":"scale-down"}' }]) {
    const passes = await governedGroup({ maxUnavailable: 1 });
    passes.changeImage("app:2");
    passes.writeLedger(annotations);
    const { resourceVersion } = passes.world.store.get("leases", ledgerKey).metadata;
    const replica = new Replica(passes);
    assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["ledger-unreadable"]);
    await passes.run(true);
    assert.deepEqual([passes.guard, passes.acts], ["ledger-unreadable", []]);
    assert.equal(passes.world.store.get("leases", ledgerKey).metadata.resourceVersion, resourceVersion);
  }
});

test("a ledger from before formats had numbers is used as it is, and the next write says its format", async () => {
  const passes = await new Passes().prepare();
  passes.writeLedger({ "sluice.dev/format": null });
  await passes.run(true);
  assert.equal(passes.guard, "rolling");
  assert.equal(annotationsOf(passes)["sluice.dev/format"], "1");
});

test("a broken pod that another function has claimed since the ledger was last read is not repaired (R13, R18)", async () => {
  const passes = await new Passes().prepare();
  passes.world.kubelet.breakPod({ namespace, name: "group-b-1" });
  await passes.run();
  await passes.goOn(5_000);
  passes.forget();
  const { line } = claimOf("group-b:0-1", "scale-down");
  passes.world.kubelet.breakPod({ namespace, name: "group-b-0" });
  await passes.goOn(100);
  passes.writeLedger({ "sluice.dev/claims": line });
  await passes.run();
  assert.deepEqual(
    passes.acts.filter(({ action }) => action === "repair"),
    [],
  );
  assert.equal(passes.guard, "zone-scaling-down");
});
