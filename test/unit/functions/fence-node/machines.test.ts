/** Fences that a mark on a Machine asks for, in whole reconciles of a process that reads Machines. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fenceNode } from "../../../../functions/fence-node/function.ts";
import { played, refused } from "../../shared/reconcile/harness.ts";
import { killAfter } from "./kills.ts";
import { fenceIdOf, type NodeWorld, node, nodeWorld, slots } from "./node-world.ts";

const definition = { group: "cluster.x-k8s.io", version: "v1beta1", kind: "Machine", plural: "machines" } as const;
const resource = "/apis/cluster.x-k8s.io/v1beta1/machines";
const fenceMark = "example.com/broken";
const kind = { kind: "Machine", group: definition.group };
const settings = { fenceMachineKinds: [kind], fenceMark };
const namespace = "clusters";
const nodeKey = { namespace: "", name: node.name };
const storeOf = ({ harness }: NodeWorld) => harness.world.store;
const machineOf = (world: NodeWorld, name = "m") => storeOf(world).find(resource, { namespace, name });
const markOf = (world: NodeWorld, name = "m") => machineOf(world, name)?.metadata.annotations?.[fenceMark];
const reconcile = (world: NodeWorld) => world.reconcile({ settings });

interface Given {
  readonly nodeRef?: object;
  readonly spec?: object;
}

/** Makes a Machine that names the node, unless the test says otherwise. */
function addMachine(world: NodeWorld, name: string, mark: string | null, given: Given = {}): void {
  const { nodeRef = { kind: "Node", name: node.name }, spec = {} } = given;
  const annotations = mark === null ? {} : { [fenceMark]: mark };
  storeOf(world).create(resource, namespace, { metadata: { name, annotations }, spec });
  storeOf(world).patch(resource, { namespace, name }, { status: { nodeRef } }, "status");
}

function machineWorld(mark: string | null = "disk failed", given: Given = {}): NodeWorld {
  const world = nodeWorld();
  storeOf(world).define({ ...definition, isNamespaced: true });
  addMachine(world, "m", mark, given);
  return world;
}

function setMark(world: NodeWorld, mark: string | null, name = "m"): void {
  storeOf(world).patch(resource, { namespace, name }, { metadata: { annotations: { [fenceMark]: mark } } });
}

/** The nodes that a tick of the schedule finds. */
async function due(world: NodeWorld, changes: object = { settings }): Promise<readonly string[]> {
  world.harness.restart(changes);
  const keys = await played(world.harness.timeline, fenceNode.listKeys(world.harness.context, undefined));
  return keys.flatMap((key) => ("name" in key ? [key.name] : []));
}

const callsOf = ({ harness }: NodeWorld) => harness.calls.map(({ verb, given: [of] }) => `${verb} ${of}`);
const isAboutMachines = (call: string) => call.includes("machines") || call.startsWith("look-up");
const eventsOf = (world: NodeWorld) =>
  storeOf(world)
    .list("events")
    .items.map(({ reason = "", message = "" }) => `${reason} ${message}`);

function assertClean(world: NodeWorld, when = ""): void {
  assert.deepEqual([world.record(), world.armed(), world.taints()], [undefined, undefined, []], when);
  const { annotations = {} } = storeOf(world).get("nodes", nodeKey).metadata;
  assert.deepEqual([world.texts(), annotations[fenceMark], markOf(world)], [{}, undefined, undefined], when);
}

test("a mark on a Machine has its Node fenced, and goes with the fence; the schedule finds the Node", async () => {
  const world = machineWorld();
  assert.deepEqual(await due(world), [node.name]);
  await reconcile(world);
  assert.equal(world.record()?.["fence-phase"], "armed");
  assert.ok(eventsOf(world).includes("FenceRequested a fence of a-0 begins: disk failed (the Machine clusters/m)"));
  world.boot("boot-2");
  await reconcile(world);
  assertClean(world);
  assert.deepEqual(await due(world), []);
});

test("without kinds in FENCE_MACHINE_KINDS nothing is asked about Machines, and their marks have no effect", async () => {
  const world = machineWorld();
  assert.deepEqual(await due(world, { settings: { fenceMark } }), []);
  assert.equal(await world.reconcile({ settings: { fenceMark } }), "not-marked");
  assert.deepEqual(callsOf(world).filter(isAboutMachines), []);
});

test("while no Machine has the mark, a tick lists their metadata once, and an event of a Node reads none of them", async () => {
  const world = machineWorld(null);
  assert.deepEqual(await due(world), []);
  const context = world.harness.context;
  await played(world.harness.timeline, fenceNode.reconcile(context, node, { sweep: false }));
  const asked = world.harness.calls.filter(({ given: [of] }) => of === resource);
  assert.deepEqual(
    asked.map(({ verb, given }) => [verb, given[1]]),
    [["list", { metadataOnly: true }]],
  );
});

