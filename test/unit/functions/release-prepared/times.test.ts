/** `grafana.com/last-downscale` on StatefulSets: only if it is asked for, and never close to a change. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { releasePrepared } from "../../../../functions/release-prepared/function.ts";
import { key, namespace, played, refused } from "../../shared/reconcile/harness.ts";
import { type Downscales, type Process, preparedGroup } from "../prepare-downscale/downscales.ts";

const annotation = "grafana.com/last-downscale";
const setName = { namespace, name: "group-a" };

/** A zone that has been made smaller, and whose pods are gone. The ledger does not have the time of its claim yet. */
async function lowered(): Promise<Downscales> {
  const world = await preparedGroup();
  assert.equal(await world.process().guard("group-a", 3), "allowed");
  world.scale("group-a", 3);
  await world.harness.goOn(40_000);
  return world;
}

function writing(world: Downscales, writesLastDownscale = true): Process {
  return world.process(() => ({ settings: { writesLastDownscale } }));
}

function written(world: Downscales): string | undefined {
  return world.harness.world.store.get("statefulsets", setName).metadata.annotations?.[annotation];
}

/** When the next reconcile is due. */
async function requeue(world: Downscales, process: Process): Promise<number | undefined> {
  const { harness } = world;
  const outcome = await played(harness.timeline, releasePrepared.reconcile(process.context, key, { sweep: true }));
  return outcome.requeueAfterMs;
}

/** An entry of a subresource's manager, as an API server stamps it `agoMs` before now. */
function stamp(world: Downscales, agoMs: number, subresource?: string): void {
  const time = new Date(world.harness.cluster.serverTimeMs() - agoMs).toISOString().replace(/\.\d+Z$/, "Z");
  const managedFields = [{ manager: "kubectl", operation: "Update", time, subresource }];
  world.harness.world.store.patch("statefulsets", setName, { metadata: { managedFields } as object });
}

test("without the setting Sluice writes to no StatefulSet", async () => {
  const world = await lowered();
  for (const process of [world.process(), writing(world, false)]) {
    await process.sweep();
    await world.harness.goOn(120_000);
    await process.sweep();
    assert.deepEqual(process.writes().includes("patch statefulsets"), false);
  }
  assert.equal(written(world), undefined);
});

test("Sluice writes the ledger's time a minute after it allowed the downscale, if the claim is over", async () => {
  const world = await lowered();
  const process = writing(world);
  const inMs = await requeue(world, process);
  assert.ok(inMs !== undefined && inMs > 0 && inMs <= 20_000, `${inMs}`);
  await world.harness.goOn(inMs - 200);
  await process.sweep();
  assert.equal(written(world), undefined);
  await world.harness.goOn(220);
  await process.sweep();
  const at = Date.parse(written(world) ?? "");
  const time = world.harness.ledger.lastDownscales?.["group-a"] ?? 0;
  assert.ok(at >= time && at < time + 1_000, `${at} of ${time}`);
  const before = process.calls.length;
  await process.sweep();
  assert.ok(!process.calls.slice(before).some(({ verb, resource }) => verb === "patch" && resource === "statefulsets"));
});

test("a process that starts with the setting finds the times of downscales that ended long before", async () => {
  const world = await lowered();
  await world.process().sweep();
  await world.harness.goOn(600_000);
  assert.deepEqual(world.claims, []);
  const listed = (process: Process) =>
    played(world.harness.timeline, releasePrepared.listKeys(process.context, undefined));
  assert.deepEqual(await listed(writing(world, false)), []);
  const process = writing(world);
  assert.deepEqual(await listed(process), [key]);
  await process.sweep();
  assert.notEqual(written(world), undefined);
});

test("a process that begins beside a new ledger comes back by itself when it may use it, and then when it may write", async () => {
  const world = await lowered();
  await world.process().sweep();
  const { harness } = world;
  const { store } = harness.world;
  const [{ metadata, spec } = assert.fail()] = store.list("leases").items;
  const { name, labels, annotations } = metadata;
  store.delete("leases", { namespace, name }, {});
  store.create("leases", namespace, { metadata: { name, labels, annotations }, spec } as never);
  const process = writing(world);
  const usableMs = await requeue(world, process);
  assert.ok(usableMs !== undefined && usableMs > 0 && usableMs <= 10_000, `${usableMs}`);
  await harness.goOn(usableMs);
  const writableMs = await requeue(world, process);
  assert.ok(writableMs !== undefined && writableMs > 0 && writableMs <= 20_000, `${writableMs}`);
  assert.equal(written(world), undefined);
  await harness.goOn(writableMs);
  await process.sweep();
  assert.notEqual(written(world), undefined);
});

test("a change by another client delays the write by a minute; a change of the status does not", async () => {
  const world = await lowered();
  const process = writing(world);
  await process.sweep();
  await world.harness.goOn(60_000);
  stamp(world, 10_000);
  const inMs = await requeue(world, process);
  assert.ok(inMs !== undefined && inMs > 49_000 && inMs < 52_000, `${inMs}`);
  assert.equal(written(world), undefined);
  stamp(world, 0, "status");
  await process.sweep();
  assert.notEqual(written(world), undefined);
});

test("while the downscale goes on Sluice writes nothing, and leaves a value that it cannot read to its owner", async () => {
  const world = await lowered();
  const process = writing(world);
  await process.sweep();
  await world.harness.goOn(61_000);
  assert.equal(await world.process().guard("group-a", 2), "allowed");
  await process.sweep();
  assert.equal(written(world), undefined);
  world.annotate("group-a", { [annotation]: "yesterday" });
  world.scale("group-a", 2);
  await world.harness.goOn(120_000);
  await process.sweep();
  await process.sweep();
  assert.deepEqual([world.claims, written(world)], [[], "yesterday"]);
});

test("if a client changes the StatefulSet meanwhile, its change stands; Sluice reports a refused write, which delays nothing", async () => {
  for (const [code, isReported] of [
    [409, false],
    [403, true],
  ] as const) {
    const world = await lowered();
    const process = writing(world);
    await process.sweep();
    await world.harness.goOn(61_000);
    process.interfere = ({ verb, resource }) => {
      if (verb === "patch" && resource === "statefulsets") throw refused(code, "a webhook says no");
    };
    assert.equal(await requeue(world, process), 60_000);
    const problems = world.harness.problems.filter((message) => /could not be written to its annotation/.test(message));
    assert.equal(problems.length > 0, isReported);
    process.interfere = () => {};
    await process.sweep();
    assert.notEqual(written(world), undefined);
  }
});
