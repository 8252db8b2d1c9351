/** A fence from the mark to the end: what each phase writes, and that nothing of it is left. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decided, inPhase, tainted } from "./fence-snapshots.ts";
import {
  agent,
  armedWorld,
  fenceIdOf,
  fencing,
  firstBoot,
  nodeWorld,
  outOfService,
  pod,
  record,
  slots,
} from "./node-world.ts";

const store = (world: ReturnType<typeof nodeWorld>) => world.harness.world.store;

test("a node without the mark gets no record, no taint and no text", async () => {
  const world = nodeWorld();
  assert.equal(await world.reconcile(), "not-marked");
  assert.deepEqual([world.record(), world.taints(), world.texts(), world.harness.acts], [undefined, [], {}, []]);
});

test("a marked node gets the record first, then the taint, and only then the fence is armed for its agent", async () => {
  const world = nodeWorld();
  world.annotate({ "sluice.dev/unhealthy": "disk failed" });
  assert.equal(await world.reconcile(), "not-armed");
  const written = world.harness.acts.map(({ action }) => action);
  assert.deepEqual(written, ["claim", "take-slot", "taint", "note-agent", "arm", "enter", "note-hold", "show"]);
  const id = fenceIdOf(world);
  assert.equal(world.armed(), `${id} ${firstBoot}`);
  assert.deepEqual(world.taints(), ["sluice.dev/fence"]);
  assert.deepEqual(world.texts(), {
    unhealthy: "disk failed",
    "fence-id": id,
    "fence-phase": "armed",
    "fence-hold": "not-armed",
  });
});

test("a node that comes back with another boot id keeps its pods, and nothing of the fence is left", async () => {
  const world = await armedWorld();
  const { uid } = store(world).get("pods", pod).metadata;
  world.boot("boot-2");
  assert.equal(await world.reconcile(), "not-marked");
  assert.equal(store(world).get("pods", pod).metadata.uid, uid);
  assert.deepEqual([world.record(), world.armed(), world.taints(), world.texts()], [undefined, undefined, [], {}]);
  assert.ok(!world.harness.acts.some(({ action }) => action === "set-out-of-service"));
});

test("a node that reported another boot keeps its pods, also if its Node is then made anew without a status, or is gone", () => {
  const stopped = inPhase("stopped", "boot-id");
  const anew = { ...tainted, uid: "another", bootId: "", systemUuid: "", isReady: false };
  for (const node of [anew, undefined]) {
    const { step } = decided({ record: stopped, node });
    assert.deepEqual(step, { kind: "enter", record: stopped, phase: "recovering" });
  }
});

test("after a confirmation Kubernetes is told that the pods have ended, and our out-of-service goes when they are gone", async () => {
  const world = await armedWorld();
  world.falls();
  assert.equal(await world.reconcile(), "not-armed");
  world.annotate({ "sluice.dev/fence-confirmed": fenceIdOf(world) });
  assert.equal(await world.reconcile(), "evacuating");
  assert.deepEqual(world.taints(), ["sluice.dev/fence", outOfService]);
  await world.harness.goOn(60_000);
  assert.equal(await world.reconcile(), "fenced");
  assert.deepEqual(world.taints(), ["sluice.dev/fence"]);
  world.boot("boot-2");
  assert.equal(await world.reconcile(), "not-marked");
  assert.deepEqual([world.record(), world.armed(), world.taints(), world.texts()], [undefined, undefined, [], {}]);
});

test("a fence ends with the mark taken away while the machine stays off", async () => {
  const world = await armedWorld();
  world.falls();
  world.annotate({ "sluice.dev/fence-confirmed": fenceIdOf(world) });
  await world.reconcile();
  await world.harness.goOn(60_000);
  await world.reconcile();
  world.annotate({ "sluice.dev/unhealthy": null });
  assert.equal(await world.reconcile(), "not-marked");
  assert.deepEqual([world.record(), world.taints(), world.texts()], [undefined, [], {}]);
});

test("a sweep finds a node by its mark, and a record whose Node is gone", async () => {
  const world = await armedWorld();
  const { fenceNode } = await import("../../../../functions/fence-node/function.ts");
  const { played } = await import("../../shared/reconcile/harness.ts");
  const keys = () => played(world.harness.timeline, fenceNode.listKeys(world.harness.context, undefined));
  assert.deepEqual(await keys(), [{ resource: "nodes", namespace: "", name: "a-0" }]);
  store(world).delete("nodes", { namespace: "", name: "a-0" }, {});
  assert.deepEqual(await keys(), [{ resource: "nodes", namespace: "", name: "a-0" }]);
  store(world).delete("leases", record, {});
  store(world).delete("leases", agent, {});
  store(world).delete("leases", slots, {});
  assert.deepEqual(await keys(), []);
  assert.equal(store(world).list("leases", { namespace: fencing }).items.length, 0);
});
