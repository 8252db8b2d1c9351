/** The Events of a fence on its Node: each once for each fence, also while it waits for days. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { hourMs } from "../../../../functions/shared/clock/durations.ts";
import { armedWorld, fenceIdOf, type NodeWorld, nodeWorld } from "./node-world.ts";

const eventsOf = (world: NodeWorld) =>
  world.harness.world.store.list("events").items.map(({ reason = "", message = "" }) => ({ reason, message }));
/** In no order, because their names are digests. */
const reasonsOf = (world: NodeWorld) =>
  eventsOf(world)
    .map(({ reason }) => reason)
    .sort();
const messageOf = (world: NodeWorld, wanted: string) =>
  eventsOf(world).find(({ reason }) => reason === wanted)?.message;

test("a fence sends an Event when it is requested, armed, waits, has evidence, moves the pods, and has ended", async () => {
  const world = await armedWorld();
  world.falls();
  world.annotate({ "sluice.dev/fence-confirmed": fenceIdOf(world) });
  await world.reconcile();
  await world.harness.goOn(60_000);
  await world.reconcile();
  world.boot("boot-2");
  await world.reconcile();
  const sent = ["FenceRequested", "FenceArmed", "FenceHeld", "FenceStopped", "FenceEvacuating", "FenceDone"];
  assert.deepEqual(reasonsOf(world), sent.sort());
  assert.match(messageOf(world, "FenceRequested") ?? "", /^a fence of a-0 begins: disk failed$/);
  assert.match(messageOf(world, "FenceHeld") ?? "", /^not-armed: /);
  assert.match(messageOf(world, "FenceStopped") ?? "", /^stopped: a-0 has stopped: .*fence-confirmed has the id/);
});

test("FenceRequested comes once for each fence, so that a second one of a Node is reported as well", async () => {
  const world = await armedWorld();
  world.boot("boot-2");
  await world.reconcile();
  world.annotate({ "sluice.dev/unhealthy": "again" });
  await world.reconcile();
  assert.deepEqual(
    eventsOf(world)
      .flatMap(({ reason, message }) => (reason === "FenceRequested" ? [message] : []))
      .sort(),
    ["a fence of a-0 begins: again", "a fence of a-0 begins: disk failed"],
  );
});

test("a fence that waits sends no other Event for days, whichever process reconciles it", async () => {
  const world = await armedWorld();
  const before = reasonsOf(world);
  assert.deepEqual(before, ["FenceArmed", "FenceHeld", "FenceRequested"]);
  for (let hour = 0; hour < 72; hour += 6) {
    await world.harness.goOn(6 * hourMs);
    await world.reconcile();
  }
  assert.deepEqual(reasonsOf(world), before);
});

test("pods that do not go are named by FenceStuck, and a Node that excludes itself by FenceRefused", async () => {
  const world = await armedWorld();
  world.falls();
  world.annotate({ "sluice.dev/fence-confirmed": fenceIdOf(world) });
  const { store } = world.harness.world;
  store.create("volumeattachments", "", { metadata: { name: "stuck" }, spec: { nodeName: "a-0" } });
  await world.reconcile();
  await world.harness.goOn(6 * 60_000);
  await world.reconcile();
  assert.match(messageOf(world, "FenceStuck") ?? "", /VolumeAttachment stuck/);
  const excluded = nodeWorld();
  excluded.annotate({ "sluice.dev/unhealthy": "disk failed", "sluice.dev/fence": "never" });
  await excluded.reconcile();
  await excluded.reconcile();
  assert.deepEqual(reasonsOf(excluded), ["FenceRefused"]);
});

test("a Node that is deleted and made again has NodeDeleted and NodeRestored", async () => {
  const world = nodeWorld();
  world.annotate({ "sluice.dev/unhealthy": "disk failed", "sluice.dev/fence-strategy": "node-deletion" });
  await world.reconcile();
  world.falls();
  world.annotate({ "sluice.dev/fence-confirmed": fenceIdOf(world) });
  await world.reconcile();
  await world.harness.goOn(120_000);
  await world.reconcile();
  const sent = reasonsOf(world).filter((reason) => reason.startsWith("Node"));
  assert.deepEqual(sent, ["NodeDeleted", "NodeRestored"]);
});

test("the evidence of a fence is counted once, with the time since it was armed", async () => {
  const world = await armedWorld();
  await world.harness.goOn(30_000);
  world.boot("boot-2");
  await world.reconcile();
  const [{ evidence, seconds = 0 } = { evidence: undefined }, ...more] = world.harness.evidence;
  assert.deepEqual([evidence, more], ["boot-id", []]);
  assert.ok(seconds >= 30 && seconds < 40, `${seconds} s`);
});

test("a machine that was started anew before its fence was armed counts, without a time", async () => {
  const world = nodeWorld();
  world.annotate({ "sluice.dev/unhealthy": "disk failed" });
  world.harness.interfere = ({ verb, given: [resource] }) => {
    if (verb === "create" && resource === "leases") world.boot("boot-2");
  };
  await world.reconcile();
  assert.deepEqual(world.harness.evidence, [{ evidence: "boot-id", seconds: undefined }]);
});