test("a mark that is removed ends the fence of its Machine as that of a Node does, in each phase", async () => {
  const claimedOnly = machineWorld();
  storeOf(claimedOnly).patch(
    "nodes",
    nodeKey,
    { status: { conditions: [{ type: "MaintenanceInProgress", status: "True" }] } },
    "status",
  );
  assert.equal(await reconcile(claimedOnly), "maintenance");
  setMark(claimedOnly, null);
  assert.equal(await reconcile(claimedOnly), "not-marked");
  assertClean(claimedOnly, "claimed");

  const world = machineWorld();
  await reconcile(world);
  setMark(world, null);
  await reconcile(world);
  assert.equal(world.record()?.["fence-phase"], "armed", "an armed fence goes on");
  setMark(world, "again");
  world.falls();
  world.annotate({ "sluice.dev/fence-confirmed": fenceIdOf(world) });
  await reconcile(world);
  await world.harness.goOn(60_000);
  assert.equal(await reconcile(world), "fenced");
  setMark(world, null);
  await reconcile(world);
  assertClean(world, "fenced");
});

test("of two Machines that name one Node no mark counts, and a Warning names both; the mark of the Node itself does", async () => {
  const world = machineWorld();
  addMachine(world, "second", null);
  assert.deepEqual(await due(world), [node.name]);
  assert.equal(await reconcile(world), "machine-unclear");
  assert.equal(world.record(), undefined);
  const warning = eventsOf(world).filter((one) => one.startsWith("FenceRefused"));
  assert.equal(warning.length, 1);
  assert.match(
    warning[0] ?? "",
    /machine-unclear: 2 Machines name the Node a-0.*clusters\/m, the Machine clusters\/second/,
  );
  world.annotate({ [fenceMark]: "by hand" });
  await reconcile(world);
  assert.equal(world.record()?.["fence-phase"], "armed");
  world.boot("boot-2");
  await reconcile(world);
  assert.deepEqual([world.record(), markOf(world)], [undefined, "disk failed"], "what does not count is left alone");
  storeOf(world).delete(resource, { namespace, name: "second" });
  await reconcile(world);
  assert.ok(world.record(), "another fence begins");
});

test("a Machine of another cluster, one without a Node, an empty mark, and one whose Node is gone have no effect", async () => {
  const namesake = machineWorld("disk failed", { nodeRef: { name: node.name, uid: "another-uid" } });
  assert.equal(await reconcile(namesake), "not-marked");

  const nameless = machineWorld("disk failed", { nodeRef: {} });
  assert.deepEqual(await due(nameless), []);
  assert.match(nameless.harness.problems.join(), /the Machine clusters\/m has the mark, and its status names no Node/);

  const empty = machineWorld("");
  assert.equal(await reconcile(empty), "not-marked");
  assert.ok(
    eventsOf(empty).some((one) => /^MalformedAnnotation of the Machine clusters\/m: annotation example/.test(one)),
  );

  const gone = machineWorld();
  storeOf(gone).delete("nodes", nodeKey);
  assert.deepEqual(await due(gone), [node.name]);
  assert.equal(await reconcile(gone), "not-marked");
  assert.equal(gone.record(), undefined);
});

test("a process that has read the Machines before the mark ends the fence of another one with it, and does not take it back", async () => {
  const world = machineWorld(null);
  await due(world);
  const early = { ...world.harness.context };
  const reconcileEarly = () => played(world.harness.timeline, fenceNode.reconcile(early, node, { sweep: false }));
  setMark(world, "disk failed");
  const status = { conditions: [{ type: "MaintenanceInProgress", status: "True" }] };
  storeOf(world).patch("nodes", nodeKey, { status }, "status");
  assert.equal(await reconcile(world), "maintenance");
  await reconcileEarly();
  assert.equal(world.record()?.["fence-phase"], "claimed");
  world.boot("boot-2");
  await reconcileEarly();
  assertClean(world);
});

test("marks on both the Node and its Machine go together", async () => {
  const world = machineWorld("fan");
  world.annotate({ [fenceMark]: "disk failed" });
  await reconcile(world);
  world.boot("boot-2");
  await reconcile(world);
  assertClean(world);
});

test("a Node that is deleted and made again keeps its fence by the providerID of its machine", async () => {
  const world = machineWorld("disk failed", { spec: { providerID: "cloud:///one" } });
  storeOf(world).patch("nodes", nodeKey, { spec: { providerID: "cloud:///one" } });
  const { uid } = storeOf(world).get("nodes", nodeKey).metadata;
  const status = { nodeRef: { name: node.name, uid } };
  storeOf(world).patch(resource, { namespace, name: "m" }, { status }, "status");
  world.annotate({ "sluice.dev/fence-strategy": "node-deletion" });
  await reconcile(world);
  world.falls();
  world.annotate({ "sluice.dev/fence-confirmed": fenceIdOf(world) });
  await reconcile(world);
  await world.harness.goOn(120_000);
  assert.equal(await reconcile(world), "not-ready");
  assert.notEqual(storeOf(world).get("nodes", nodeKey).metadata.uid, uid);
  world.annotate({ "sluice.dev/fence-strategy": null });
  world.boot("boot-2");
  await reconcile(world);
  assertClean(world);
});

