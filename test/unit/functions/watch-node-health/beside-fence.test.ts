/** The function beside fence-node: whose mark a fence ends with, and that no node is fenced for a mark which is out of date. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { recordName } from "../../../../functions/shared/annotations/fencing-leases.ts";
import { fencing } from "../fence-node/node-world.ts";
import { HealthWorld, others } from "./health-world.ts";

const recordKey = { namespace: fencing, name: recordName("a-0") };

/** The node is silent, marked, and its fence is armed. */
async function fenced(): Promise<HealthWorld> {
  const health = new HealthWorld();
  health.becomes("Unknown");
  await health.secondsUntil(true);
  assert.equal(await health.world.reconcile(), "not-armed");
  return health;
}

test("a silent node is marked, fenced and given back, and is not marked again for the time before", async () => {
  const health = await fenced();
  await health.goOn(300_000);
  assert.notEqual(health.markOf(), undefined, "the mark stays while its fence goes on");
  health.becomes("True", "a-0", "boot-2");
  await health.goOn(300_000);
  assert.notEqual(health.markOf(), undefined, "fence-node takes it away, and nothing else does");
  assert.equal(await health.world.reconcile(), "not-marked");
  assert.deepEqual([health.markOf(), health.world.record(), health.world.taints()], [undefined, undefined, []]);
  health.becomes("Unknown", "a-0", "boot-2");
  await health.goOn(50_000);
  assert.equal(health.markOf(), undefined);
  assert.ok([10, 20].includes((await health.secondsUntil(true)) ?? Number.NaN));
});

test("a fence that waits for a brake ends without a reset once the node was Ready for the whole time", async () => {
  const health = new HealthWorld();
  health.becomes("Unknown");
  await health.secondsUntil(true);
  for (const name of others) health.becomes("Unknown", name);
  assert.equal(await health.world.reconcile(), "storm");
  assert.equal(health.world.record()?.["fence-phase"], "claimed");
  for (const name of ["a-0", ...others]) health.becomes("True", name);
  await health.goOn(50_000);
  assert.notEqual(health.markOf(), undefined);
  assert.ok([10, 20].includes((await health.secondsUntil(false)) ?? Number.NaN));
  assert.equal(await health.world.reconcile(), "not-marked");
  assert.deepEqual([health.world.record(), health.world.armed(), health.world.taints()], [undefined, undefined, []]);
});

test("the record says how far a fence is, where the copy on the Node is behind, gone, or of another version", async () => {
  const health = await fenced();
  health.becomes("True");
  for (const phase of ["armed", "recovering", "of the future"]) {
    const annotations = { "sluice.dev/fence-phase": phase };
    health.world.harness.world.store.patch("leases", recordKey, { metadata: { annotations } });
    for (const shown of ["claimed", null]) {
      health.patch({ metadata: { annotations: { "sluice.dev/fence-phase": shown } } });
      assert.equal(await health.secondsUntil(false), undefined, `${phase}, ${shown}`);
      assert.equal(health.world.harness.guard, "fencing");
    }
  }
});

test("a node that falls silent while claims of its fence settle counts, and one whose fence goes on does not", async () => {
  for (const settles of [true, false]) {
    const health = await fenced();
    const at = (ms: number) => new Date(health.world.harness.cluster.serverTimeMs() + ms).toISOString();
    const annotations = {
      "sluice.dev/fence-phase": "recovering",
      "sluice.dev/fence-since": at(0),
      // One of an earlier fence in the same record is older than the phase.
      "sluice.dev/fence-settling": at(settles ? 1_000 : -1_000),
    };
    health.world.harness.world.store.patch("leases", recordKey, { metadata: { annotations } });
    health.patch({ metadata: { annotations: { "sluice.dev/fence-phase": null } } });
    health.setMark(null);
    const seconds = await health.secondsUntil(true);
    assert.equal(seconds !== undefined, settles, `${seconds} s`);
    assert.equal(health.world.harness.guard, settles ? "marked" : "fencing");
  }
});

test("a mark that a person takes away during a fence does not come back before the whole time has passed", async () => {
  const health = await fenced();
  health.setMark(null);
  await health.goOn(300_000);
  assert.equal(health.markOf(), undefined);
  health.world.annotate({ "sluice.dev/fence-confirmed": health.world.record()?.["fence-id"] ?? null });
  for (let rounds = 0; rounds < 20 && health.world.record() !== undefined; rounds++) {
    await health.world.reconcile();
    await health.world.harness.goOn(10_000);
  }
  assert.deepEqual([health.world.record(), health.markOf()], [undefined, undefined]);
  await health.goOn(50_000);
  assert.equal(health.markOf(), undefined);
  assert.ok([10, 20].includes((await health.secondsUntil(true)) ?? Number.NaN));
});
