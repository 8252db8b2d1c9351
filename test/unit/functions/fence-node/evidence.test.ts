/** What counts as evidence that the fenced boot is over, and what does not (invariants A2 and A3). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decided, inPhase, tainted } from "./fence-snapshots.ts";
import { armedWorld, fenceIdOf, firstBoot, type NodeWorld, node, outOfService, record } from "./node-world.ts";

const key = { namespace: "", name: node.name };
const nodeOf = ({ harness }: NodeWorld) => harness.world.store.get("nodes", key);
const confirm = (world: NodeWorld, id: string | null) => world.annotate({ "sluice.dev/fence-confirmed": id });

test("no-agent: a node without an agent gets its taint and a record, and waits for evidence", async () => {
  const world = await armedWorld({ isAgentless: true });
  assert.equal(await world.reconcile(), "no-agent");
  assert.deepEqual(world.taints(), ["sluice.dev/fence"]);
  assert.equal(world.texts()["fence-hold"], "no-agent");
});

test("a node that is silent for hours is not emptied: time is no evidence for an agent that is explicit-only", async () => {
  const world = await armedWorld();
  world.falls();
  for (let hour = 0; hour < 5; hour++) {
    await world.harness.goOn(3_600_000);
    assert.equal(await world.reconcile(), "not-armed");
  }
  assert.deepEqual(world.taints(), ["sluice.dev/fence"]);
});

test("another-machine: the boot id of another machine under the same name is no evidence, and a confirmation is", async () => {
  const world = await armedWorld();
  world.boot("boot-2", true, "machine-2");
  assert.equal(await world.reconcile(), "another-machine");
  assert.deepEqual(world.taints(), ["sluice.dev/fence"]);
  confirm(world, fenceIdOf(world));
  assert.equal(await world.reconcile(), "not-marked");
  assert.deepEqual([world.record(), world.taints()], [undefined, []], "its kubelet has the pods");
});

test("still-alive: a confirmed node that is Ready keeps its pods until its Node is not Ready", async () => {
  const world = await armedWorld();
  confirm(world, fenceIdOf(world));
  assert.equal(await world.reconcile(), "still-alive");
  assert.deepEqual(world.taints(), ["sluice.dev/fence"]);
  world.falls();
  assert.equal(await world.reconcile(), "evacuating");
  assert.deepEqual(world.taints(), ["sluice.dev/fence", outOfService]);
});

test("our out-of-service goes, and that of another client with another effect stays", async () => {
  const world = await armedWorld();
  world.falls();
  confirm(world, fenceIdOf(world));
  await world.reconcile();
  const foreign = { key: outOfService, value: "nodeshutdown", effect: "NoSchedule" };
  world.setTaints([...(nodeOf(world).spec?.taints ?? []), foreign]);
  await world.harness.goOn(60_000);
  assert.equal(await world.reconcile(), "fenced");
  world.boot("boot-2");
  await world.reconcile();
  assert.deepEqual(nodeOf(world).spec?.taints, [foreign]);
});

test("a confirmation with the id of another fence confirms nothing", async () => {
  const world = await armedWorld();
  world.falls();
  for (const id of ["", "true", "00000000-0000-0000-0000-000000000000", ` ${fenceIdOf(world)}`]) {
    confirm(world, id);
    assert.equal(await world.reconcile(), "not-armed", JSON.stringify(id));
  }
  assert.deepEqual(world.taints(), ["sluice.dev/fence"]);
});

test("out-of-service of another client is evidence, and is still on the Node when the fence has ended", async () => {
  const world = await armedWorld();
  world.falls();
  const foreign = { key: outOfService, value: "nodeshutdown", effect: "NoExecute" };
  world.setTaints([...(nodeOf(world).spec?.taints ?? []), foreign]);
  await world.reconcile();
  await world.harness.goOn(60_000);
  assert.equal(await world.reconcile(), "fenced");
  world.boot("boot-2");
  assert.equal(await world.reconcile(), "not-marked");
  assert.deepEqual(nodeOf(world).spec?.taints, [foreign]);
});

test("a confirmation that is taken back before the pods are told to go is no evidence any more", async () => {
  const world = await armedWorld();
  world.falls();
  confirm(world, fenceIdOf(world));
  world.harness.interfere = ({ verb, given: [resource, where] }) => {
    const isRecord = resource === "leases" && (where as { readonly name?: string }).name === record.name;
    if (verb === "patch" && isRecord) confirm(world, null);
  };
  assert.equal(await world.reconcile(), "not-armed");
  assert.deepEqual([world.taints(), world.record()?.["fence-evidence"]], [["sluice.dev/fence"], undefined]);
});

test("a node that reports its new boot just before the taint out-of-service is written keeps its pods", async () => {
  const world = await armedWorld();
  world.falls();
  confirm(world, fenceIdOf(world));
  world.harness.interfere = ({ verb, given: [resource, , body] }) => {
    const isOutOfService = JSON.stringify(body ?? "").includes(outOfService);
    if (
      verb === "patch" &&
      resource === "nodes" &&
      isOutOfService &&
      nodeOf(world).status?.nodeInfo?.bootID === firstBoot
    ) {
      world.boot("boot-2");
    }
  };
  assert.equal(await world.reconcile(), "not-marked");
  assert.deepEqual([world.taints(), world.record()], [[], undefined]);
  assert.ok(!world.harness.acts.some(({ action, result }) => action === "set-out-of-service" && result === "done"));
});

test("a fence whose Node is deleted waits for its pods to go, and never makes a Node", async () => {
  const world = await armedWorld();
  const { store } = world.harness.world;
  store.delete("nodes", key, {});
  assert.equal(await world.reconcile(), "node-gone");
  await world.harness.goOn(120_000);
  await world.reconcile();
  assert.equal(store.find("nodes", key), undefined);
  assert.deepEqual([world.record(), world.armed()], [undefined, undefined]);
});

test("still-alive: with evidence by time a kubelet that reports again keeps its pods, and a person's word outweighs a report", () => {
  const node = { ...tainted, isReady: false, isReporting: true, confirmed: "fence-1" };
  const byTime = decided({ record: inPhase("stopped", "time"), node });
  assert.deepEqual([byTime.guard, byTime.step?.kind], ["still-alive", "note-hold"]);
  const silent = decided({ record: inPhase("stopped", "time"), node: { ...node, isReporting: false } });
  assert.equal(silent.step?.kind, "set-out-of-service");
  const confirmed = decided({ record: inPhase("stopped", "confirmed"), node });
  assert.equal(confirmed.step?.kind, "set-out-of-service");
});
