/** The Lease of the slots, as processes read and write it: beside each other, edited by hand, deleted, and unreadable. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fenceNode } from "../../../../functions/fence-node/function.ts";
import { createMemory } from "../../../../functions/shared/contract/memory.ts";
import { played, refused } from "../../shared/reconcile/harness.ts";
import { agent, armedWorld, fenceIdOf, fencing, type NodeWorld, node, nodeWorld, record, slots } from "./node-world.ts";

const others = ["b-1", "c-2", "d-3", "e-4"];
const unhealthy = { "sluice.dev/unhealthy": "disk failed" };
const storeOf = ({ harness }: NodeWorld) => harness.world.store;

/** The node of the world and four more, all of them Ready. */
function fiveNodes(world: NodeWorld = nodeWorld()): NodeWorld {
  const status = { conditions: [{ type: "Ready", status: "True" }], nodeInfo: { bootID: "boot-1", systemUUID: "m" } };
  for (const name of others) {
    storeOf(world).create("nodes", "", { metadata: { name } });
    storeOf(world).patch("nodes", { namespace: "", name }, { status }, "status");
  }
  return world;
}

function mark(world: NodeWorld, name: string): void {
  storeOf(world).patch("nodes", { namespace: "", name }, { metadata: { annotations: unhealthy } });
}

/** One reconcile of another node by the process that is there. Resolves to its guard. */
async function reconcileOther({ harness }: NodeWorld, name: string): Promise<string | undefined> {
  const key = { resource: "nodes", namespace: "", name } as const;
  await played(harness.timeline, fenceNode.reconcile(harness.context, key, { sweep: false }));
  return harness.verdicts.findLast(({ key: of }) => "name" in of && of.name === name)?.guard;
}

const takers = (world: NodeWorld) => world.slots()?.slots.map((slot) => slot.node);

function writeSlots(world: NodeWorld, text: string, format = "1"): void {
  const annotations = { "sluice.dev/fence-slots": text, "sluice.dev/format": format };
  const isThere = storeOf(world).find("leases", slots) !== undefined;
  if (isThere) storeOf(world).patch("leases", slots, { metadata: { annotations } });
  else storeOf(world).create("leases", fencing, { metadata: { name: slots.name, annotations } });
}

test("a second marked node waits with `budget` until there is evidence of the first one", async () => {
  const world = fiveNodes(await armedWorld());
  mark(world, "b-1");
  assert.equal(await reconcileOther(world, "b-1"), "budget");
  assert.deepEqual(takers(world), ["a-0"]);
  const waiting = storeOf(world).get("nodes", { namespace: "", name: "b-1" });
  assert.deepEqual(
    [waiting.spec?.taints, waiting.metadata.annotations?.["sluice.dev/fence-hold"]],
    [undefined, "budget"],
  );
  world.boot("boot-2");
  await world.reconcile();
  assert.deepEqual(takers(world), []);
  await reconcileOther(world, "b-1");
  assert.deepEqual(takers(world), ["b-1"]);
});

test("of two processes that take the last slot at once one gets it, and the other one waits", async () => {
  const world = fiveNodes();
  mark(world, "a-0");
  let isBeaten = false;
  world.harness.interfere = ({ verb, given: [resource, key] }) => {
    const isSlot = resource === "leases" && (verb === "create" || verb === "patch") && !isBeaten;
    if (!isSlot || storeOf(world).find("leases", record) === undefined) return;
    if (verb === "patch" && (key as { name: string }).name !== slots.name) return;
    isBeaten = true;
    const takenMs = world.harness.timeline.nowMs();
    const claimed = { "sluice.dev/fence-id": "other", "sluice.dev/fence-phase": "claimed", "sluice.dev/format": "1" };
    const rest = { "sluice.dev/fence-boot-id": "b", "sluice.dev/fence-machine": "m" };
    const since = { "sluice.dev/fence-since": new Date(takenMs).toISOString() };
    const annotations = { ...claimed, ...rest, ...since };
    storeOf(world).create("leases", fencing, { metadata: { name: "fence-b-1", annotations } });
    writeSlots(world, JSON.stringify({ slots: [{ fenceId: "other", node: "b-1", takenMs }], fencedMs: {} }));
  };
  assert.equal(await world.reconcile(), "budget");
  assert.ok(isBeaten);
  assert.deepEqual([takers(world), world.taints(), world.armed()], [["b-1"], [], undefined]);
});

