/** A zone whose StatefulSet was deleted without its pods stands as long as they do: what is down of them is down (R7). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { namespace, Passes, played } from "./passes.ts";

const left = { namespace, name: "group-b" };
const broken = { namespace, name: "group-b-0" };
const sentence =
  /^group-b-0 is not ready, and its StatefulSet group-b is gone; .* make group-b again, or delete the pods that it left behind$/;

/** Three zones, the second of which is deleted without its pods while the first of them is broken. */
async function leaveBehind(watches: boolean) {
  const passes = await new Passes({ zones: ["a", "b", "c"], replicas: 2 }).prepare("app:1");
  const cache = watches ? await passes.watch() : undefined;
  await passes.run();
  passes.world.kubelet.breakPod(broken);
  await passes.goOn(100);
  const { spec, metadata } = passes.world.store.get("statefulsets", left);
  passes.world.removeStatefulSet(left, "Orphan");
  await passes.goOn(100);
  passes.changeImage("app:2");
  await passes.goOn(100);
  passes.forget();
  const makeAgain = () => {
    const { name, labels, annotations } = metadata;
    return passes.world.store.create("statefulsets", namespace, { metadata: { name, labels, annotations }, spec });
  };
  return { passes, makeAgain, end: async () => cache && played(passes.timeline, cache.stop()) };
}

async function taken(passes: Passes, sweep = false): Promise<readonly string[]> {
  passes.forget();
  await passes.run(sweep);
  return passes.acts.map(({ object }) => object);
}

test("zone-departed: a pod that is down and that its StatefulSet left behind keeps every other zone whole, for lists and watches", async () => {
  for (const watches of [false, true]) {
    const { passes, end } = await leaveBehind(watches);
    for (const sweep of [false, true]) {
      assert.deepEqual(await taken(passes, sweep), []);
      assert.equal(passes.guard, "zone-departed");
      assert.match(passes.verdicts.at(-1)?.message ?? "", sentence);
      await passes.goOn(6_000);
    }
    assert.deepEqual(passes.ledger.members, ["group-a", "group-b", "group-c"], "the zone still counts");
    await end();
  }
});

test("a process that has just begun knows of the pods that were left behind: the ledger counts their zone", async () => {
  const { passes } = await leaveBehind(false);
  await passes.run();
  await passes.goOn(60_000);
  passes.restart();
  assert.deepEqual(await taken(passes), []);
  await passes.goOn(11_000);
  assert.deepEqual(await taken(passes), []);
  assert.equal(passes.guard, "zone-departed");
});

test("pods that were left behind and are ready hold no other pod up", async () => {
  for (const watches of [false, true]) {
    const { passes, end } = await leaveBehind(watches);
    passes.world.kubelet.healPod(broken);
    await passes.goOn(5_000);
    assert.deepEqual(await taken(passes), ["group-a-0"]);
    assert.deepEqual(passes.ledger.members, ["group-a", "group-b", "group-c"]);
    await end();
  }
});

test("a zone that was left behind counts until its pods are gone, and is forgotten by the next write", async () => {
  for (const watches of [false, true]) {
    const { passes, end } = await leaveBehind(watches);
    for (const ordinal of [0, 1]) passes.world.store.delete("pods", { namespace, name: `group-b-${ordinal}` });
    await passes.goOn(3_000);
    assert.deepEqual(await taken(passes), ["group-a-0"]);
    assert.deepEqual(passes.ledger.members, ["group-a", "group-c"]);
    passes.forget();
    await passes.run();
    const asked = passes.calls.filter(({ given: [, object] }) => (object as { name?: string })?.name === "group-b");
    assert.deepEqual(asked, [], "the function does not ask for it any more");
    await end();
  }
});

test("a zone that is made again counts at once as it did before: it waits for no ten seconds as one that joins", async () => {
  const { passes, makeAgain } = await leaveBehind(false);
  await passes.run();
  await passes.goOn(60_000);
  makeAgain();
  await passes.goOn(100);
  assert.deepEqual(await taken(passes), []);
  assert.ok(!["zone-joined", "zone-departed"].includes(passes.guard ?? ""), passes.guard);
});

test("a zone that has moved to another group holds the one that it left no longer", async () => {
  const { passes, makeAgain } = await leaveBehind(false);
  await passes.run();
  const { metadata } = makeAgain();
  passes.world.store.patch("statefulsets", metadata, { metadata: { labels: { "rollout-group": "other" } } });
  await passes.goOn(100);
  assert.deepEqual(await taken(passes), ["group-a-0"]);
  assert.deepEqual(passes.ledger.members, ["group-a", "group-c"]);
});

test("while a StatefulSet that is being deleted lets go of its pods, those that are down are down in another zone", async () => {
  const { passes, makeAgain } = await leaveBehind(false);
  passes.world.statefulSetController.stop();
  makeAgain();
  // The finalizer of another client keeps it.
  passes.world.store.patch("statefulsets", left, { metadata: { finalizers: ["example.com/kept"] } });
  passes.world.store.delete("statefulsets", left);
  await passes.goOn(100);
  assert.deepEqual(await taken(passes), []);
  assert.equal(passes.guard, "zone-departed");
});

test("a ledger that no decision has written yet learns of the zone by the labels of the pods that were left behind", async () => {
  for (const watches of [false, true]) {
    const { passes, end } = await leaveBehind(watches);
    const changes = { "sluice.dev/members": null, "sluice.dev/settled-through": null };
    passes.writeLedger(changes);
    await passes.goOn(60_000);
    assert.deepEqual(await taken(passes, true), []);
    assert.deepEqual([passes.guard, passes.ledger.members], ["zone-departed", ["group-a", "group-b", "group-c"]]);
    await end();
  }
});

test("a zone that came and left between two writes of the ledger counts by the labels of its pods, for lists and watches", async () => {
  for (const watches of [false, true]) {
    for (const counted of [[], ["group-a"], ["group-a", "group-c"]]) {
      const { passes, end } = await leaveBehind(watches);
      passes.writeLedger({ "sluice.dev/members": JSON.stringify(counted) });
      await passes.goOn(60_000);
      assert.deepEqual(await taken(passes), []);
      await passes.goOn(11_000);
      assert.deepEqual(await taken(passes), []);
      assert.equal(passes.guard, "zone-departed");
      await end();
    }
  }
});
