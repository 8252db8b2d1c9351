/** A zone gives up pods only while those that stay are well (Z2), and those that are asked have said yes (Q1). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { AskedPods, critical, yes } from "../../shared/health/asked-pods.ts";
import { namespace } from "../../shared/reconcile/passes.ts";
import { Following } from "./following.ts";

const lowest = { namespace, name: "group-b-0" };
const sentence = /^group-b is to go to 3 replicas, and waits: group-b-0 is not ready, and group-b is OrderedReady: /;

test("ordinal-not-ready: nothing is claimed or lowered while a pod below is broken, and its name is said", async () => {
  for (const isReviewed of [false, true]) {
    const on = await Following.of({ c: {} }, { podManagementPolicy: "OrderedReady" });
    if (isReviewed) on.label("b", { "prepare-downscale": "true" });
    on.passes.world.kubelet.breakPod(lowest);
    on.scale("a", 3);
    await on.goOn(60_000);
    assert.deepEqual([on.sizes, on.claims, on.passes.guard], [[3, 4, 4], [], "ordinal-not-ready"]);
    assert.match(on.passes.verdicts.at(-1)?.message ?? "", sentence);
    assert.equal(on.passes.count("patch statefulsets"), 0);
    on.passes.world.kubelet.healPod(lowest);
    await on.goOn(60_000);
    assert.deepEqual(on.sizes, [3, 3, 4]);
  }
});

test("budget: where pods go in any order, none goes while more would be down than may be", async () => {
  for (const [maxUnavailable, sizes] of [
    [1, [2, 4, 4]],
    [2, [2, 2, 4]],
  ] as const) {
    const on = await Following.of({ c: {} }, { maxUnavailable });
    on.passes.world.kubelet.breakPod(lowest);
    on.scale("a", 2);
    await on.goOn(60_000);
    assert.deepEqual(on.sizes, sizes);
  }
});

test("the pod that leaves may be the one that is down: the zone loses no ready pod with it", async () => {
  const on = await Following.of({ c: {} });
  on.passes.world.kubelet.breakPod({ namespace, name: "group-b-3" });
  on.scale("a", 3);
  await on.goOn(30_000);
  assert.deepEqual(on.sizes, [3, 3, 4]);
});

test("health-bad: a pod that is asked leaves once it says yes, and one at a time", async () => {
  const on = await Following.of({ c: {} });
  const pods = new AskedPods(on.passes, ["group-b"]);
  on.passes.restart({ pods: pods.http(on.passes.cluster) });
  pods.says.set("group-b-3", critical);
  await on.passes.goOn(60_000);
  on.scale("a", 2);
  await on.goOn(60_000);
  assert.deepEqual([on.sizes, on.claims, on.passes.guard], [[2, 4, 4], [], "health-bad"]);
  assert.ok(pods.takeAsked().every((name) => name === "group-b-3"));
  pods.says.set("group-b-3", yes);
  const sizes = new Set<number | undefined>();
  for (let look = 0; look < 60; look++) {
    await on.goOn(1_000);
    sizes.add(on.sizes[1]);
  }
  assert.deepEqual([...sizes], [4, 3, 2]);
  assert.deepEqual([...new Set(pods.takeAsked())], ["group-b-3", "group-b-2"]);
});
