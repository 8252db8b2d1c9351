/**
 * What may happen to a node between its mark and the end of its fence, on real machines: the shipped function and the shipped
 * agents, a real API server and its controllers. Each lane of tests has a machine of its own (A3, A7).
 */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, afterEach, before, describe, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import type { LogLine, Server } from "../support/server.ts";
import { BlockingProxy } from "./blocking-proxy.ts";
import { FencingCluster, type NodeObject, outOfService } from "./cluster.ts";
import type { Machine } from "./machine.ts";
import { skipWithoutNamespaces } from "./network.ts";
import { Pods } from "./pods.ts";
import { startScaledServer } from "./scaled-server.ts";
import { scaledTimes } from "./times.ts";

const timeoutMs = 60_000;
const key = (name: string) => `sluice.dev/${name}`;
const skip = (await skipWithoutControlPlane()) || (await skipWithoutNamespaces());

const taintsOf = ({ spec }: NodeObject) => (spec.taints ?? []).map(({ key: name, effect }) => `${name}:${effect}`);
const fenceTaint = `${key("fence")}:NoSchedule`;

describe("a fence, whatever happens to its node, on the real API server", {
  skip,
  concurrency: true,
}, () => {
  let cluster: FencingCluster;
  let proxy: BlockingProxy;
  let server: Server;
  let pods: Pods;
  /** Of the pod of each node. */
  const uids = new Map<string, string>();

  before(async () => {
    cluster = await FencingCluster.start(5, {}, scaledTimes, 4);
    const bare = cluster.machine("node-5");
    bare.hasWatchdog = false;
    await bare.boot();
    await cluster.untilUp(bare);
    pods = new Pods(cluster);
    // Each lane fences as if it were alone.
    const settings = { FENCE_STORM: "100%", FENCE_MAX_CONCURRENT: "5", FENCE_MOST_PER_HOUR: "20" };
    proxy = await BlockingProxy.start(cluster.controlPlane);
    server = await startScaledServer(proxy, settings);
    for (const { name } of cluster.machines) uids.set(name, (await pods.start(`on-${name}`, name)).metadata.uid);
    // Before any machine is away: an agent that reaches too few of its peers is explicit-only.
    await cluster.untilAllArmed(cluster.machines.filter(({ hasWatchdog }) => hasWatchdog));
  });

  afterEach((context) => cluster.printLogsOf(context, server));

  after(async () => {
    await server?.stop();
    await proxy?.close();
    await cluster?.stop();
  });

  const nodeOf = ({ name }: Machine) => cluster.node(name);
  const nodePath = ({ name }: Machine) => `/api/v1/nodes/${name}`;
  const annotate = ({ name }: Machine, annotations: Readonly<Record<string, string | null>>) =>
    cluster.patchNode(name, { metadata: { annotations } });

  const recordOf = (machine: Machine) => cluster.recordOf(machine);
  const untilRecord = (machine: Machine, field: string, wanted: string) =>
    eventually(`the record of ${machine.name} says ${field} ${wanted}`, timeoutMs, async () => {
      const record = await recordOf(machine);
      return record[field] === wanted ? record : undefined;
    });
  /** Resolves when the machine is off after a reset that has followed the act. */
  async function turnsOff(machine: Machine, act: () => Promise<unknown>): Promise<void> {
    const { length } = machine.resets;
    machine.bootsAgain = false;
    await act();
    await eventually(`${machine.name} is off`, timeoutMs, async () =>
      !machine.isOn && machine.resets.length > length ? true : undefined,
    );
  }
  const untilNode = (machine: Machine, what: string, accept: (node: NodeObject) => boolean) =>
    eventually(`${machine.name}: ${what}`, timeoutMs, async () => {
      const node = await cluster.find<NodeObject>(nodePath(machine));
      return node !== undefined && accept(node) ? node : undefined;
    });
  const readyOf = ({ status }: NodeObject) => status.conditions.find(({ type }) => type === "Ready")?.status;

  /** The fence ends clean with the machine up, and the pod is as it was: nothing has deleted it. */
  async function ends(machine: Machine): Promise<void> {
    const name = `on-${machine.name}`;
    const uid = uids.get(machine.name);
    await cluster.untilClean(machine);
    await cluster.untilUp(machine);
    await eventually(`${name}-0 runs in the new boot`, timeoutMs, async () =>
      pods.runsOf(name).some(({ bootId }) => bootId === machine.bootId) ? true : undefined,
    );
    assert.equal((await pods.of(name))?.metadata.uid, uid);
    assert.ok(pods.runsOf(name).every((run) => run.uid === uid && run.node === machine.name));
    const states = cluster.history.filter(({ metadata }) => metadata.name === machine.name);
    assert.ok(!states.some((node) => taintsOf(node).some((taint) => taint.startsWith(outOfService))));
    assert.deepEqual(cluster.overlaps, []);
  }

  describe("that is back before Kubernetes learns that it has stopped", { concurrency: 1 }, () => {
    test("a node that is cut off, and back and Ready before the time is over: its boot id is the evidence, and its pod keeps its uid (F12)", async () => {
      const machine = cluster.machine("node-1");
      const { bootId } = machine;
      await machine.setConnected(false);
      await cluster.mark(machine.name);
      await ends(machine);
      // Its permit may run out before the fence is armed, which the boot id shows as well.
      const byBoot = /: its Node reports another boot id|was started anew before its fence was armed/;
      const isEvidence = ({ object, msg }: LogLine) => object === machine.name && byBoot.test(msg);
      assert.ok(server.log.some(isEvidence));
      assert.deepEqual(
        machine.resets.map((reset) => [reset.cause, reset.bootId]),
        [["watchdog", bootId]],
      );
    });

    test("a node that is back while the taint out-of-service is being written keeps its pod: the write rests on the Node that was read (F14)", async () => {
      const machine = cluster.machine("node-1");
      const resets = machine.resets.length;
      const blocked = proxy.block(nodePath(machine), outOfService);
      await turnsOff(machine, () => cluster.mark(machine.name));
      const { "fence-id": id = "" } = await untilRecord(machine, "fence-phase", "armed");
      await untilNode(machine, "not Ready", (node) => readyOf(node) === "Unknown");
      await annotate(machine, { [key("fence-confirmed")]: id });
      await blocked.sent;
      await machine.boot();
      await untilNode(machine, "in its new boot", ({ status }) => status.nodeInfo.bootID === machine.bootId);
      assert.equal(await blocked.release(), 409);
      await ends(machine);
      assert.equal(machine.resets.length, resets + 1);
    });
  });

  test("a node that is back and not Ready keeps the taint, and once nothing is known of it for a minute it is fenced again (F13)", async () => {
    const machine = cluster.machine("node-2");
    machine.isWell = false;
    await cluster.mark(machine.name);
    const first = await untilRecord(machine, "fence-phase", "recovering");
    const back = await untilNode(machine, "not Ready", (node) => readyOf(node) === "False");
    assert.ok(taintsOf(back).includes(fenceTaint));
    const second = machine.bootId;
    assert.equal(back.status.nodeInfo.bootID, second);

    machine.isWell = true;
    await machine.signalKubelet("SIGSTOP");
    const silent = await untilNode(machine, "nothing is known", (node) => readyOf(node) === "Unknown");
    assert.ok(taintsOf(silent).includes(fenceTaint));
    assert.equal((await recordOf(machine))["fence-id"], first["fence-id"]);
    const again = await untilRecord(machine, "fence-boot-id", second);
    assert.notEqual(again["fence-id"], first["fence-id"]);
    await ends(machine);
    assert.deepEqual(
      machine.resets.map((reset) => [reset.cause, reset.bootId]),
      [
        ["watchdog", first["fence-boot-id"]],
        ["watchdog", second],
      ],
      "one reset for each fence (A8)",
    );
  });

  test("a fence waits for another tool, resets a machine without a watchdog, and goes on without its mark and its taint (F21, F22, F27, F32)", async () => {
    const machine = cluster.machine("node-5");
    const foreign = { key: "remediation.medik8s.io/self-node-remediation", effect: "NoSchedule" };
    assert.equal((await cluster.agentLease(machine.name)).metadata.annotations?.[key("agent-why")], "no-watchdog");
    await cluster.patchNode(machine.name, { spec: { taints: [foreign] } });
    await cluster.mark(machine.name);
    await untilRecord(machine, "fence-hold", "foreign-fence");
    assert.ok(machine.isOn && !taintsOf(await nodeOf(machine)).includes(fenceTaint), "nothing has happened to it");
    await turnsOff(machine, () => cluster.patchNode(machine.name, { spec: { taints: [] } }));
    assert.equal(machine.resets.at(-1)?.cause, "reset-file");
    await untilRecord(machine, "fence-hold", "not-armed");

    await annotate(machine, { [key("unhealthy")]: null });
    const { spec } = await nodeOf(machine);
    const others = spec.taints?.filter((taint) => taint.key !== key("fence")) ?? [];
    await cluster.patchNode(machine.name, { spec: { taints: others } });
    await untilNode(machine, "the taint is put back", (node) => taintsOf(node).includes(fenceTaint));
    assert.equal((await recordOf(machine))["fence-phase"], "armed", "no evidence: the fence goes on without a mark");
    await machine.boot();
    await ends(machine);
    assert.equal(machine.resets.length, 1);
  });

  describe("whose Node or machine is another one", { concurrency: 1 }, () => {
    test("a Node that a person deletes is not made again, and the fence goes on when its machine has registered it (F19)", async () => {
      const machine = cluster.machine("node-4");
      await turnsOff(machine, () => cluster.mark(machine.name));
      await untilRecord(machine, "fence-phase", "armed");
      await cluster.api.delete(nodePath(machine));
      await untilRecord(machine, "fence-hold", "node-gone");
      assert.equal(await cluster.find(nodePath(machine)), undefined);
      await machine.boot();
      await ends(machine);
    });

    test("another machine under the name of the node is no evidence, and a person confirms that the first one is off (F31)", async () => {
      const machine = cluster.machine("node-4");
      const resets = machine.resets.length;
      await turnsOff(machine, () => cluster.mark(machine.name));
      machine.systemUuid = randomUUID();
      await machine.boot();
      const { "fence-id": id = "", ...record } = await untilRecord(machine, "fence-hold", "another-machine");
      assert.deepEqual([record["fence-phase"], record["fence-evidence"]], ["armed", undefined]);
      await annotate(machine, { [key("fence-confirmed")]: id });
      await ends(machine);
      assert.equal(machine.resets.length, resets + 1);
    });
  });

  describe("whose machine is not reset at once, or whose Node is deleted", { concurrency: 1 }, () => {
    test("where neither the watchdog nor the kernel resets the machine, the fence waits for a person who does (F11)", async () => {
      const machine = cluster.machine("node-3");
      machine.hardware.setConnected(false);
      machine.obeysResetFile = false;
      await cluster.mark(machine.name);
      const { "fence-evidence": evidence } = await untilRecord(machine, "fence-hold", "still-alive");
      assert.deepEqual([evidence, machine.resets], [undefined, []]);
      await machine.powerOff();
      machine.hardware.setConnected(true);
      machine.obeysResetFile = true;
      await machine.boot();
      await ends(machine);
    });

    test("a Node that the fence has deleted, and that its kubelet registers first, gets back what it had (F20)", async () => {
      const machine = cluster.machine("node-3");
      await annotate(machine, { [key("fence-strategy")]: "node-deletion", "example.com/owner": "storage" });
      const { metadata } = await cluster.patchNode(machine.name, {
        metadata: { labels: { "example.com/rack": "7" } },
        spec: { taints: [{ key: "example.com/slow", effect: "PreferNoSchedule" }] },
      });
      await turnsOff(machine, () => cluster.mark(machine.name));
      const { "fence-id": id = "" } = await untilRecord(machine, "fence-phase", "armed");
      await untilNode(machine, "not Ready", (node) => readyOf(node) === "Unknown");
      await annotate(machine, { [key("fence-confirmed")]: id });
      await untilRecord(machine, "fence-phase", "deleted");
      await machine.boot();
      const returned = await untilNode(
        machine,
        "its own again",
        (node) => node.metadata.labels?.["example.com/rack"] === "7",
      );
      assert.notEqual(returned.metadata.uid, metadata.uid);
      assert.equal(returned.metadata.annotations?.["example.com/owner"], "storage");
      assert.ok(taintsOf(returned).includes("example.com/slow:PreferNoSchedule"));
      await annotate(machine, { [key("fence-strategy")]: null });
      await ends(machine);
    });
  });
});
