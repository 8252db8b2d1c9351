/**
 * The API server is away, and the network with it; and nodes that have no peers, or do not reach them. The first machine is the
 * one node of the control plane (A8).
 */
import assert from "node:assert/strict";
import { after, afterEach, before, describe, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import type { Server } from "../support/server.ts";
import { FencingCluster } from "./cluster.ts";
import type { Machine } from "./machine.ts";
import { noCuts, skipWithoutNamespaces } from "./network.ts";
import { startScaledServer } from "./scaled-server.ts";
import { scaledTimes } from "./times.ts";

const timeoutMs = 60_000;
/** Feeds: at five a second they take longer than a permit and the time of the watchdog together. */
const longerThanAPermit = 20;
/** Feeds that take as many permits as three minutes have with the default of 40 s. */
const minutes = 60;
/** Failed renewals of a new boot, every 0.3 s: they take longer than a permit and the time of the watchdog together. */
const longerThanALoop = 15;
const key = (name: string) => `sluice.dev/${name}`;
const skip = (await skipWithoutControlPlane()) || (await skipWithoutNamespaces());

describe("outages, on machines beside the real API server", { skip, concurrency: 1 }, () => {
  let cluster: FencingCluster;
  let server: Server;
  let [controlPlane, worker, other]: readonly Machine[] = [];

  before(async () => {
    cluster = await FencingCluster.start(3, {}, scaledTimes, 1);
    [controlPlane, worker, other] = cluster.machines;
    await cluster.patchNode("node-1", { metadata: { labels: { "node-role.kubernetes.io/control-plane": "" } } });
    server = await startScaledServer(cluster.controlPlane);
  });

  afterEach((context) => cluster.printLogsOf(context, server));

  after(async () => {
    await server?.stop();
    await cluster?.stop();
  });

  const textOf = async ({ name }: Machine, text: string) =>
    (await cluster.agentLease(name)).metadata.annotations?.[key(text)];
  const until = (machine: Machine, text: string, wanted: string | undefined) =>
    eventually(`${text} of ${machine.name} is ${wanted}`, timeoutMs, async () =>
      (await textOf(machine, text)) === wanted ? true : undefined,
    );
  const resetsOf = (machines: readonly Machine[]) => machines.flatMap(({ resets }) => resets);

  /** Resolves when each of them has fed its device so often from now on. */
  async function fed(times: number, ...machines: readonly Machine[]): Promise<void> {
    const from = machines.map(({ hardware }) => hardware.feeds);
    await eventually(`${times} feeds`, timeoutMs, async () =>
      machines.every(({ hardware }, at) => hardware.feeds >= (from[at] ?? 0) + times) ? true : undefined,
    );
  }

  async function goesOnAlone(machine: Machine): Promise<void> {
    await machine.setConnected(false);
    await fed(longerThanAPermit, machine);
    await machine.setConnected(true);
    await fed(3, machine);
  }

  test("a single node, and the one worker beside the one control-plane node, have no peers: isolation resets neither (F26)", async () => {
    assert.ok(controlPlane && worker);
    const surveyed = () => server.metric("sluice_fence_nodes", { mode: "explicit-only" });
    await eventually("the survey", timeoutMs, async () => ((await surveyed()) === 1 ? true : undefined));
    assert.deepEqual(
      [await textOf(controlPlane, "agent-mode"), await textOf(controlPlane, "agent-why")],
      ["explicit-only", "no-peers"],
    );
    await goesOnAlone(controlPlane);
    await worker.boot();
    await cluster.untilUp(worker);
    // The worker is the peer of the control plane, and the survey that proposes this gives the worker none.
    await until(controlPlane, "agent-mode", "armed");
    await until(worker, "agent-why", "no-peers");
    await goesOnAlone(worker);
    assert.deepEqual(resetsOf(cluster.machines), []);
  });

  test("where the port of peers is blocked the agents are explicit-only before an outage, an Event says so, and they are armed again (F29)", async () => {
    assert.ok(worker && other);
    await other.boot();
    await cluster.untilUp(other);
    await cluster.untilAllArmed();
    await worker.setReaches([other.address], false);
    for (const machine of [worker, other]) await until(machine, "agent-why", "peers-silent");
    const name = worker.name;
    await eventually("the Event", timeoutMs, async () => {
      const { items } = await cluster.api.get<{
        items: readonly { reason: string; involvedObject: { name: string } }[];
      }>("/api/v1/namespaces/default/events");
      const isIt = ({ reason, involvedObject }: (typeof items)[number]) =>
        reason === "AgentNotArmed" && involvedObject.name === name;
      return items.some(isIt) ? true : undefined;
    });
    await goesOnAlone(worker);
    await worker.setReaches([other.address], true);
    await cluster.untilAllArmed();
    assert.deepEqual(resetsOf(cluster.machines), []);
  });

  test("while the one control-plane node is away for minutes, its workers excuse each other, and none is reset (F28)", async () => {
    assert.ok(controlPlane && worker && other);
    await cluster.controlPlane.stopApiServer();
    await controlPlane.powerOff();
    await fed(minutes, worker, other);
    await cluster.controlPlane.startApiServer();
    await controlPlane.boot();
    await cluster.untilUp(controlPlane);
    await cluster.untilAllArmed();
    assert.deepEqual(resetsOf([worker, other]), []);
  });

  test("where API server and network are away, each node is reset once, and not again before it has reached the API server (F5)", async () => {
    const { machines } = cluster;
    const before = resetsOf(machines).length;
    const boots = machines.map(({ bootId }) => bootId);
    await cluster.controlPlane.stopApiServer();
    for (const machine of machines) {
      machine.bootsAgain = true;
      const others = machines.filter((one) => one !== machine).map(({ address }) => address);
      await machine.setCuts({ ...noCuts, lost: others });
    }
    for (const machine of machines)
      await eventually(`renewals of the new boot of ${machine.name}`, timeoutMs, async () => {
        if (boots.includes(machine.bootId)) return undefined;
        const page = await fetch(`http://${machine.address}:9843/metrics`).then(
          (answer) => answer.text(),
          () => "",
        );
        return Number(/^sluice_agent_renewals_failed_total (\d+)$/m.exec(page)?.[1]) >= longerThanALoop
          ? true
          : undefined;
      });
    assert.deepEqual(
      machines.map(({ hardware }) => hardware.isRunning),
      machines.map(() => false),
      "no watchdog runs before the first success",
    );
    for (const machine of machines) await machine.setCuts(noCuts);
    await cluster.controlPlane.startApiServer();
    for (const machine of machines) await cluster.untilUp(machine);
    const resets = resetsOf(machines).slice(before);
    assert.deepEqual(
      machines.map(({ resets }) => [resets.at(-1)?.cause, resets.at(-1)?.bootId]),
      boots.map((bootId) => ["watchdog", bootId]),
    );
    assert.equal(resets.length, machines.length, "each of them once");
  });
});