test("a slot of a fence whose record is gone counts for nothing, and goes with the next write", async () => {
  const world = fiveNodes(await armedWorld());
  storeOf(world).delete("leases", record, {});
  mark(world, "b-1");
  await reconcileOther(world, "b-1");
  assert.deepEqual(takers(world), ["b-1"]);
});

test("a slot counts while the record of its fence has no evidence, or cannot be read", async () => {
  const patched = async (texts: Readonly<Record<string, string>>) => {
    const world = fiveNodes(await armedWorld());
    storeOf(world).patch("leases", record, { metadata: { annotations: texts } });
    mark(world, "b-1");
    await reconcileOther(world, "b-1");
    return takers(world);
  };
  assert.deepEqual(await patched({}), ["a-0"]);
  assert.deepEqual(await patched({ "sluice.dev/format": "2" }), ["a-0"]);
  for (const phase of ["stopped", "evacuating", "fenced", "recovering"])
    assert.deepEqual(await patched({ "sluice.dev/fence-phase": phase }), ["b-1"], phase);
  assert.deepEqual(await patched({ "sluice.dev/fence-id": "a-later-fence" }), ["b-1"]);
});

test("a slot that another client writes for no fence, or far ahead, keeps no fence from going on", async () => {
  for (const takenMs of [1, 8.64e15]) {
    const world = nodeWorld();
    world.annotate(unhealthy);
    writeSlots(
      world,
      JSON.stringify({ slots: [{ fenceId: "x", node: "y", takenMs }], fencedMs: {}, stormMs: 8.64e15 }),
    );
    assert.equal(await world.reconcile(), "not-armed");
    assert.deepEqual(takers(world), ["a-0"]);
  }
});

test("a text that does not parse, or of another format, is not written over, and a person who deletes the Lease ends the wait", async () => {
  const whole = '{"slots":[],"fencedMs":{}}';
  for (const [text, format] of [
    ...["", "{", "[]", '{"slots":[]}', '{"slots":{},"fencedMs":{}}', '{"slots":[],"fencedMs":[]}'].map((one) => [one]),
    ...['{"slots":[{"fenceId":"x"}],"fencedMs":{}}', '{"slots":[],"fencedMs":{"n":1}}'].map((one) => [one]),
    ...['{"slots":[],"fencedMs":{"n":[-1]}}', '{"slots":[],"fencedMs":{},"stormMs":"now"}'].map((one) => [one]),
    [whole, "2"],
  ]) {
    const world = nodeWorld();
    world.annotate(unhealthy);
    writeSlots(world, text ?? "", format);
    const before = storeOf(world).get("leases", slots).metadata.resourceVersion;
    assert.equal(await world.reconcile(), "slots-unreadable", text);
    assert.equal(storeOf(world).get("leases", slots).metadata.resourceVersion, before, text);
    assert.deepEqual([world.taints(), world.texts()["fence-hold"]], [[], "slots-unreadable"], text);
    storeOf(world).delete("leases", slots, {});
    assert.equal(await world.reconcile(), "not-armed", text);
  }
});

test("a Lease that becomes unreadable after a fence took its slot keeps it from nothing", async () => {
  const world = await armedWorld();
  writeSlots(world, "rubbish");
  world.boot("boot-2");
  assert.equal(await world.reconcile(), "not-marked");
  assert.deepEqual([world.record(), world.armed(), world.taints()], [undefined, undefined, []]);
});

test("a fence that the API server does not let give its slot back ends all the same", async () => {
  const world = await armedWorld();
  world.harness.interfere = ({ verb, given: [resource, key] }) => {
    if (verb === "patch" && resource === "leases" && (key as { name: string }).name === slots.name) throw refused(403);
  };
  world.boot("boot-2");
  assert.equal(await world.reconcile(), "not-marked");
  assert.deepEqual([world.record(), world.armed(), world.taints()], [undefined, undefined, []]);
});

