/** Fences of Nodes whose strategy is node-deletion, in whole reconciles (invariants A2, A3, A5, A6 and A7). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { refused } from "../../shared/reconcile/harness.ts";
import { armedWorld, fenceIdOf, type NodeWorld, node, outOfService, pod, record } from "./node-world.ts";

const key = { namespace: "", name: node.name };
const storeOf = ({ harness }: NodeWorld) => harness.world.store;
const nodeOf = (world: NodeWorld) => storeOf(world).find("nodes", key);
const actsOf = ({ harness }: NodeWorld) =>
  harness.acts.filter(({ result }) => result === "done").map(({ action }) => action);
const others = {
  labels: { "topology.kubernetes.io/zone": "a" },
  annotations: { "example.com/note": "kept" },
};
const foreign = { key: "example.com/dedicated", value: "db", effect: "NoSchedule" };

/** A silent node whose fence is armed, with texts of others, and with a confirmation. */
async function confirmedWorld(strategy = "node-deletion"): Promise<NodeWorld> {
  const world = await armedWorld();
  storeOf(world).patch("nodes", key, { metadata: others, spec: { unschedulable: true } });
  world.setTaints([...(nodeOf(world)?.spec?.taints ?? []), foreign]);
  world.annotate({ "sluice.dev/fence-strategy": strategy });
  world.falls();
  world.annotate({ "sluice.dev/fence-confirmed": fenceIdOf(world) });
  return world;
}

/** The same, whose Node is deleted and whose pods are gone. */
async function restoredWorld(): Promise<NodeWorld> {
  const world = await confirmedWorld();
  assert.equal(await world.reconcile(), "deleted");
  await world.harness.goOn(120_000);
  await world.reconcile();
  assert.ok(nodeOf(world));
  return world;
}

const isKept = (world: NodeWorld) => {
  const { metadata, spec } = nodeOf(world) ?? assert.fail("the Node is gone");
  assert.equal(metadata.labels?.["topology.kubernetes.io/zone"], "a");
  assert.equal(metadata.annotations?.["example.com/note"], "kept");
  assert.deepEqual([spec?.unschedulable, spec?.taints?.filter((one) => one.key === foreign.key)], [true, [foreign]]);
};

test("a confirmed Node is backed up and deleted, and made again when its pods are gone, without out-of-service", async () => {
  const world = await confirmedWorld();
  const { uid } = nodeOf(world)?.metadata ?? assert.fail();
  assert.equal(await world.reconcile(), "deleted");
  assert.equal(nodeOf(world), undefined);
  assert.match(world.record()?.["node-backup"] ?? "", /"example.com\/note":"kept"/);
  await world.harness.goOn(120_000);
  assert.equal(await world.reconcile(), "not-ready");
  assert.equal(storeOf(world).find("pods", pod)?.spec.nodeName === node.name, false, "its pod has gone");
  assert.notEqual(nodeOf(world)?.metadata.uid, uid);
  isKept(world);
  assert.deepEqual(world.taints(), [foreign.key]);
  assert.deepEqual(world.record()?.["node-backup"], undefined);
  assert.ok(!actsOf(world).includes("set-out-of-service"));
  const wanted = ["enter", "delete-node", "enter", "restore-node", "enter", "show"];
  assert.deepEqual(actsOf(world).slice(-wanted.length), wanted);
});

test("the fence of a restored Node ends clean when its machine is back", async () => {
  const world = await restoredWorld();
  assert.equal(world.texts().unhealthy, "disk failed", "the mark outlasts the deletion");
  world.boot("boot-2");
  assert.equal(await world.reconcile(), "not-marked");
  assert.deepEqual([world.record(), world.armed(), world.taints()], [undefined, undefined, [foreign.key]]);
  assert.deepEqual(world.texts(), { "fence-strategy": "node-deletion" });
  isKept(world);
});

test("the fence of a restored Node ends clean when its mark is removed, and otherwise waits for its machine", async () => {
  const world = await restoredWorld();
  await world.harness.goOn(3_600_000);
  assert.equal(await world.reconcile(), "not-ready");
  world.annotate({ "sluice.dev/unhealthy": null });
  assert.equal(await world.reconcile(), "not-marked");
  assert.deepEqual([world.record(), world.armed(), world.taints()], [undefined, undefined, [foreign.key]]);
});

