/** The shipped agent on a played machine, beside a real API server. The test does what the function does: it taints and arms. */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, afterEach, before, describe, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { auditPosition, readAudit } from "../controlplane/audit.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { FencingCluster } from "./cluster.ts";
import type { Machine, Reset } from "./machine.ts";
import { skipWithoutNamespaces } from "./network.ts";

const timeoutMs = 60_000;
const key = (name: string) => `sluice.dev/${name}`;
const taint = { key: key("fence"), effect: "NoSchedule" };
const skip = (await skipWithoutControlPlane()) || (await skipWithoutNamespaces());

/** One machine, and what the API server has of it. */
class Watched {
  readonly cluster: FencingCluster;
  readonly machine: Machine;

  constructor(cluster: FencingCluster, name: string) {
    this.cluster = cluster;
    this.machine = cluster.machine(name);
  }

  async annotations(): Promise<Readonly<Record<string, string>>> {
    return (await this.cluster.agentLease(this.machine.name)).metadata.annotations ?? {};
  }

  async arm(text: string | null): Promise<void> {
    await this.cluster.patchAgentLease(this.machine.name, { [key("fence-armed")]: text });
  }

  async setTaints(taints: readonly object[]): Promise<void> {
    await this.cluster.patchNode(this.machine.name, { spec: { taints } });
  }

  /** Resolves when the agent has read its Lease, and has fed the device after that. */
  async renewed(): Promise<void> {
    await this.renewedOnce();
    await this.fed(2);
  }

  /** Resolves when the agent has read its Lease. */
  async renewedOnce(): Promise<void> {
    const count = async () => Number((await this.annotations())[key("agent-renewals")]);
    const from = await count();
    // The second renewal from now on was sent after the first was answered, which shows what was written before.
    await eventually("two renewals", timeoutMs, async () => ((await count()) >= from + 2 ? true : undefined));
  }

  async fed(times: number): Promise<void> {
    const { hardware } = this.machine;
    const from = hardware.feeds;
    await eventually(`${times} feeds`, timeoutMs, async () => (hardware.feeds >= from + times ? true : undefined));
  }

  /** Runs an act that leads to a reset, and resolves to that reset once the next boot is up and feeds. */
  async resetBy(act: () => Promise<unknown>): Promise<Reset> {
    const { machine } = this;
    const { bootId } = machine;
    const from = machine.resets.length;
    await act();
    await eventually("a reset", timeoutMs, async () => (machine.resets.length > from ? true : undefined));
    await eventually("another boot", timeoutMs, async () => (machine.bootId !== bootId ? true : undefined));
    await this.cluster.untilUp(machine);
    await this.fed(3);
    const [reset, ...more] = machine.resets.slice(from);
    assert.deepEqual(more, [], "no machine is reset twice (A8)");
    assert.equal(reset?.bootId, bootId);
    return reset as Reset;
  }
}

