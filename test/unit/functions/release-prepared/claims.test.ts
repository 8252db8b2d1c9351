/**
 * How claims of prepared downscales end: they are over, they stay, or a process takes them back, whichever process that is
 * (rule R20).
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { releasePrepared } from "../../../../functions/release-prepared/function.ts";
import { key, played } from "../../shared/reconcile/harness.ts";
import { type Downscales, preparedGroup } from "../prepare-downscale/downscales.ts";

async function neverCame(): Promise<Downscales> {
  const world = await preparedGroup();
  assert.equal(await world.process().guard("group-a", 3), "allowed");
  await world.harness.goOn(91_000);
  return world;
}

test("downscale-under-way: while the change may still come, or pods leave, the claim stands", async () => {
  const world = await preparedGroup();
  const process = world.process();
  assert.equal(await process.guard("group-a", 3), "allowed");
  await world.harness.goOn(89_000);
  assert.equal(await process.sweep(), "downscale-under-way");
  world.scale("group-a", 3);
  await world.harness.goOn(5);
  assert.equal(await process.sweep(), "downscale-under-way");
  assert.deepEqual(world.claimed, ["group-a confirmed"]);
});

test("downscale-taken-back: while Sluice tells the pods to stay, no review joins the claim", async () => {
  const world = await neverCame();
  const seen: string[][] = [];
  world.reply = () => {
    seen.push(world.claimed);
    return undefined;
  };
  assert.equal(await world.process().sweep(), "downscale-taken-back");
  assert.deepEqual(seen, [["group-a undoing"], ["group-a undoing"]]);
  assert.deepEqual([world.claimed, world.prepared.size], [[], 0]);
  assert.match(
    world.harness.events.join("\n"),
    /DownscaleTakenBack group-a: downscale-taken-back: the downscale of group-a/,
  );
});

test("prepared-untold: while a pod does not answer its DELETE, the claim stays and the pod is asked again", async () => {
  const world = await neverCame();
  world.reply = (pod) => (pod === "group-a-3" ? { status: 500 } : undefined);
  const process = world.process();
  assert.equal(await process.sweep(), "prepared-untold");
  assert.deepEqual(world.claimed, ["group-a undoing"]);
  assert.equal(await process.guard("group-a", 3), "zone-scaling-down", "it cannot be joined");
  assert.equal(await process.sweep(), "downscale-under-way", "the process that began may still be at it");
  await world.harness.goOn(8_000);
  world.reply = () => undefined;
  assert.equal(await process.sweep(), "downscale-taken-back");
  assert.deepEqual([world.claimed, world.prepared.size], [[], 0]);
});

test("one Event for each claim says which pod does not yet know that it stays", async () => {
  const world = await neverCame();
  world.reply = () => ({ status: 500 });
  for (let sweeps = 0; sweeps < 3; sweeps++) {
    assert.equal(await world.process().sweep(), "prepared-untold");
    await world.harness.goOn(20_000);
  }
  const unnotified = world.harness.events.filter((event) => event.startsWith("PreparedPodsUntold"));
  assert.equal(unnotified.length, 1);
});

test("a pod without the DELETE endpoint has nothing to take back", async () => {
  for (const status of [204, 404, 405, 409]) {
    const world = await neverCame();
    world.reply = () => ({ status });
    assert.equal(await world.process().sweep(), "downscale-taken-back", String(status));
  }
});

test("claim-gone: of two processes one ends the claim, and the other does nothing more", async () => {
  const world = await neverCame();
  const [one, other] = [world.process(), world.process()];
  let isFirst = true;
  one.interfere = ({ verb, resource }) => {
    if (!isFirst || verb !== "patch" || resource !== "leases") return;
    isFirst = false;
    world.harness.writeLedger({ "sluice.dev/claims": "" });
  };
  assert.equal(await one.sweep(), "claim-gone");
  assert.equal(await other.sweep(), undefined);
  assert.deepEqual(world.claimed, []);
});

test("ledger-contended: a process that meets another writer at each attempt tells no pod, and reconciles again", async () => {
  const world = await neverCame();
  const process = world.process();
  let writes = 0;
  process.interfere = ({ verb, resource }) => {
    if (verb === "patch" && resource === "leases") world.harness.writeLedger({ "example.com/other": String(++writes) });
  };
  assert.equal(await process.sweep(), "ledger-contended");
  assert.deepEqual([writes, world.prepared.size], [5, 2]);
});

test("shadow mode changes no claim", async () => {
  const world = await neverCame();
  const shadow = world.process(() => ({ mode: "shadow" }));
  await shadow.sweep();
  assert.deepEqual([world.claimed, shadow.calls], [["group-a confirmed"], []]);
});

test("a sweep finds every ledger that holds a claim, for each kind of group, and no other", async () => {
  const world = await preparedGroup();
  const process = world.process();
  const keys = (of?: string) =>
    played(world.harness.timeline, Promise.resolve(releasePrepared.listKeys(process.context, of)));
  assert.deepEqual(await keys(), []);
  assert.equal(await process.guard("group-a", 4), "allowed");
  assert.deepEqual(await keys("db"), [key]);
  assert.deepEqual(await keys("other"), []);
});

test("frequent triggers read the ledger once in five seconds", async () => {
  const world = await preparedGroup();
  const process = world.process();
  const { timeline } = world.harness;
  const trigger = () => played(timeline, releasePrepared.reconcile(process.context, key, { sweep: false }));
  await trigger();
  const { requeueAfterMs, absorbsEvents } = await trigger();
  const reads = process.calls.filter(({ resource }) => resource === "leases").length;
  assert.deepEqual([reads, absorbsEvents], [1, true]);
  assert.ok((requeueAfterMs ?? 0) > 0 && (requeueAfterMs ?? 0) <= 5_000);
});

test("while a claim stands, each event of the group causes a read half a second later, because the event may end the claim", async () => {
  const world = await preparedGroup();
  const process = world.process();
  const trigger = () =>
    played(world.harness.timeline, releasePrepared.reconcile(process.context, key, { sweep: false }));
  assert.equal(await process.guard("group-a", 4), "allowed");
  await trigger();
  world.scale("group-a", 4);
  await world.harness.goOn(10);
  const { requeueAfterMs = 0, absorbsEvents } = await trigger();
  assert.ok(requeueAfterMs > 0 && requeueAfterMs <= 500 && absorbsEvents, `${requeueAfterMs}`);
  await world.harness.goOn(500);
  await trigger();
  assert.deepEqual(world.claimed, []);
});

test("Sluice takes back a claim at its time, although a reconcile has just read the ledger", async () => {
  const world = await preparedGroup();
  const process = world.process();
  const { timeline } = world.harness;
  assert.equal(await process.guard("group-a", 4), "allowed");
  const trigger = () => played(timeline, releasePrepared.reconcile(process.context, key, { sweep: false }));
  await world.harness.goOn(89_000);
  const { requeueAfterMs = 0 } = await trigger();
  assert.ok(requeueAfterMs > 0 && requeueAfterMs <= 1_100, `due in ${requeueAfterMs} ms`);
  const { requeueAfterMs: again = 0 } = await trigger();
  assert.ok(again > 0 && again <= requeueAfterMs, `due in ${again} ms`);
  await world.harness.goOn(again);
  const { requeueAfterMs: rest = 0 } = await trigger();
  await world.harness.goOn(rest);
  await trigger();
  assert.deepEqual([world.requests, world.claimed], [["POST group-a-4", "DELETE group-a-4"], []]);
});
