/**
 * A node that can be reached is fenced: the shipped function and the shipped agents, a real API server and its controllers, and
 * machines that are really reset.
 */
import assert from "node:assert/strict";
import { after, afterEach, before, describe, test } from "node:test";
import { ApiError, eventually } from "../controlplane/api.ts";
import { readAudit } from "../controlplane/audit.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";
import { FencingCluster, leasePath, type NodeObject, namespace } from "./cluster.ts";
import type { Machine } from "./machine.ts";
import { skipWithoutNamespaces } from "./network.ts";

const timeoutMs = 90_000;
const key = (name: string) => `sluice.dev/${name}`;
const outOfService = "node.kubernetes.io/out-of-service";
const skip = (await skipWithoutControlPlane()) || (await skipWithoutNamespaces());

interface BoundPod {
  readonly metadata: { readonly uid: string; readonly deletionTimestamp?: string };
  readonly spec: { readonly nodeName?: string };
}

/** Of another client: a fence leaves it as it is (A7). */
const foreign = {
  metadata: { labels: { "example.com/rack": "7" }, annotations: { "example.com/owner": "storage" } },
  spec: { taints: [{ key: "example.com/slow", effect: "PreferNoSchedule" }] },
};

// Each has a machine of its own. The first one is back long before it gets what has to leave the second one.
describe("a fence of a node that can be reached, on the real API server", { skip, concurrency: true }, () => {
  let cluster: FencingCluster;
  let server: Server;

  before(async () => {
    cluster = await FencingCluster.start(2);
    const { kubeconfig } = cluster.controlPlane;
    const settings = { FUNCTION: "fence-node", FENCE_NAMESPACE: namespace };
    server = await Server.start({ kubeconfig, namespace, settings });
  });

  afterEach((context) => {
    if (!("passed" in context) || context.passed) return;
    console.error(cluster.logs);
    for (const line of server.log) console.error(JSON.stringify(line));
  });

  after(async () => {
    await server?.stop();
    await cluster?.stop();
  });

  /** A StatefulSet of one pod on a node, or on any. Resolves when the pod runs. */
  async function startPod(name: string, node?: string): Promise<BoundPod> {
    const place = node === undefined ? {} : { nodeSelector: { "kubernetes.io/hostname": node } };
    const spec = {
      serviceName: name,
      replicas: 1,
      selector: { matchLabels: { name } },
      template: {
        metadata: { labels: { name } },
        spec: { ...place, containers: [{ name: "app", image: "app:1" }] },
      },
    };
    const path = "/apis/apps/v1/namespaces/default/statefulsets";
    await cluster.api.post(path, { apiVersion: "apps/v1", kind: "StatefulSet", metadata: { name }, spec });
    return eventually(`${name}-0 runs`, timeoutMs, async () => {
      const pod = await podOf(name);
      return pod !== undefined && runsOf(name).some(({ uid }) => uid === pod.metadata.uid) ? pod : undefined;
    });
  }

  async function podOf(name: string): Promise<BoundPod | undefined> {
    try {
      return await cluster.api.get<BoundPod>(`/api/v1/namespaces/default/pods/${name}-0`);
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    }
  }

  const runsOf = (name: string) => cluster.runs.filter(({ pod }) => pod === `default/${name}-0`);
  const mark = (node: string) =>
    cluster.patchNode(node, { metadata: { annotations: { [key("unhealthy")]: "disk failed" } } });

  /** Resolves when nothing of the fence is left (A6). */
  async function untilClean({ name }: Machine): Promise<void> {
    await eventually(`${name} is clean`, timeoutMs, async () => {
      const [node, lease] = await Promise.all([cluster.node(name), cluster.agentLease(name)]);
      const isArmed = lease.metadata.annotations?.[key("fence-armed")] !== undefined;
      return !isArmed && ours(node).length === 0 && !(await hasRecord(name)) ? true : undefined;
    });
  }

  async function hasRecord(name: string): Promise<boolean> {
    const { statusCode, body } = await cluster.api.send("GET", leasePath(`fence-${name}`));
    await body.dump();
    return statusCode !== 404;
  }

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
    const pod = await startPod("kept", name);
    await mark(name);
    await eventually("the reset", timeoutMs, async () => (machine.resets.length > 0 ? true : undefined));
    await untilClean(machine);
    await cluster.untilUp(machine);
    await eventually("the pod runs again", timeoutMs, async () =>
      runsOf("kept").some((run) => run.bootId === machine.bootId) ? true : undefined,
    );

    assert.deepEqual(
      machine.resets.map((reset) => [reset.cause, reset.bootId]),
      [["watchdog", bootId]],
      "one reset for one fence (A8)",
    );
    assert.equal((await podOf("kept"))?.metadata.uid, pod.metadata.uid);
    assert.deepEqual(
      runsOf("kept").map(({ node, uid }) => [node, uid]),
      [
        [name, pod.metadata.uid],
        [name, pod.metadata.uid],
      ],
    );
    const states = statesOf(name);
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
    const pod = await startPodFirstOn("moved", name);
    machine.bootsAgain = false;
    await mark(name);
    await eventually("the reset", timeoutMs, async () => (machine.isOn ? undefined : true));
    const waiting = await eventually("a fence that waits", timeoutMs, async () => {
      const node = await cluster.node(name);
      return node.metadata.annotations?.[key("fence-hold")] === "not-armed" ? node : undefined;
    });
    assert.equal((await podOf("moved"))?.metadata.deletionTimestamp, undefined, "no evidence: the pod stays");

    const confirmed = waiting.metadata.annotations?.[key("fence-id")];
    await cluster.patchNode(name, { metadata: { annotations: { [key("fence-confirmed")]: confirmed } } });
    const replacement = await eventually("the replacement runs", timeoutMs, async () => {
      const found = await podOf("moved");
      const isNew = found !== undefined && found.metadata.uid !== pod.metadata.uid;
      return isNew && runsOf("moved").some(({ uid }) => uid === found.metadata.uid) ? found : undefined;
    });
    assert.notEqual(replacement.spec.nodeName, name);

    await machine.boot();
    await untilClean(machine);
    await cluster.untilUp(machine);
    assert.deepEqual(
      machine.resets.map((reset) => [reset.cause, reset.bootId]),
      [["watchdog", bootId]],
    );
    assert.equal((await podOf("moved"))?.metadata.uid, replacement.metadata.uid, "it stays where it is");
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

  /** A StatefulSet of one pod that may run anywhere, and whose first pod a node gets: the others are cordoned meanwhile. */
  async function startPodFirstOn(name: string, node: string): Promise<BoundPod> {
    const others = cluster.machines.filter((machine) => machine.name !== node);
    for (const other of others) await cluster.patchNode(other.name, { spec: { unschedulable: true } });
    const pod = await startPod(name);
    for (const other of others) await cluster.patchNode(other.name, { spec: { unschedulable: null } });
    assert.equal(pod.spec.nodeName, node);
    return pod;
  }
});

/** What a fence has put on a Node. */
function ours({ metadata, spec }: NodeObject): readonly string[] {
  const annotations = Object.keys(metadata.annotations ?? {}).filter((one) => one.startsWith("sluice.dev/"));
  const taints = (spec.taints ?? [])
    .map((taint) => taint.key)
    .filter((one) => one === key("fence") || one === outOfService);
  return [...annotations, ...taints];
}