test("a kind that the API server does not serve is reported once, and the marks of the others count", async () => {
  const world = machineWorld();
  const kinds = { settings: { ...settings, fenceMachineKinds: [{ kind: "Host", group: "metal3.io" }, kind] } };
  world.harness.restart(kinds);
  const { context } = world.harness;
  for (let tick = 0; tick < 3; tick++) await played(world.harness.timeline, fenceNode.listKeys(context, undefined));
  assert.equal(world.harness.problems.length, 1);
  assert.match(
    world.harness.problems[0] ?? "",
    /^FENCE_MACHINE_KINDS: the API server serves no kind "Host" in the group "metal3\.io"/,
  );
  await world.reconcile(kinds);
  assert.equal(world.record()?.["fence-phase"], "armed");
});

test("while Machines cannot be read, marks on Nodes have their effect, and a fence that rests on a Machine goes on later", async () => {
  const world = machineWorld();
  await reconcile(world);
  world.boot("boot-2", false);
  assert.equal(await reconcile(world), "not-ready");
  const isRefusing = { now: true };
  world.harness.interfere = ({ given: [of] }) => {
    if (of === resource && isRefusing.now) throw refused(500, "conversion webhook failed");
  };
  await assert.rejects(reconcile(world), /conversion webhook failed/);
  assert.deepEqual([world.record()?.["fence-phase"], world.taints()], ["recovering", ["sluice.dev/fence"]]);
  assert.deepEqual(await due(world), [node.name], "the record is found");

  const other = nodeWorld();
  storeOf(other).define({ ...definition, isNamespaced: true });
  other.harness.interfere = world.harness.interfere;
  other.annotate({ [fenceMark]: "by hand" });
  assert.deepEqual(await due(other), [node.name]);
  await reconcile(other);
  assert.equal(other.record()?.["fence-phase"], "armed");
  other.boot("boot-2");
  await reconcile(other);
  assert.equal(other.record(), undefined);

  isRefusing.now = false;
  world.boot("boot-2");
  await reconcile(world);
  assertClean(world);
});

test("without the right to patch its Machine a fence waits as not-permitted, and ends when a person removes the mark", async () => {
  const world = machineWorld();
  await reconcile(world);
  world.harness.interfere = ({ verb, given: [of] }) => {
    if (of === resource && verb === "patch") throw refused(403, 'cannot patch resource "machines"');
  };
  world.boot("boot-2");
  assert.equal(await reconcile(world), "not-permitted");
  assert.deepEqual([world.record()?.["fence-hold"], world.texts()["fence-hold"]], ["not-permitted", "not-permitted"]);
  assert.ok(eventsOf(world).some((one) => /^FenceHeld not-permitted: .*the Machine clusters\/m/.test(one)));
  setMark(world, null);
  await reconcile(world);
  assertClean(world);
});

test("a Node that a Machine marks counts for the storm as one that has the mark itself", async () => {
  const world = machineWorld();
  const status = { conditions: [{ type: "Ready", status: "True" }], nodeInfo: { bootID: "boot-1", systemUUID: "m" } };
  for (const name of ["b-1", "c-2"]) {
    storeOf(world).create("nodes", "", { metadata: { name } });
    storeOf(world).patch("nodes", { namespace: "", name }, { status }, "status");
    addMachine(world, name, name === "b-1" ? "disk failed" : null, { nodeRef: { name } });
  }
  assert.equal(await reconcile(world), "storm");
  assert.equal(storeOf(world).find("leases", slots)?.metadata.name, slots.name);
  setMark(world, null, "b-1");
  await world.harness.goOn(360_000);
  await reconcile(world);
  assert.equal(world.record()?.["fence-phase"], "armed");
});

test("a fence that a Machine asks for ends clean if the process is killed after any of its writes", async () => {
  let killed = 0;
  for (let count = 0; count < 40; count++) {
    const when = `killed after ${count}`;
    const world = machineWorld();
    const isKilled = killAfter(world, count);
    for (const step of [() => {}, () => world.boot("boot-2")]) {
      step();
      await reconcile(world).catch(async (error) => {
        assert.match(String(error), /the process was killed/);
        await reconcile(world);
      });
    }
    assertClean(world, when);
    if (!isKilled()) break;
    killed++;
  }
  assert.ok(killed > 8 && killed < 39, `${killed}`);
});