test("a fence ends clean if the Lease of the slots is deleted before any of its writes", async () => {
  for (let before = 1; before < 16; before++) {
    const world = nodeWorld();
    let writes = 0;
    world.harness.interfere = ({ verb, given: [resource] }) => {
      if (!["create", "patch", "delete"].includes(verb) || resource === "events" || ++writes !== before) return;
      if (storeOf(world).find("leases", slots) !== undefined) storeOf(world).delete("leases", slots, {});
    };
    world.annotate(unhealthy);
    await world.reconcile();
    assert.match(world.armed() ?? "", / boot-1$/, `deleted before write ${before}`);
    world.boot("boot-2");
    assert.equal(await world.reconcile(), "not-marked", `deleted before write ${before}`);
    assert.deepEqual([world.record(), world.taints(), world.texts()], [undefined, [], {}], `before write ${before}`);
    assert.deepEqual(takers(world) ?? [], [], `deleted before write ${before}`);
  }
});

test("fences that wait share a list of all nodes for 10 seconds, and none takes a slot by a list of before", async () => {
  const world = fiveNodes(await armedWorld());
  const { harness } = world;
  harness.restart({ memoryOf: createMemory() });
  const lists = () =>
    harness.calls.filter(({ verb, given: [resource] }) => verb === "list" && resource === "nodes").length;
  mark(world, "b-1");
  assert.equal(await reconcileOther(world, "b-1"), "budget");
  const first = lists();
  assert.equal(await reconcileOther(world, "b-1"), "budget");
  assert.equal(lists(), first);
  world.boot("boot-2");
  const key = { resource: "nodes", namespace: "", name: node.name } as const;
  await played(harness.timeline, fenceNode.reconcile(harness.context, key, { sweep: false }));
  for (const name of ["c-2", "d-3"]) mark(world, name);
  // Only the new list has the marks of the storm.
  assert.equal(await reconcileOther(world, "b-1"), "storm");
  assert.equal(lists(), first + 1);
});

test("the Node `slots` gets no fence, and the Lease of the slots is not taken for its record", async () => {
  const world = fiveNodes(await armedWorld());
  const status = { conditions: [], nodeInfo: { bootID: "boot-1", systemUUID: "m" } };
  storeOf(world).create("nodes", "", { metadata: { name: "slots" } });
  storeOf(world).patch("nodes", { namespace: "", name: "slots" }, { status }, "status");
  mark(world, "slots");
  assert.equal(await reconcileOther(world, "slots"), "name-reserved");
  assert.deepEqual(takers(world), ["a-0"]);
});

test("a storm that a process has noted goes on for another one, until the cool-down has passed", async () => {
  const world = fiveNodes();
  for (const name of ["a-0", "b-1", "c-2"]) mark(world, name);
  assert.equal(await world.reconcile(), "storm");
  for (const name of ["b-1", "c-2"]) {
    const annotations = { "sluice.dev/unhealthy": null };
    storeOf(world).patch("nodes", { namespace: "", name }, { metadata: { annotations } });
  }
  await world.harness.goOn(299_000);
  assert.equal(await world.reconcile(), "storm");
  await world.harness.goOn(2_000);
  assert.equal(await world.reconcile(), "not-armed");
});

/** One whole fence of the node, which comes back with this boot. Resolves to the last guard. */
async function fenceOnce(world: NodeWorld, boot: number): Promise<string | undefined> {
  world.annotate(unhealthy);
  const annotations = { "sluice.dev/agent-boot-id": `boot-${boot - 1}` };
  storeOf(world).patch("leases", agent, { metadata: { annotations } });
  await world.reconcile();
  assert.equal(world.record()?.["fence-phase"], "armed");
  world.boot(`boot-${boot}`);
  return world.reconcile();
}

