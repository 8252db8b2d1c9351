/** A zone gives up pods only while the remaining ones are healthy (Z2), and pods that are asked have said yes (Q1). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { AskedPods, critical, yes } from "../../shared/health/asked-pods.ts";
import { namespace } from "../../shared/reconcile/harness.ts";
import { Following } from "./following.ts";

const lowest = { namespace, name: "group-b-0" };
const message = /^group-b is to go to 3 replicas, and waits: group-b-0 is not ready, and group-b is OrderedReady: /;

test("ordinal-not-ready: follow-replicas claims and lowers nothing while a pod below is broken, and names that pod", async () => {
  for (const isReviewed of [false, true]) {
    const on = await Following.of({ c: {} }, { podManagementPolicy: "OrderedReady" });
    if (isReviewed) on.label("b", { "prepare-downscale": "true" });
    on.harness.world.kubelet.breakPod(lowest);
    on.scale("a", 3);
    await on.goOn(60_000);
    assert.deepEqual([on.sizes, on.claims, on.harness.guard], [[3, 4, 4], [], "ordinal-not-ready"]);
    assert.match(on.harness.verdicts.at(-1)?.message ?? "", message);
    assert.equal(on.harness.count("patch statefulsets"), 0);
    on.harness.world.kubelet.healPod(lowest);
    await on.goOn(60_000);
    assert.deepEqual(on.sizes, [3, 3, 4]);
  }
});

test("budget: if pods may go in any order, none goes while this would make more pods unavailable than the budget allows", async () => {
  for (const [maxUnavailable, sizes] of [
    [1, [2, 4, 4]],
    [2, [2, 2, 4]],
  ] as const) {
    const on = await Following.of({ c: {} }, { maxUnavailable });
    on.harness.world.kubelet.breakPod(lowest);
    on.scale("a", 2);
    await on.goOn(60_000);
    assert.deepEqual(on.sizes, sizes);
  }
});

test("the leaving pod may be the unavailable one, because the zone then loses no ready pod", async () => {
  const on = await Following.of({ c: {} });
  on.harness.world.kubelet.breakPod({ namespace, name: "group-b-3" });
  on.scale("a", 3);
  await on.goOn(30_000);
  assert.deepEqual(on.sizes, [3, 3, 4]);
});

test("health-bad: pods that are asked leave one at a time, as soon as they say yes", async () => {
  const on = await Following.of({ c: {} });
  const pods = new AskedPods(on.harness, ["group-b"]);
  on.harness.restart({ pods: pods.http(on.harness.cluster) });
  pods.replies.set("group-b-3", critical);
  await on.harness.goOn(60_000);
  on.scale("a", 2);
  await on.goOn(60_000);
  assert.deepEqual([on.sizes, on.claims, on.harness.guard], [[2, 4, 4], [], "health-bad"]);
  assert.ok(pods.takeAsked().every((name) => name === "group-b-3"));
  pods.replies.set("group-b-3", yes);
  const sizes = new Set<number | undefined>();
  for (let round = 0; round < 60; round++) {
    await on.goOn(1_000);
    sizes.add(on.sizes[1]);
  }
  assert.deepEqual([...sizes], [4, 3, 2]);
  assert.deepEqual([...new Set(pods.takeAsked())], ["group-b-3", "group-b-2"]);
});