describe("the agent on a machine, beside the real API server", { skip, concurrency: true }, () => {
  let cluster: FencingCluster;

  before(async () => {
    cluster = await FencingCluster.start(2);
  });

  afterEach((context) => cluster.printLogsOf(context));

  after(() => cluster?.stop());

  describe("that goes on", { concurrency: 1 }, () => {
    let watched: Watched;
    let machine: Machine;

    before(() => {
      watched = new Watched(cluster, "node-1");
      machine = watched.machine;
    });

    test("it renews by a PATCH of its own Lease, reads that where a PATCH got no answer, and its Node in a drill, and never lists or watches", async () => {
      const { auditLog } = cluster.controlPlane;
      const from = await auditPosition(auditLog);
      await watched.renewed();
      await watched.renewed();
      const calls = await Array.fromAsync(readAudit(auditLog, { from }));
      const verbs = calls.flatMap(({ userAgent, verb, resource, namespace, name }) => {
        if (userAgent !== "sluice-agent" || name?.endsWith("node-2")) return [];
        if (resource === "nodes" && verb === "get" && name === "node-1") return [];
        assert.deepEqual([resource, namespace, name], ["leases", "sluice-fencing", "agent-node-1"]);
        return [verb];
      });
      const patches = verbs.filter((verb) => verb === "patch").length;
      assert.ok(patches >= 3 && verbs.every((verb) => verb === "patch" || verb === "get"), verbs.join());
      assert.ok(verbs.length - patches < patches, verbs.join());
    });

    test("a fence of another boot and rubbish do not stop it, whatever the taint", async () => {
      const { bootId } = machine;
      await watched.setTaints([taint]);
      for (const armed of [`${randomUUID()} ${randomUUID()}`, `${"x".repeat(200_000)} ${bootId}`]) {
        await watched.arm(armed);
        await watched.renewed();
      }
      await watched.arm(null);
      assert.deepEqual([machine.bootId, machine.resets], [bootId, []]);
    });

    test("isolation alone never resets the node: it feeds on for longer than its permit and its watchdog last", async () => {
      await machine.setConnected(false);
      // At most five a second.
      await watched.fed(20);
      await machine.setConnected(true);
      await watched.renewed();
      assert.deepEqual(machine.resets, []);
    });

    test("an orderly stop writes the mode disarmed and stops the watchdog, and a new agent starts it again (F34)", async () => {
      assert.equal(await machine.stopAgent(), 0);
      await eventually("the watchdog has stopped", timeoutMs, async () =>
        machine.hardware.isRunning ? undefined : true,
      );
      assert.equal((await watched.annotations())[key("agent-mode")], "disarmed");
      machine.startAgent();
      await watched.renewed();
      assert.equal((await watched.annotations())[key("agent-mode")], "explicit-only");
      assert.deepEqual(machine.resets, []);
    });

    test("an agent that gets SIGSTOP leaves the watchdog running, which resets the machine (F10)", async () => {
      assert.equal((await watched.resetBy(() => machine.signalAgent("SIGSTOP"))).cause, "watchdog");
    });

    test("an agent that is stopped in an orderly way while nothing answers leaves the watchdog running (F9)", async () => {
      await machine.setConnected(false);
      const reset = await watched.resetBy(async () => assert.equal(await machine.stopAgent(), 1));
      assert.equal(reset.cause, "watchdog");
    });

    test("after three short boots in a row the agent leaves the watchdog alone, and its crash resets nothing (F8)", async () => {
      // The last test has ended one of them.
      assert.equal((await watched.resetBy(() => machine.signalAgent("SIGKILL"))).cause, "watchdog");
      const { bootId } = machine;
      const { length } = machine.resets;
      await machine.signalAgent("SIGKILL");
      const loops = async () => {
        const { [key("agent-boot-id")]: boot, [key("agent-why")]: why } = await watched.annotations();
        return boot !== bootId && why === "short-boots" ? true : undefined;
      };
      await eventually("the agent of the next boot notices the loop", timeoutMs, loops);
      const crashed = await machine.signalAgent("SIGKILL");
      await crashed.ended;
      machine.startAgent();
      await watched.renewedOnce();
      assert.equal(machine.hardware.isRunning, false);
      assert.equal(machine.resets.length, length + 1);
    });
  });

  describe("that is to be reset", { concurrency: 1 }, () => {
    let watched: Watched;
    let machine: Machine;

    before(() => {
      watched = new Watched(cluster, "node-2");
      machine = watched.machine;
    });

    test("when its Lease names a fence of its boot, it stops feeding when the Node has the taint, is reset once, and the next boot goes on", async () => {
      assert.equal(await machine.stopAgent(), 0);
      // With a long permit nothing but the taint can end the feeding.
      machine.startAgent({ AGENT_PERMIT: "10m" });
      await cluster.untilUp(machine);
      await watched.arm(`${randomUUID()} ${machine.bootId}`);
      await watched.renewed();
      await watched.renewed();
      assert.deepEqual(machine.resets, [], "the taint comes first");
      assert.equal((await watched.resetBy(() => watched.setTaints([taint]))).cause, "watchdog");
      assert.notEqual(
        (await watched.annotations())[key("fence-armed")],
        undefined,
        "the agent leaves it to the function",
      );
    });

    test("where the watchdog does not fire, it resets the machine after 2 W by a write to AGENT_RESET_FILE (F11)", async () => {
      machine.hardware.setConnected(false);
      const reset = await watched.resetBy(() => watched.arm(`${randomUUID()} ${machine.bootId}`));
      assert.equal(reset.cause, "reset-file");
      machine.hardware.setConnected(true);
    });

    test("an agent that gets SIGKILL does not stop the watchdog, which resets the machine (F8)", async () => {
      assert.equal((await watched.resetBy(() => machine.signalAgent("SIGKILL"))).cause, "watchdog");
    });
  });
});
