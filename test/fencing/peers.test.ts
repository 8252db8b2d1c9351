/** The shipped agents of three machines with each other as peers, beside a real API server. The test arms fences itself. */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, afterEach, before, describe, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { FencingCluster } from "./cluster.ts";
import type { Machine } from "./machine.ts";
import { skipWithoutNamespaces } from "./network.ts";

const timeoutMs = 60_000;
/** Feeds: at five a second they take longer than a permit and the time of the watchdog together. */
const longerThanAPermit = 40;
const key = (name: string) => `sluice.dev/${name}`;
const skip = (await skipWithoutControlPlane()) || (await skipWithoutNamespaces());

describe("agents with peers, on machines beside the real API server", { skip, concurrency: 1 }, () => {
  let cluster: FencingCluster;

  before(async () => {
    cluster = await FencingCluster.start(3);
    await cluster.armAll();
  });

  afterEach((context) => cluster.printLogsOf(context));

  after(() => cluster?.stop());

  const resetsOf = (machines: readonly Machine[]) => machines.flatMap(({ resets }) => resets);

  /** Resolves when each of them has fed its device so often from now on. */
  async function fed(times: number, ...machines: readonly Machine[]): Promise<void> {
    const from = machines.map(({ hardware }) => hardware.feeds);
    await eventually(`${times} feeds`, timeoutMs, async () =>
      machines.every(({ hardware }, at) => hardware.feeds >= (from[at] ?? 0) + times) ? true : undefined,
    );
  }

  /** The agents know each other by the keys of their boots: after a reset the lists have to name the new one. */
  async function armAgain(machine: Machine): Promise<void> {
    await cluster.untilUp(machine);
    await cluster.armAll();
  }

  test("cut off the API server alone, a node goes on for as long as a peer sees no fence", async () => {
    const machine = cluster.machine("node-1");
    await machine.setReaches([cluster.apiAddress], false);
    await fed(longerThanAPermit, machine);
    await machine.setReaches([cluster.apiAddress], true);
    await fed(5, machine);
    assert.deepEqual(resetsOf(cluster.machines), []);
  });

  test("while no node reaches the API server, the agents excuse each other, and none is reset (F4, A8)", async () => {
    for (const machine of cluster.machines) await machine.setReaches([cluster.apiAddress], false);
    await fed(longerThanAPermit, ...cluster.machines);
    for (const machine of cluster.machines) await machine.setReaches([cluster.apiAddress], true);
    await fed(5, ...cluster.machines);
    assert.deepEqual(resetsOf(cluster.machines), []);
  });

  test("a new agent waits beside the old one, takes over what it knows, and is armed again: nothing is reset (F30)", async () => {
    const machine = cluster.machine("node-1");
    const old = machine.agent;
    const successor = machine.startAgent();
    await eventually("the successor waits", timeoutMs, async () =>
      successor.printed().stdout.includes("port 9843 is taken") ? true : undefined,
    );
    await fed(5, machine);
    const before = await cluster.keyOf(machine.name);
    await machine.signalAgent("SIGTERM", old);
    assert.equal((await old.ended).code, 0);
    await fed(5, machine);
    await cluster.untilAllArmed();
    assert.equal(await cluster.keyOf(machine.name), before, "its peers know it by the same key");
    assert.deepEqual(resetsOf(cluster.machines), []);
  });

  test("a part in which each node has at most half of its peers is reset, and the rest goes on (F6)", async () => {
    const part = [cluster.machine("node-1"), cluster.machine("node-2")];
    const rest = cluster.machine("node-3");
    const boots = part.map(({ bootId }) => bootId);
    for (const machine of part) await machine.setReaches([cluster.apiAddress, rest.address], false);
    for (const machine of part) {
      await eventually(`the reset of ${machine.name}`, timeoutMs, async () =>
        machine.resets.length > 0 ? true : undefined,
      );
    }
    for (const machine of part) await cluster.untilUp(machine);
    await cluster.armAll();
    assert.deepEqual(
      resetsOf(cluster.machines).map((reset) => [reset.cause, reset.bootId]),
      boots.map((bootId) => ["watchdog", bootId]),
    );
  });

  test("a node that reaches nothing is reset by its watchdog once its permit has run out, and its peers are not (F3)", async () => {
    const machine = cluster.machine("node-3");
    const { bootId } = machine;
    const before = resetsOf(cluster.machines).length;
    await machine.setConnected(false);
    await eventually("the reset", timeoutMs, async () => (machine.resets.length > 0 ? true : undefined));
    await armAgain(machine);
    assert.deepEqual(
      machine.resets.map((reset) => [reset.cause, reset.bootId]),
      [["watchdog", bootId]],
    );
    assert.equal(resetsOf(cluster.machines).length, before + 1);
  });

  test("cut off the API server, a fenced node is stopped by what its peers have read (F2)", async () => {
    const machine = cluster.machine("node-1");
    const { bootId } = machine;
    const before = resetsOf(cluster.machines).length;
    const own = machine.resets.length;
    await machine.setReaches([cluster.apiAddress], false);
    await fed(10, machine);
    await cluster.patchNode(machine.name, { spec: { taints: [{ key: key("fence"), effect: "NoSchedule" }] } });
    await cluster.patchAgentLease(machine.name, { [key("fence-armed")]: `${randomUUID()} ${bootId}` });
    await eventually("the reset", timeoutMs, async () => (machine.resets.length > own ? true : undefined));
    await cluster.patchNode(machine.name, { spec: { taints: [] } });
    await cluster.untilUp(machine);
    assert.equal(resetsOf(cluster.machines).length, before + 1);
    assert.match(cluster.logs, /"msg":"fence [-\w]+ is armed for this boot: the watchdog is not fed any more"/);
  });
});
