/**
 * A node that can be reached is fenced: the shipped function and the shipped agents, a real API server and its controllers, and
 * machines that are really reset.
 */
import assert from "node:assert/strict";
import { after, afterEach, before, describe, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { readAudit } from "../controlplane/audit.ts";
import { Plugin } from "../support/plugin.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";
import { FencingCluster, type NodeObject, namespace, outOfService } from "./cluster.ts";
import { skipWithoutNamespaces } from "./network.ts";
import { Pods } from "./pods.ts";

const timeoutMs = 90_000;
const key = (name: string) => `sluice.dev/${name}`;
const skip = (await skipWithoutControlPlane()) || (await skipWithoutNamespaces());

/** Of another client: a fence leaves it as it is (A7). */
const foreign = {
  metadata: { labels: { "example.com/rack": "7" }, annotations: { "example.com/owner": "storage" } },
  spec: { taints: [{ key: "example.com/slow", effect: "PreferNoSchedule" }] },
};

// Each has a machine of its own. The first one is fenced once the second one is confirmed, and is back long before it gets what
// has to leave the second one.
describe("a fence of a node that can be reached, on the real API server", { skip, concurrency: true }, () => {
  let cluster: FencingCluster;
  let server: Server;
  let pods: Pods;
  let plugin: Plugin;

  before(async () => {
    // No peer can ask these agents: each is explicit-only, and time is no evidence (F29).
    cluster = await FencingCluster.start(2, { HOST_IPS: "" });
    pods = new Pods(cluster);
    const { kubeconfig } = cluster.controlPlane;
    // One of two nodes is more than a storm, and the second one has to wait for its slot alone.
    const settings = { FUNCTION: "fence-node", FENCE_NAMESPACE: namespace, FENCE_STORM: "100%" };
    server = await Server.start({ kubeconfig, namespace, settings });
    plugin = await Plugin.build(cluster.controlPlane);
  });

  afterEach((context) => cluster.printLogsOf(context, server));

  after(async () => {
    await plugin?.remove();
    await server?.stop();
    await cluster?.stop();
  });

  const mark = (node: string) => cluster.mark(node);
  const waitsFor = (name: string, guard: string) =>
    eventually(`${name} waits for ${guard}`, timeoutMs, async () => {
      const node = await cluster.node(name);
      return node.metadata.annotations?.[key("fence-hold")] === guard ? node : undefined;
    });

  /** Every state of a Node since it was marked. */
  function statesOf(name: string): readonly NodeObject[] {
    const states = cluster.history.filter(({ metadata }) => metadata.name === name);
    return states.slice(states.findIndex(({ metadata }) => metadata.annotations?.[key("unhealthy")] !== undefined));
  }

  async function foreignOf(name: string): Promise<unknown> {
    const { metadata, spec } = await cluster.node(name);
    return {
      label: metadata.labels?.["example.com/rack"],
      annotation: metadata.annotations?.["example.com/owner"],
      taint: spec.taints?.find((taint) => taint.key === "example.com/slow")?.effect,
    };
  }

  test("mark, reset, new boot id: the node is clean again, and the pod keeps its uid", async () => {
    const machine = cluster.machine("node-1");
    const { name, bootId } = machine;
    await cluster.patchNode(name, foreign);
    const pod = await pods.start("kept", name);
    // The other fence has the one slot, until a person confirms it.
    await waitsFor("node-2", "not-armed");
    await mark(name);
    await eventually("the reset", timeoutMs, async () => (machine.resets.length > 0 ? true : undefined));
    await cluster.untilClean(machine);
    await cluster.untilUp(machine);
    await eventually("the pod runs again", timeoutMs, async () =>
      pods.runsOf("kept").some((run) => run.bootId === machine.bootId) ? true : undefined,
    );

    assert.deepEqual(
      machine.resets.map((reset) => [reset.cause, reset.bootId]),
      [["watchdog", bootId]],
      "one reset for one fence (A8)",
    );
    assert.equal((await pods.of("kept"))?.metadata.uid, pod.metadata.uid);
    assert.deepEqual(
      pods.runsOf("kept").map(({ node, uid }) => [node, uid]),
      [
        [name, pod.metadata.uid],
        [name, pod.metadata.uid],
      ],
    );
    const states = statesOf(name);
    const waiting = states.filter(({ metadata }) => metadata.annotations?.[key("fence-hold")] === "budget");
    assert.ok(waiting.length > 0, "it waits for its slot (A4)");
    assert.ok(!waiting.some(({ spec }) => spec.taints?.some((taint) => taint.key === key("fence"))), "untouched");
    assert.ok(states.some(({ spec }) => spec.taints?.some((taint) => taint.key === key("fence"))));
    assert.ok(!states.some(({ spec }) => spec.taints?.some((taint) => taint.key === outOfService)), "A3");
    const deletions = await Array.fromAsync(readAudit(cluster.controlPlane.auditLog));
    assert.deepEqual(
      deletions.filter(({ verb, resource, name }) => verb === "delete" && resource === "pods" && name === "kept-0"),
      [],
      "after evidence by boot id nothing is deleted (A3)",
    );
    assert.deepEqual(cluster.overlaps, []);
    assert.deepEqual(await foreignOf(name), { label: "7", annotation: "storage", taint: "PreferNoSchedule" });
  });

  test("the machine stays off until a person confirms: the pod runs elsewhere, and the machine returns clean", async () => {
    const machine = cluster.machine("node-2");
    const { name, bootId } = machine;
    // The pod may run on any machine, and this one gets it first.
    const pod = await pods.startFirstOn("moved", name);
    machine.bootsAgain = false;
    const { code, stderr } = await plugin.sluice(`fence ${name}`);
    assert.equal(code, 0, stderr);
    await eventually("the reset", timeoutMs, async () => (machine.isOn ? undefined : true));
    const waiting = await waitsFor(name, "not-armed");
    await waitsFor("node-1", "budget");
    assert.equal((await pods.of("moved"))?.metadata.deletionTimestamp, undefined, "no evidence: the pod stays");

    const confirmed = waiting.metadata.annotations?.[key("fence-id")];
    const { stdout } = await plugin.sluice("fenced");
    assert.match(stdout, new RegExp(`^${name} +armed +\\d+ s +- +not-armed `, "m"));
    // It is refused while the Node is Ready, which it is until Kubernetes misses its kubelet.
    await eventually("the confirmation", timeoutMs, async () => {
      const { code, stderr } = await plugin.sluice(`confirm ${name} --yes`);
      if (code !== 0) assert.match(stderr, /is Ready, so its machine runs/);
      return code === 0 ? true : undefined;
    });
    const replacement = await pods.replacementOf("moved", pod);
    assert.notEqual(replacement.spec.nodeName, name);

    await machine.boot();
    await cluster.untilClean(machine);
    await cluster.untilUp(machine);
    assert.deepEqual(
      machine.resets.map((reset) => [reset.cause, reset.bootId]),
      [["watchdog", bootId]],
    );
    assert.equal((await pods.of("moved"))?.metadata.uid, replacement.metadata.uid, "it stays where it is");
    assert.deepEqual(cluster.overlaps, []);
    for (const { spec, metadata } of statesOf(name)) {
      if (!spec.taints?.some((taint) => taint.key === outOfService)) continue;
      assert.ok(
        spec.taints.some((taint) => taint.key === key("fence")),
        "our taint is there first (A2)",
      );
      assert.equal(metadata.annotations?.[key("fence-confirmed")], confirmed, "and so is the evidence (A2)");
    }
  });
});
