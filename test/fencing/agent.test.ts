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

describe("the agent on a machine, beside the real API server", { skip }, () => {
  let cluster: FencingCluster;
  let machine: Machine;

  before(async () => {
    cluster = await FencingCluster.start(1);
    machine = cluster.machine("node-1");
  });

  // Node's types know no TestContext here.
  afterEach((context) => {
    if ("passed" in context && context.passed === false) console.error(cluster.logs);
  });

  after(() => cluster?.stop());

  async function annotations(): Promise<Readonly<Record<string, string>>> {
    return (await cluster.agentLease(machine.name)).metadata.annotations ?? {};
  }

  async function setTaints(taints: readonly object[]): Promise<void> {
    await cluster.patchNode(machine.name, { spec: { taints } });
  }

  /** Resolves when the agent has read its Lease, and has fed the device after that. */
  async function renewed(): Promise<void> {
    const from = Number((await annotations())[key("agent-renewals")]);
    // The second renewal from now on was sent after the first was answered, which shows what was written before.
    await eventually("two renewals", timeoutMs, async () => {
      return Number((await annotations())[key("agent-renewals")]) >= from + 2 ? true : undefined;
    });
    await fed(2);
  }

  async function fed(times: number): Promise<void> {
    const from = machine.hardware.feeds;
    await eventually(`${times} feeds`, timeoutMs, async () =>
      machine.hardware.feeds >= from + times ? true : undefined,
    );
  }

  /** Resolves to the one reset since the boot was taken, once its successor is up. */
  async function resetOnce(bootId: string, from: number): Promise<Reset> {
    await eventually("a reset", timeoutMs, async () => (machine.resets.length > from ? true : undefined));
    await eventually("another boot", timeoutMs, async () => (machine.bootId !== bootId ? true : undefined));
    await cluster.untilUp(machine);
    await fed(5);
    const [reset, ...more] = machine.resets.slice(from);
    assert.deepEqual(more, [], "no machine is reset twice (A8)");
    assert.equal(reset?.bootId, bootId);
    return reset as Reset;
  }

  test("it renews by a PATCH of its own Lease, reads that alone where a PATCH got no answer, and never lists or watches", async () => {
    const { auditLog } = cluster.controlPlane;
    const from = await auditPosition(auditLog);
    await renewed();
    await renewed();
    const calls = await Array.fromAsync(readAudit(auditLog, { from }));
    const verbs = calls.flatMap(({ userAgent, verb, resource, namespace, name }) => {
      if (userAgent !== "sluice-agent") return [];
      assert.deepEqual([resource, namespace, name], ["leases", "sluice-fencing", "agent-node-1"]);
      return [verb];
    });
    const patches = verbs.filter((verb) => verb === "patch").length;
    assert.ok(patches >= 3 && verbs.every((verb) => verb === "patch" || verb === "get"), verbs.join());
    assert.ok(verbs.length - patches < patches, verbs.join());
  });

  test("a fence of another boot, rubbish, and a fence without the taint do not stop it", async () => {
    const { bootId } = machine;
    const before = machine.resets.length;
    await setTaints([taint]);
    for (const armed of [`${randomUUID()} ${randomUUID()}`, "x".repeat(200_000), ` ${bootId}`]) {
      await cluster.patchAgentLease(machine.name, { [key("fence-armed")]: armed });
      await renewed();
    }
    await setTaints([]);
    await cluster.patchAgentLease(machine.name, { [key("fence-armed")]: null });
    assert.deepEqual([machine.bootId, machine.resets.length], [bootId, before]);
  });

  test("isolation alone never resets the node: it feeds on for longer than its permit and its watchdog last", async () => {
    const before = machine.resets.length;
    await machine.setConnected(false);
    await fed(25);
    await machine.setConnected(true);
    await cluster.untilUp(machine);
    await renewed();
    assert.equal(machine.resets.length, before);
  });

  test("an orderly stop writes the mode disarmed and stops the watchdog, and a new agent starts it again", async () => {
    const before = machine.resets.length;
    assert.equal(await machine.stopAgent(), 0);
    await eventually("the watchdog has stopped", timeoutMs, async () =>
      machine.hardware.isRunning ? undefined : true,
    );
    assert.equal((await annotations())[key("agent-mode")], "disarmed");
    machine.startAgent();
    await cluster.untilUp(machine);
    await renewed();
    assert.equal((await annotations())[key("agent-mode")], "explicit-only");
    assert.equal(machine.resets.length, before);
  });

  for (const signal of ["SIGKILL", "SIGSTOP"] as const) {
    test(`an agent that gets ${signal} does not stop the watchdog, which resets the machine`, async () => {
      const { bootId } = machine;
      const from = machine.resets.length;
      await machine.signalAgent(signal);
      assert.equal((await resetOnce(bootId, from)).cause, "watchdog");
    });
  }

  test("when its Lease names a fence of its boot, it stops feeding when the Node has the taint, is reset once, and the next boot goes on", async () => {
    assert.equal(await machine.stopAgent(), 0);
    // With a long permit nothing but the taint can end the feeding.
    machine.startAgent({ AGENT_PERMIT: "10m" });
    await cluster.untilUp(machine);
    const { bootId } = machine;
    const from = machine.resets.length;
    await cluster.patchAgentLease(machine.name, { [key("fence-armed")]: `${randomUUID()} ${bootId}` });
    await renewed();
    await renewed();
    assert.equal(machine.resets.length, from, "the taint comes first");
    await setTaints([taint]);
    assert.equal((await resetOnce(bootId, from)).cause, "watchdog");
    assert.notEqual((await annotations())[key("fence-armed")], undefined, "the agent leaves it to the function");
    await cluster.patchAgentLease(machine.name, { [key("fence-armed")]: null });
  });

  test("where the watchdog does not fire, it resets the machine after 2 W by a write to AGENT_RESET_FILE", async () => {
    const { bootId } = machine;
    const from = machine.resets.length;
    machine.hardware.setConnected(false);
    await setTaints([taint]);
    await cluster.patchAgentLease(machine.name, { [key("fence-armed")]: `${randomUUID()} ${bootId}` });
    assert.equal((await resetOnce(bootId, from)).cause, "reset-file");
    machine.hardware.setConnected(true);
  });
});
