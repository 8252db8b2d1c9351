/**
 * A node that nothing reaches is fenced: the shipped function and the shipped agents, a real API server and its controllers, and
 * machines that are really cut off. Each peer is proposed by the function.
 */
import assert from "node:assert/strict";
import { after, afterEach, before, describe, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";
import { FencingCluster, namespace, outOfService } from "./cluster.ts";
import type { Machine } from "./machine.ts";
import { skipWithoutNamespaces } from "./network.ts";
import { Pods } from "./pods.ts";

const timeoutMs = 90_000;
const key = (name: string) => `sluice.dev/${name}`;
const skip = (await skipWithoutControlPlane()) || (await skipWithoutNamespaces());

describe("a fence of a node that nothing reaches, on the real API server", { skip, concurrency: 1 }, () => {
  let cluster: FencingCluster;
  let server: Server;
  let pods: Pods;

  before(async () => {
    cluster = await FencingCluster.start(4);
    pods = new Pods(cluster);
    const { kubeconfig } = cluster.controlPlane;
    // A cut makes most of these four nodes not Ready, and the brake would keep the fence from being armed.
    const settings = { FUNCTION: "fence-node", FENCE_NAMESPACE: namespace, FENCE_STORM: "100%" };
    server = await Server.start({ kubeconfig, namespace, settings });
    await cluster.untilAllArmed();
  });

  afterEach((context) => cluster.printLogsOf(context, server));

  after(async () => {
    await server?.stop();
    await cluster?.stop();
  });

  const annotationsOf = async (lease: string) =>
    (await cluster.api.get<{ metadata: { annotations?: Readonly<Record<string, string>> } }>(lease)).metadata
      .annotations ?? {};
  const causeOf = async ({ name }: Machine) => (await cluster.node(name)).metadata.annotations?.[key("fence-hold")];
  const waitsFor = (machine: Machine, guard: string) =>
    eventually(`${machine.name} waits for ${guard}`, timeoutMs, async () =>
      (await causeOf(machine)) === guard ? true : undefined,
    );

  // First, because a node that was reset has another key, and its peers know it only after the next survey.
  test("a part in which the nodes excuse each other: no evidence comes until the partition ends (F7)", async () => {
    const machine = cluster.machine("node-2");
    const part = cluster.machines.filter(({ name }) => name !== "node-4");
    const outside = cluster.machine("node-4");
    const pod = await pods.start("excused", machine.name);
    const cut = async (isCut: boolean) => {
      for (const one of part) await one.setReaches([cluster.apiAddress, outside.address], !isCut);
    };
    const resets = () => cluster.machines.flatMap((one) => one.resets).length;
    const before = resets();
    await cut(true);
    await cluster.mark(machine.name);
    await waitsFor(machine, "quorum");
    assert.equal(resets(), before, "most peers of each node do not reach the API server either");
    assert.equal((await pods.of("excused"))?.metadata.deletionTimestamp, undefined);
    const { bootId } = machine;
    await cut(false);
    await cluster.untilClean(machine);
    await cluster.untilUp(machine);
    assert.equal(resets(), before + 1, "the node reads its fence, and nothing else is reset");
    assert.notEqual(machine.bootId, bootId);
    assert.equal((await pods.of("excused"))?.metadata.uid, pod.metadata.uid, "after a new boot id nothing is deleted");
    assert.deepEqual(cluster.overlaps, []);
  });

  test("by time: the node is cut off and stays off, and the pod runs elsewhere without a word of a person (F3)", async () => {
    const machine = cluster.machine("node-1");
    const { name, bootId } = machine;
    const pod = await pods.startFirstOn("cut", name);
    machine.bootsAgain = false;
    await machine.setConnected(false);
    await cluster.mark(name);
    const replacement = await pods.replacementOf("cut", pod);
    assert.notEqual(replacement.spec.nodeName, name);
    assert.deepEqual(
      machine.resets.map((reset) => [reset.cause, reset.bootId]),
      [["watchdog", bootId]],
    );
    const last = Math.max(...pods.runsOf("cut").flatMap((run) => (run.uid === pod.metadata.uid ? [run.lastMs] : [])));
    const released = cluster.history.find(
      ({ metadata, spec }) => metadata.name === name && spec.taints?.some((taint) => taint.key === outOfService),
    );
    assert.equal(released?.status.nodeInfo.bootID, bootId, "the Node never named another boot");
    assert.ok(pods.runsOf("cut").some((run) => run.uid === replacement.metadata.uid && run.firstMs > last));
    assert.deepEqual(cluster.overlaps, []);
    const record = await annotationsOf(`/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/fence-${name}`);
    assert.equal(record[key("fence-evidence")], "time");

    machine.bootsAgain = true;
    await machine.boot();
    await cluster.untilClean(machine);
    await cluster.untilUp(machine);
    assert.equal((await pods.of("cut"))?.metadata.uid, replacement.metadata.uid, "it stays where it is");
  });
});
