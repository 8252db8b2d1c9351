/**
 * The agents are updated: the real controller of DaemonSets replaces their pods by the strategy that is rendered for them. The
 * pods run the shipped agent in played machines, and the image of the new version is pulled for long (A8).
 */
import assert from "node:assert/strict";
import { after, afterEach, before, describe, test } from "node:test";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { AgentUpdates } from "./agent-updates.ts";
import { environmentWith } from "./changed-sources.ts";
import { FencingCluster, watchdogMs } from "./cluster.ts";
import { skipWithoutNamespaces } from "./network.ts";

const timeoutMs = 60_000;
/** A minute for a watchdog of 10 s, as all times here. */
const pulledForMs = 6 * watchdogMs;
const scale = watchdogMs / 10_000;
const skip = (await skipWithoutControlPlane()) || (await skipWithoutNamespaces());

/** A driver whose device cannot be stopped: its attribute stands in sysfs, where a FIFO has none. */
const noWayOut = environmentWith([
  {
    file: "functions/fence-node/agent/device.ts",
    text: 'return kindOf(this.#path) === "device" && this.#attribute("nowayout") === "1";',
    instead: "return true;",
  },
]);

const cases = [
  { machineName: "node-1", device: "a watchdog that can be stopped", isNoWayOut: false, env: {} },
  { machineName: "node-2", device: "nowayout", isNoWayOut: true, env: noWayOut },
];

describe("an update of the agents, on the real API server", { skip, concurrency: true }, () => {
  let cluster: FencingCluster;

  before(async () => {
    cluster = await FencingCluster.start(2);
    await cluster.armAll();
  });

  afterEach((context) => cluster.printLogsOf(context));

  after(() => cluster?.stop());

  for (const { machineName, device, isNoWayOut, env } of cases)
    test(`whose new pod starts a minute late resets nothing: the old agent feeds ${device} until the new one has begun (F30)`, async () => {
      const machine = cluster.machine(machineName);
      assert.equal(await machine.stopAgent(), 0);
      machine.hardware.isNoWayOut = isNoWayOut;
      const updates = new AgentUpdates({ cluster, scale, timeoutMs });
      const old = await updates.begin(machine, env);
      const keyBefore = await cluster.keyOf(machine.name);
      assert.notEqual(await updates.update(machine, env, pulledForMs), old);
      assert.equal(await cluster.keyOf(machine.name), keyBefore, "its peers know it by the same key");
      const waits = machine.log.split("port 9843 is taken").length - 1;
      assert.equal(waits, 1, "the new agent has waited beside the old one");
      assert.deepEqual(machine.resets, []);
    });
});
