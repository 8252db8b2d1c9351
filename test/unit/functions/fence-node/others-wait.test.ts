/** While a fence is announced, the functions that take pods of the group wait for it; once its pods are back, they go on. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fenceNode } from "../../../../functions/fence-node/function.ts";
import { played, refused } from "../../shared/reconcile/harness.ts";
import { addBudget, Replica } from "../evaluate-eviction/group-commit/reviews.ts";
import { type GovernedWorld, governedWorld, second } from "./governed-world.ts";
import { node, pod } from "./node-world.ts";

/** One process of the fence that lives on, and is reconciled as it asks. */
async function live(world: GovernedWorld, isOver: () => boolean | Promise<boolean>): Promise<void> {
  const { harness } = world;
  for (let reconciles = 0; reconciles < 200; reconciles++) {
    if (await isOver()) return;
    const result = await played(harness.timeline, fenceNode.reconcile(harness.context, node, { sweep: false }));
    await harness.goOn(Math.min(1_000, result.requeueAfterMs ?? 1_000));
  }
  assert.fail("it does not end");
}

test("zone-losing-node: an eviction and a rollout in another zone wait from before the taint, and go on within 10 s of the pods' return", async () => {
  const world = await governedWorld();
  const { harness } = world;
  addBudget(harness);
  const replica = new Replica(harness);
  const evict = async () => (await replica.answer(replica.review("group-b-0"))).guard;
  const roll = async () => {
    await harness.run(true);
    return harness.guard;
  };
  harness.interfere = ({ verb, given: [resource] }) => {
    if (verb === "patch" && resource === "nodes") throw refused(500);
  };
  world.annotate({ "sluice.dev/unhealthy": "disk failed" });
  await assert.rejects(world.reconcile());
  harness.interfere = () => {};
  assert.deepEqual([world.claims(second.group).length, world.taints()], [1, []]);
  assert.equal(await evict(), "zone-losing-node");
  harness.changeImage("app:2");
  await harness.goOn(1_000);
  assert.equal(await roll(), "zone-losing-node");

  await world.reconcile();
  assert.deepEqual(world.taints(), ["sluice.dev/fence"]);
  world.falls();
  await harness.goOn(20_000);
  world.returns("boot-2");
  const isReady = () => {
    const { status } = harness.world.store.get("pods", pod);
    return status.conditions?.some(({ type, status: value }) => type === "Ready" && value === "True") === true;
  };
  await live(world, isReady);
  const readyMs = harness.timeline.nowMs();
  await live(world, async () => (await evict()) === "allowed");
  const tookMs = harness.timeline.nowMs() - readyMs;
  assert.ok(tookMs <= 10_000, `${tookMs} ms`);
  assert.deepEqual(world.claims(second.group), []);
});