test("what other clients change on a Node that was made again stays, though the process is killed before it notes that", async () => {
  const world = await confirmedWorld();
  await world.reconcile();
  await world.harness.goOn(120_000);
  let isKilled = false;
  world.harness.interfere = ({ verb, given: [, where] }) => {
    if (isKilled || verb !== "patch" || (where as { name?: string }).name !== record.name || !nodeOf(world)) return;
    isKilled = true;
    throw new Error("the process was killed");
  };
  await assert.rejects(world.reconcile(), /the process was killed/);
  assert.equal(world.record()?.["fence-phase"], "deleted");
  world.annotate({ "sluice.dev/unhealthy": null, "example.com/note": null });
  await world.reconcile();
  assert.deepEqual([world.record(), nodeOf(world)?.metadata.annotations?.["example.com/note"]], [undefined, undefined]);
});

test("a Node from which a webhook strips what it lacks is completed once, and its fence goes on", async () => {
  const world = await confirmedWorld();
  await world.reconcile();
  storeOf(world).create("nodes", "", { metadata: { name: node.name } });
  world.boot("boot-2", false);
  storeOf(world).onChange("nodes", ({ current }) => {
    if (current?.metadata.annotations?.["example.com/note"] !== undefined) world.annotate({ "example.com/note": null });
  });
  await world.reconcile();
  assert.deepEqual(
    actsOf(world).filter((one) => one === "complete-node"),
    ["complete-node"],
  );
  assert.equal(world.record()?.["fence-phase"], "recovering");
});

test("a restored Node that another client deletes stays deleted, and its fence ends clean", async () => {
  const world = await restoredWorld();
  storeOf(world).delete("nodes", key, {});
  assert.equal(await world.reconcile(), "not-marked");
  assert.deepEqual([nodeOf(world), world.record(), world.armed()], [undefined, undefined, undefined]);
});

test("a Node that its kubelet makes before us gets what it lacks, and keeps what it has", async () => {
  const world = await confirmedWorld();
  assert.equal(await world.reconcile(), "deleted");
  const metadata = { name: node.name, labels: { "topology.kubernetes.io/zone": "b", own: "1" } };
  storeOf(world).create("nodes", "", { metadata });
  world.boot("boot-2");
  assert.equal(await world.reconcile(), "not-marked");
  const { metadata: after, spec } = nodeOf(world) ?? assert.fail();
  assert.deepEqual(after.labels, { "topology.kubernetes.io/zone": "b", own: "1" });
  assert.equal(after.annotations?.["example.com/note"], "kept");
  assert.deepEqual([spec?.unschedulable, spec?.taints], [true, [foreign]]);
  assert.equal(world.record(), undefined);
});

test("a kubelet that registers between our GET and our POST wins, and its Node gets what it lacks", async () => {
  const world = await confirmedWorld();
  await world.reconcile();
  await world.harness.goOn(120_000);
  let isMade = false;
  world.harness.interfere = ({ verb, given: [resource] }) => {
    if (verb !== "create" || resource !== "nodes" || isMade) return;
    isMade = true;
    storeOf(world).create("nodes", "", { metadata: { name: node.name, labels: { own: "1" } } });
  };
  assert.equal(await world.reconcile(), "not-ready");
  assert.equal(nodeOf(world)?.metadata.labels?.own, "1");
  isKept(world);
});

test("a Node that changes after it was backed up is backed up anew before it is deleted", async () => {
  const world = await confirmedWorld();
  let isChanged = false;
  world.harness.interfere = ({ verb, given: [resource] }) => {
    if (verb !== "delete" || resource !== "nodes" || isChanged) return;
    isChanged = true;
    world.annotate({ "example.com/late": "kept" });
  };
  assert.equal(await world.reconcile(), "deleted");
  assert.match(world.record()?.["node-backup"] ?? "", /"example.com\/late":"kept"/);
  const acts = world.harness.acts.filter(({ action }) => action === "delete-node").map(({ result }) => result);
  assert.deepEqual(acts, ["changed", "done"]);
});

test("a Node whose machine is back before the deletion is not deleted", async () => {
  const world = await confirmedWorld();
  const { uid } = nodeOf(world)?.metadata ?? assert.fail();
  world.harness.interfere = ({ verb, given: [resource] }) => {
    if (verb === "delete" && resource === "nodes") world.boot("boot-2");
  };
  assert.equal(await world.reconcile(), "not-marked");
  assert.equal(nodeOf(world)?.metadata.uid, uid);
  assert.deepEqual([world.record(), actsOf(world).includes("delete-node")], [undefined, false]);
});

