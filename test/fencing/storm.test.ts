/**
 * Many nodes are marked at once, and two processes of the shipped function fence them: the brakes as real machines show them.
 * Each agent is explicit-only, so that no time is evidence (A4).
 */
import assert from "node:assert/strict";
import { after, afterEach, before, describe, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import type { Server } from "../support/server.ts";
import { FencingCluster, type NodeObject } from "./cluster.ts";
import type { Machine } from "./machine.ts";
import { skipWithoutNamespaces } from "./network.ts";
import { type BoundPod, Pods } from "./pods.ts";
import { startScaledServer } from "./scaled-server.ts";

const timeoutMs = 90_000;
const key = (name: string) => `sluice.dev/${name}`;
const skip = (await skipWithoutControlPlane()) || (await skipWithoutNamespaces());
/** A slot lasts for 12 s here. */
const settings = {
  FENCE_STORM: "60%",
  FENCE_STORM_COOLDOWN: "2s",
  FENCE_MAX_CONCURRENT: "1",
  FENCE_MOST_PER_HOUR: "2",
};

describe("many nodes that are marked at once, on the real API server", { skip, concurrency: 1 }, () => {
  let cluster: FencingCluster;
  let servers: readonly Server[] = [];
  let pods: Pods;
  /** Of the two nodes whose marks stay: the one that gets the first slot, and the next one. */
  let dead: Machine;
  let next: Machine;
  const started = new Map<Machine, BoundPod>();

  before(async () => {
    cluster = await FencingCluster.start(4, { HOST_IPS: "" });
    pods = new Pods(cluster);
    for (const machine of cluster.machines.slice(0, 2))
      started.set(machine, await pods.startFirstOn(`on-${machine.name}`, machine.name));
    servers = await Promise.all([
      startScaledServer(cluster.controlPlane, settings),
      startScaledServer(cluster.controlPlane, settings),
    ]);
  });

  afterEach((context) => cluster.printLogsOf(context, { log: servers.flatMap(({ log }) => log) }));

  after(async () => {
    await Promise.all(servers.map((server) => server.stop()));
    await cluster?.stop();
  });

  const resetsOf = (machines: readonly Machine[]) => machines.flatMap(({ resets }) => resets);
  const effectsOf = ({ spec }: NodeObject) =>
    (spec.taints ?? []).filter((taint) => taint.key === key("fence")).map(({ effect }) => effect);
  const unmark = ({ name }: Machine) =>
    cluster.patchNode(name, { metadata: { annotations: { [key("unhealthy")]: null } } });
  const waitsFor = ({ name }: Machine, guard: string) =>
    eventually(`${name} waits for ${guard}`, timeoutMs, async () => {
      const node = await cluster.node(name);
      return node.metadata.annotations?.[key("fence-hold")] === guard ? node : undefined;
    });

  test("while more nodes are marked than FENCE_STORM, nothing happens to any of them (F24)", async () => {
    const { machines } = cluster;
    await Promise.all(machines.map(({ name }) => cluster.mark(name)));
    for (const machine of machines) assert.deepEqual(effectsOf(await waitsFor(machine, "storm")), []);
    assert.deepEqual(resetsOf(machines), []);
  });

  test("after the storm one of two nodes is fenced, and its dead machine gives its slot back to the next one (F24, A4)", async () => {
    const [first, second, ...others] = cluster.machines;
    assert.ok(first && second);
    first.bootsAgain = false;
    second.bootsAgain = false;
    for (const machine of others) await unmark(machine);
    for (const machine of others) await cluster.untilClean(machine);
    dead = await eventually("a machine is off", timeoutMs, async () => [first, second].find(({ isOn }) => !isOn));
    next = dead === first ? second : first;
    next.bootsAgain = true;
    await waitsFor(dead, "not-armed");
    assert.deepEqual(effectsOf(await waitsFor(next, "budget")), []);
    await eventually("the next one is reset", timeoutMs, async () => (next.resets.length > 0 ? true : undefined));
    await cluster.untilClean(next);
    await cluster.untilUp(next);
    const { metadata } = await waitsFor(dead, "not-armed");
    assert.equal(metadata.annotations?.[key("fence-phase")], "armed");
    assert.deepEqual(
      [dead, next, ...others].map(({ resets }) => resets.length),
      [1, 1, 0, 0],
    );
    const taintedMs = (machine: Machine) =>
      cluster.history.findIndex((node) => node.metadata.name === machine.name && effectsOf(node).length > 0);
    assert.ok(taintedMs(dead) < taintedMs(next), "one at a time");
  });

  test("a node that is fenced too often within an hour is emptied, and stays out until its mark is removed (F24)", async () => {
    const name = `on-${next.name}`;
    const pod = started.get(next);
    assert.ok(pod);
    assert.equal(
      (await pods.of(name))?.metadata.uid,
      pod.metadata.uid,
      "its first fence has left the pod where it was",
    );
    await cluster.mark(next.name);
    assert.deepEqual(effectsOf(await waitsFor(next, "loop")), ["NoSchedule", "NoExecute"]);
    const replacement = await pods.replacementOf(name, pod);
    assert.notEqual(replacement.spec.nodeName, next.name);
    assert.equal(next.resets.length, 2, "it is not fenced again");
    await unmark(next);
    await cluster.untilClean(next);
    assert.deepEqual(cluster.overlaps, []);
  });

  test("the dead machine ends its fence when it returns, with its pod", async () => {
    const name = `on-${dead.name}`;
    await dead.boot();
    await cluster.untilClean(dead);
    await cluster.untilUp(dead);
    assert.equal((await pods.of(name))?.metadata.uid, started.get(dead)?.metadata.uid);
    assert.equal(dead.resets.length, 1);
    assert.deepEqual(cluster.overlaps, []);
  });
});
