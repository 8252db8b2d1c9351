/**
 * A zone whose StatefulSet was deleted without its pods exists as long as they do: its pods that are down count as down (R7).
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

test("zone-departed: a pod that is down and that its StatefulSet left behind keeps every other zone whole, for lists and watches", async () => {
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

test("a process that has just begun knows of the pods that were left behind: the ledger counts their zone", async () => {
  const { harness } = await leaveBehind(false);
  await harness.run();
  await harness.goOn(60_000);
  harness.restart();
  assert.deepEqual(await taken(harness), []);
  await harness.goOn(11_000);
  assert.deepEqual(await taken(harness), []);
  assert.equal(harness.guard, "zone-departed");
});

test("pods that were left behind and are ready hold no other pod up", async () => {
  for (const watches of [false, true]) {
    const { harness, end } = await leaveBehind(watches);
    harness.world.kubelet.healPod(broken);
    await harness.goOn(5_000);
    assert.deepEqual(await taken(harness), ["group-a-0"]);
    assert.deepEqual(harness.ledger.members, ["group-a", "group-b", "group-c"]);
    await end();
  }
});

test("a zone that was left behind counts until its pods are gone, and is forgotten by the next write", async () => {
  for (const watches of [false, true]) {
    const { harness, end } = await leaveBehind(watches);
    for (const ordinal of [0, 1]) harness.world.store.delete("pods", { namespace, name: `group-b-${ordinal}` });
    await harness.goOn(3_000);
    assert.deepEqual(await taken(harness), ["group-a-0"]);
    assert.deepEqual(harness.ledger.members, ["group-a", "group-c"]);
    harness.forget();
    await harness.run();
    const asked = harness.calls.filter(({ given: [, object] }) => (object as { name?: string })?.name === "group-b");
    assert.deepEqual(asked, [], "the function does not ask for it any more");
    await end();
  }
});

test("a zone that is made again counts at once as it did before: it waits for no ten seconds as one that joins", async () => {
  const { harness, makeAgain } = await leaveBehind(false);
  await harness.run();
  await harness.goOn(60_000);
  makeAgain();
  await harness.goOn(100);
  assert.deepEqual(await taken(harness), []);
  assert.ok(!["zone-joined", "zone-departed"].includes(harness.guard ?? ""), harness.guard);
});

test("a zone that has moved to another group holds the one that it left no longer", async () => {
  const { harness, makeAgain } = await leaveBehind(false);
  await harness.run();
  const { metadata } = makeAgain();
  harness.world.store.patch("statefulsets", metadata, { metadata: { labels: { "rollout-group": "other" } } });
  await harness.goOn(100);
  assert.deepEqual(await taken(harness), ["group-a-0"]);
  assert.deepEqual(harness.ledger.members, ["group-a", "group-c"]);
});

test("while a StatefulSet that is being deleted lets go of its pods, those that are down are down in another zone", async () => {
  const { harness, makeAgain } = await leaveBehind(false);
  harness.world.statefulSetController.stop();
  makeAgain();
  // Another client's finalizer keeps it.
  harness.world.store.patch("statefulsets", left, { metadata: { finalizers: ["example.com/kept"] } });
  harness.world.store.delete("statefulsets", left);
  await harness.goOn(100);
  assert.deepEqual(await taken(harness), []);
  assert.equal(harness.guard, "zone-departed");
});

test("a ledger that no decision has written yet learns of the zone by the labels of the pods that were left behind", async () => {
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

test("a zone that came and left between two writes of the ledger counts by the labels of its pods, for lists and watches", async () => {
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
