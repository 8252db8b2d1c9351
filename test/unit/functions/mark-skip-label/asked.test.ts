/** Which owners get our finalizer: those that ask for it, and no others. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { finalizer, ownedCluster, owner } from "./owned-cluster.ts";

test("a RabbitmqCluster without the annotation gets no finalizer, loses one that an earlier version set, and goes at once if deleted", async () => {
  const world = await ownedCluster({ "sluice.dev/skip-label": null });
  const process = world.process();
  assert.deepEqual(await process.keys(), []);
  assert.equal(await process.reconcile(), "done");
  assert.equal(world.find()?.finalizers, undefined);
  const { store } = world.harness.world;
  store.patch("rabbitmqclusters", owner, { metadata: { finalizers: ["example.com/other", finalizer] } });
  assert.deepEqual(await process.keys(), [owner.name], "a sweep finds it");
  await process.reconcile();
  assert.deepEqual(world.find()?.finalizers, ["example.com/other"]);
  assert.ok(world.harness.verdicts.some(({ guard }) => guard === "letting-alone"));
  store.patch("rabbitmqclusters", owner, { metadata: { finalizers: [finalizer] } });
  world.remove();
  await process.reconcile();
  assert.equal(world.find(), undefined);
  assert.deepEqual(world.labels(), {}, "its operator labels its pods itself");
});

test("Sluice holds a RabbitmqCluster whose annotation it cannot read, and stop-all alone gives its pods the label of its operator", async () => {
  const owned = await ownedCluster({ "sluice.dev/skip-label": "let go" });
  await owned.process().reconcile();
  assert.deepEqual(owned.find()?.finalizers, [finalizer]);
  const stopped = await ownedCluster({ "sluice.dev/skip-label": null, "sluice.dev/stop-all": "true" });
  await stopped.process().reconcile();
  assert.deepEqual(stopped.labels(), { 0: "true", 1: "true", 2: "true" });
});

test("an owner that asks by a label, and not by the annotation, gets no finalizer and one Event that says so", async () => {
  const world = await ownedCluster({ "sluice.dev/skip-label": null });
  const labels = { "sluice.dev/skip-label": "skipPreStopChecks" };
  world.harness.world.store.patch("rabbitmqclusters", owner, { metadata: { labels } });
  const process = world.process();
  assert.deepEqual(await process.keys(), [owner.name], "a sweep finds it");
  for (let round = 0; round < 2; round++) assert.equal(await process.reconcile(), "done");
  assert.equal(world.find()?.finalizers, undefined);
  assert.deepEqual(
    world.harness.events.filter((event) => event.startsWith("MisplacedKey")),
    [
      'MisplacedKey orders: label sluice.dev/skip-label is "skipPreStopChecks", but Sluice reads this key only as annotation: move it there. Until then: nothing is done.',
    ],
  );
});
