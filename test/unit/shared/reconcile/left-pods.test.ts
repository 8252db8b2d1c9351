/**
 * A zone whose StatefulSet was deleted without its pods exists as long as they do: its pods that are down count as
 * down (R7).
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Harness, namespace, played } from "./harness.ts";

const left = { namespace, name: "group-b" };
const broken = { namespace, name: "group-b-0" };
const message =
  /^group-b-0 is not ready, and its StatefulSet group-b is gone; .* make group-b again, or delete the pods that it left behind$/;

/** Three zones, the second of which is deleted without its pods while its first pod is broken. */
async function leaveBehind(watches: boolean) {
  const harness = await new Harness({ zones: ["a", "b", "c"], replicas: 2 }).prepare("app:1");
  const cache = watches ? await harness.watch() : undefined;
  await harness.run();
  harness.world.kubelet.breakPod(broken);
  await harness.goOn(100);
  const { spec, metadata } = harness.world.store.get("statefulsets", left);
  harness.world.removeStatefulSet(left, "Orphan");
  await harness.goOn(100);
  harness.changeImage("app:2");
  await harness.goOn(100);
  harness.forget();
  const makeAgain = () => {
    const { name, labels, annotations } = metadata;
    return harness.world.store.create("statefulsets", namespace, { metadata: { name, labels, annotations }, spec });
  };
  return { harness, makeAgain, end: async () => cache && played(harness.timeline, cache.stop()) };
}

async function taken(harness: Harness, sweep = false): Promise<readonly string[]> {
  harness.forget();
  await harness.run(sweep);
  return harness.acts.map(({ object }) => object);
}

test("zone-departed: an orphaned pod that is down keeps every other zone whole, with lists and with watches", async () => {
  for (const watches of [false, true]) {
    const { harness, end } = await leaveBehind(watches);
    for (const sweep of [false, true]) {
      assert.deepEqual(await taken(harness, sweep), []);
      assert.equal(harness.guard, "zone-departed");
      assert.match(harness.verdicts.at(-1)?.message ?? "", message);
      await harness.goOn(6_000);
    }
    assert.deepEqual(harness.ledger.members, ["group-a", "group-b", "group-c"], "the zone still counts");
    await end();
  }
});

test("a process that has just started knows of the orphaned pods, because the ledger names their zone", async () => {
  const { harness } = await leaveBehind(false);
  await harness.run();
  await harness.goOn(60_000);
  harness.restart();
  assert.deepEqual(await taken(harness), []);
  await harness.goOn(11_000);
  assert.deepEqual(await taken(harness), []);
  assert.equal(harness.guard, "zone-departed");
});

test("orphaned pods that are ready delay no other pod", async () => {
  for (const watches of [false, true]) {
    const { harness, end } = await leaveBehind(watches);
    harness.world.kubelet.healPod(broken);
    await harness.goOn(5_000);
    assert.deepEqual(await taken(harness), ["group-a-0"]);
    assert.deepEqual(harness.ledger.members, ["group-a", "group-b", "group-c"]);
    await end();
  }
});

test("a zone of orphaned pods counts until they are gone, and the next write removes it", async () => {
  for (const watches of [false, true]) {
    const { harness, end } = await leaveBehind(watches);
    for (const ordinal of [0, 1]) harness.world.store.delete("pods", { namespace, name: `group-b-${ordinal}` });
    await harness.goOn(3_000);
    assert.deepEqual(await taken(harness), ["group-a-0"]);
    assert.deepEqual(harness.ledger.members, ["group-a", "group-c"]);
    harness.forget();
    await harness.run();
    const asked = harness.calls.filter(({ given: [, object] }) => (object as { name?: string })?.name === "group-b");
    assert.deepEqual(asked, [], "the function no longer requests it");
    await end();
  }
});

test("a recreated zone counts at once as before, without the ten seconds of a zone that joins", async () => {
  const { harness, makeAgain } = await leaveBehind(false);
  await harness.run();
  await harness.goOn(60_000);
  makeAgain();
  await harness.goOn(100);
  assert.deepEqual(await taken(harness), []);
  assert.ok(!["zone-joined", "zone-departed"].includes(harness.guard ?? ""), harness.guard);
});

test("a zone that has moved to another group no longer delays the group that it left", async () => {
  const { harness, makeAgain } = await leaveBehind(false);
  await harness.run();
  const { metadata } = makeAgain();
  harness.world.store.patch("statefulsets", metadata, { metadata: { labels: { "rollout-group": "other" } } });
  await harness.goOn(100);
  assert.deepEqual(await taken(harness), ["group-a-0"]);
  assert.deepEqual(harness.ledger.members, ["group-a", "group-c"]);
});

test("while a StatefulSet that is being deleted orphans its pods, those that are down count for the other zones", async () => {
  const { harness, makeAgain } = await leaveBehind(false);
  harness.world.statefulSetController.stop();
  makeAgain();
  // A finalizer of another client keeps the StatefulSet.
  harness.world.store.patch("statefulsets", left, { metadata: { finalizers: ["example.com/kept"] } });
  harness.world.store.delete("statefulsets", left);
  await harness.goOn(100);
  assert.deepEqual(await taken(harness), []);
  assert.equal(harness.guard, "zone-departed");
});

test("a new ledger without a decision learns of the zone by the labels of its orphaned pods", async () => {
  for (const watches of [false, true]) {
    const { harness, end } = await leaveBehind(watches);
    const changes = { "sluice.dev/members": null, "sluice.dev/settled-through": null };
    harness.writeLedger(changes);
    await harness.goOn(60_000);
    assert.deepEqual(await taken(harness, true), []);
    assert.deepEqual([harness.guard, harness.ledger.members], ["zone-departed", ["group-a", "group-b", "group-c"]]);
    await end();
  }
});

test("a zone that came and left between two writes of the ledger counts by the labels of its pods, with lists and with watches", async () => {
  for (const watches of [false, true]) {
    for (const counted of [[], ["group-a"], ["group-a", "group-c"]]) {
      const { harness, end } = await leaveBehind(watches);
      harness.writeLedger({ "sluice.dev/members": JSON.stringify(counted) });
      await harness.goOn(60_000);
      assert.deepEqual(await taken(harness), []);
      await harness.goOn(11_000);
      assert.deepEqual(await taken(harness), []);
      assert.equal(harness.guard, "zone-departed");
      await end();
    }
  }
});