test("the third fence within an hour empties the node, and when its mark goes nothing of it is left", async () => {
  const world = nodeWorld();
  for (const boot of [2, 3]) assert.equal(await fenceOnce(world, boot), "not-marked");
  assert.equal(await fenceOnce(world, 4), "loop");
  const { taints = [] } = storeOf(world).get("nodes", { namespace: "", name: node.name }).spec ?? {};
  assert.deepEqual(
    taints.map(({ key, effect }: { key: string; effect: string }) => `${key}:${effect}`),
    ["sluice.dev/fence:NoSchedule", "sluice.dev/fence:NoExecute"],
  );
  assert.deepEqual([world.texts()["fence-hold"], takers(world)], ["loop", []]);
  await world.harness.goOn(3_700_000);
  assert.equal(await world.reconcile(), "loop");
  world.annotate({ "sluice.dev/unhealthy": null });
  assert.equal(await world.reconcile(), "not-marked");
  assert.deepEqual([world.record(), world.armed(), world.taints(), world.texts()], [undefined, undefined, [], {}]);
});

test("a node that is silent again in its new boot is fenced for that boot, with a slot of its own", async () => {
  const world = await armedWorld();
  const first = fenceIdOf(world);
  world.boot("boot-2", false);
  assert.equal(await world.reconcile(), "not-ready");
  await world.harness.goOn(61_000);
  assert.equal(await world.reconcile(), "boot-unclear");
  assert.equal(world.record()?.["fence-boot-id"], "boot-2");
  assert.notEqual(fenceIdOf(world), first);
  assert.deepEqual([takers(world), world.taints()], [["a-0"], ["sluice.dev/fence"]]);
  world.boot("boot-3");
  assert.equal(await world.reconcile(), "not-marked");
  assert.deepEqual([world.record(), world.taints(), world.texts(), takers(world)], [undefined, [], {}, []]);
});

test("a node that is Ready while its second fence waits for a slot is not reset: the fence ends, and its mark goes", async () => {
  const world = fiveNodes(await armedWorld());
  world.boot("boot-2", false);
  await world.reconcile();
  mark(world, "b-1");
  await reconcileOther(world, "b-1");
  await world.harness.goOn(61_000);
  assert.equal(await world.reconcile(), "budget");
  assert.equal(world.record()?.["fence-boot-id"], "boot-2");
  world.boot("boot-2");
  assert.equal(await world.reconcile(), "not-marked");
  assert.deepEqual([world.record(), world.taints(), world.texts(), takers(world)], [undefined, [], {}, ["b-1"]]);
});

test("a node that is silent in its new boot is not fenced again for mirror pods, nor for pods that tolerate its taint", async () => {
  const tolerations = [{ key: "sluice.dev/fence", operator: "Exists" }];
  const mirror = { annotations: { "kubernetes.io/config.mirror": "x" } };
  for (const [guard, metadata, given] of [
    ["not-ready", mirror, []],
    ["not-ready", {}, tolerations],
    ["boot-unclear", {}, []],
  ] as const) {
    const world = await armedWorld();
    const store = storeOf(world);
    for (const { metadata: of } of store.list("pods").items) store.delete("pods", of, { gracePeriodSeconds: 0 });
    const spec = { nodeName: node.name, tolerations: given, containers: [{ name: "c", image: "i" }] };
    store.create("pods", "db", { metadata: { name: "alone", ...metadata }, spec });
    world.boot("boot-2", false);
    assert.equal(await world.reconcile(), "not-ready");
    await world.harness.goOn(61_000);
    assert.equal(await world.reconcile(), guard, JSON.stringify([metadata, given]));
  }
});

test("a node is silent since its condition says so, and not since it came back", async () => {
  const world = await armedWorld();
  world.boot("boot-2", false);
  await world.reconcile();
  await world.harness.goOn(61_000);
  const since = (ms: number) => {
    const lastTransitionTime = new Date(world.harness.timeline.nowMs() - ms).toISOString();
    const status = { conditions: [{ type: "Ready", status: "Unknown", lastTransitionTime }] };
    storeOf(world).patch("nodes", { namespace: "", name: node.name }, { status }, "status");
  };
  since(50_000);
  assert.equal(await world.reconcile(), "not-ready");
  since(62_000);
  assert.equal(await world.reconcile(), "boot-unclear");
});
