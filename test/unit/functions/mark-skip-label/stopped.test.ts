/** The pods of an owner that is not deleted are labelled as long as it asks for that (invariant M1). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { finalizer, ownedCluster, owner, statefulSet } from "./owned-cluster.ts";

const all = { 0: "true", 1: "true", 2: "true" };

test("stop-all labels the pods of a live owner, and Sluice removes the labels when a user withdraws stop-all", async () => {
  const world = await ownedCluster();
  const process = world.process();
  await process.reconcile();
  world.annotate({ "sluice.dev/stop-all": "true" });
  assert.equal(await process.reconcile(), "stopping");
  assert.deepEqual(world.labels(), all);
  assert.equal(world.status()?.guard, "stopping");
  world.annotate({ "sluice.dev/stop-all": null });
  world.harness.forget();
  assert.equal(await world.process().reconcile(), "labels-withdrawn");
  assert.deepEqual([world.labels(), world.status()?.guard], [{}, "labels-withdrawn"]);
  assert.match(world.harness.events.join("\n"), /SkipLabelsRemoved orders: labels-withdrawn/);
});

test("Sluice removes the label that pods got, although the owner now asks for another label", async () => {
  const world = await ownedCluster({ "sluice.dev/stop-all": "true" });
  await world.process().reconcile();
  world.annotate({ "sluice.dev/stop-all": null, "sluice.dev/skip-label": "example.com/another" });
  await world.process().reconcile();
  await world.process().reconcile();
  assert.deepEqual(world.labels(), {});
});

test("Sluice also removes a label whose write was under way when stop-all was withdrawn, and stops to search for such labels after a minute", async () => {
  const world = await ownedCluster({ "sluice.dev/stop-all": "true" });
  await world.process().reconcile();
  world.annotate({ "sluice.dev/stop-all": null });
  await world.process().reconcile();
  await world.harness.goOn(40_000);
  const late = {
    labels: { skipPreStopChecks: "true" },
    annotations: { "sluice.dev/skip-labelled-at": "2026-01-01T00:00:00Z" },
  };
  world.harness.world.store.patch("pods", { namespace: owner.namespace, name: "group-server-0" }, { metadata: late });
  assert.equal(await world.process().reconcile(), "labels-withdrawn");
  assert.deepEqual(world.labels(), {});
  world.annotate({ "sluice.dev/stop-all": "true" });
  await world.harness.goOn(40_000);
  assert.equal(await world.process().reconcile(), "stopping");
  world.annotate({ "sluice.dev/stop-all": null });
  assert.equal(await world.process().reconcile(), "labels-withdrawn", "the minute begins anew");
  await world.harness.goOn(61_000);
  assert.equal(await world.process().reconcile(), "done");
  assert.deepEqual([world.labels(), world.status()], [{}, undefined]);
});

test("a live owner with stop-all gets our finalizer like any other, because it may be deleted next", async () => {
  const world = await ownedCluster({ "sluice.dev/stop-all": "true" });
  assert.equal(await world.process().reconcile(), "stopping");
  assert.deepEqual([world.find()?.finalizers, world.labels()], [[finalizer], all]);
  assert.equal(await world.process({ skipLabelFinalizer: "remove" }).reconcile(), "stopping");
  assert.deepEqual([world.find()?.finalizers ?? [], world.labels()], [[], all]);
  world.annotate({ "sluice.dev/skip-label": "let go" }, statefulSet);
  world.annotate({ "sluice.dev/stop-all": "true" }, statefulSet);
  world.harness.world.store.patch("statefulsets", statefulSet, { metadata: { finalizers: [finalizer] } });
  await world.process().reconcile(statefulSet);
  assert.deepEqual(world.find(statefulSet)?.finalizers, [finalizer], "Sluice cannot tell what it asks for");
});

test("Sluice removes our label again, however far ahead the clock of the process was that wrote it", async () => {
  const world = await ownedCluster({ "sluice.dev/stop-all": "true" });
  await world.process().reconcile();
  const ahead = new Date(world.harness.timeline.nowMs() + 28_000).toISOString();
  const pod = { namespace: owner.namespace, name: "group-server-0" };
  world.harness.world.annotate(pod, { "sluice.dev/skip-labelled-at": ahead }, "pods");
  world.annotate({ "sluice.dev/stop-all": null });
  assert.equal(await world.process().reconcile(), "labels-withdrawn");
  assert.deepEqual(world.labels(), {});
});