test("a Node that another client deletes before it is backed up is not made again", async () => {
  const world = await confirmedWorld();
  storeOf(world).delete("nodes", key, {});
  for (const guard of ["node-gone", "not-marked"]) {
    assert.equal(await world.reconcile(), guard);
    await world.harness.goOn(120_000);
  }
  assert.deepEqual([nodeOf(world), world.record()], [undefined, undefined]);
});

test("a Node that is gone once its backup is written is made again, because any process may have deleted it", async () => {
  const world = await confirmedWorld();
  let isGone = false;
  world.harness.interfere = ({ verb, given: [resource] }) => {
    if (verb !== "delete" || resource !== "nodes" || isGone) return;
    isGone = true;
    storeOf(world).delete("nodes", key, {});
  };
  assert.equal(await world.reconcile(), "deleted");
  await world.harness.goOn(120_000);
  assert.equal(await world.reconcile(), "not-ready");
  isKept(world);
});

test("a strategy that changes before the Node is deleted counts", async () => {
  const world = await confirmedWorld();
  world.harness.interfere = ({ verb, given: [resource] }) => {
    if (verb === "delete" && resource === "nodes") world.annotate({ "sluice.dev/fence-strategy": "out-of-service" });
  };
  assert.equal(await world.reconcile(), "evacuating");
  assert.ok(world.taints().includes(outOfService));
  assert.deepEqual([world.record()?.["node-backup"], actsOf(world).includes("delete-node")], [undefined, false]);
});

test("an unknown strategy is the default, with a Warning on the Node", async () => {
  const world = await confirmedWorld("reboot");
  assert.equal(await world.reconcile(), "evacuating");
  assert.ok(world.taints().includes(outOfService));
  const events = storeOf(world).list("events").items;
  assert.ok(
    events.some(({ reason, message }) => reason === "MalformedAnnotation" && /fence-strategy/.test(message ?? "")),
  );
});

test("without the right to delete Nodes the fence waits as not-permitted, and tries again in a minute", async () => {
  const world = await confirmedWorld();
  let tries = 0;
  let isRefusing = true;
  world.harness.interfere = ({ verb, given: [resource] }) => {
    if (verb !== "delete" || resource !== "nodes") return;
    tries++;
    if (isRefusing) throw refused(403, 'nodes is forbidden: User "sluice" cannot delete resource "nodes"');
  };
  assert.equal(await world.reconcile(), "not-permitted");
  assert.deepEqual([world.record()?.["fence-phase"], world.record()?.["fence-hold"]], ["stopped", "not-permitted"]);
  assert.equal(world.texts()["fence-hold"], "not-permitted");
  assert.equal(world.record()?.["node-backup"], undefined);
  await world.reconcile();
  assert.equal(tries, 1);
  for (let minute = 2; minute < 5; minute++) {
    await world.harness.goOn(60_000);
    assert.equal(await world.reconcile(), "not-permitted");
    assert.equal(tries, minute);
  }
  isRefusing = false;
  await world.harness.goOn(60_000);
  assert.equal(await world.reconcile(), "deleted");
});

test("a Node that another client deletes while we may not is not made again", async () => {
  const world = await confirmedWorld();
  world.harness.interfere = ({ verb, given: [resource] }) => {
    if (verb === "delete" && resource === "nodes") throw refused(403);
  };
  await world.reconcile();
  storeOf(world).delete("nodes", key, {});
  await world.reconcile();
  await world.harness.goOn(120_000);
  assert.equal(await world.reconcile(), "not-marked");
  assert.deepEqual([nodeOf(world), world.record()], [undefined, undefined]);
});

test("without the right to make Nodes the record keeps the backup, and the Node comes back once the right is there", async () => {
  const world = await confirmedWorld();
  await world.reconcile();
  await world.harness.goOn(120_000);
  world.harness.interfere = ({ verb, given: [resource] }) => {
    if (verb === "create" && resource === "nodes") throw refused(403);
  };
  assert.equal(await world.reconcile(), "not-permitted");
  assert.deepEqual([nodeOf(world), world.record()?.["fence-hold"]], [undefined, "not-permitted"]);
  assert.ok(world.record()?.["node-backup"]);
  world.harness.interfere = () => {};
  assert.equal(await world.reconcile(), "not-ready");
  isKept(world);
});

test("a record that says deleted and has no backup is held, and never overwritten", async () => {
  const world = await confirmedWorld();
  await world.reconcile();
  storeOf(world).patch("leases", record, { metadata: { annotations: { "sluice.dev/node-backup": "{}" } } });
  await world.harness.goOn(120_000);
  assert.equal(await world.reconcile(), "record-unreadable");
  assert.equal(world.record()?.["node-backup"], "{}");
});
