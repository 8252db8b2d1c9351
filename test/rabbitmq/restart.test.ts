/**
 * The stop gate alone keeps a real RabbitMQ through a rolling restart, which the real StatefulSet controller makes, and lets go
 * by its marker.
 */
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import type { StatefulSet } from "../controlplane/fixtures.ts";
import { skipWithoutControlPlane } from "../stage/scene.ts";
import { Nodes } from "./nodes.ts";
import { packagesForTests } from "./packages.ts";
import { type Ending, Pods, RUN_BY_US } from "./pods.ts";
import { makeQuorumQueue } from "./queues.ts";
import { Sampler } from "./sampler.ts";
import { Traffic } from "./traffic.ts";

const packages = await packagesForTests();
const skip = packages === undefined || (await skipWithoutControlPlane());

const namespace = "broker";
const queue = "orders";
const size = 3;
const messages = 10_000;
const graceSeconds = 600;
const setPath = `/apis/apps/v1/namespaces/${namespace}/statefulsets/rabbitmq`;
const podPath = (ordinal: number) => `/api/v1/namespaces/${namespace}/pods/rabbitmq-${ordinal}`;
const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`;

/** Updated by the controller, one pod after another; the gate is all that holds the next one back. */
function statefulSet(): object {
  const labels = { app: "rabbitmq" };
  return {
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    metadata: { name: "rabbitmq", namespace },
    spec: {
      replicas: size,
      serviceName: "rabbitmq",
      podManagementPolicy: "Parallel",
      updateStrategy: { type: "RollingUpdate" },
      selector: { matchLabels: labels },
      template: {
        metadata: { labels, annotations: { ...RUN_BY_US, release: "1" } },
        spec: {
          terminationGracePeriodSeconds: graceSeconds,
          containers: [{ name: "rabbitmq", image: "rabbitmq:3.10" }],
        },
      },
    },
  };
}

suite("the stop gate in pods of the real API server", { skip }, () => {
  let controlPlane: ControlPlane;
  let api: Api;
  let nodes: Nodes;
  let pods: Pods;
  let byPerson: string;

  before(async () => {
    if (packages === undefined) return;
    [controlPlane, nodes] = await Promise.all([startControlPlane(), Nodes.make(packages, size)]);
    api = await Api.open(controlPlane, { userAgent: "sluice-test-rabbitmq" });
    await api.post("/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } });
    byPerson = join(controlPlane.directory, "skip-by-person");
    const settings = { STOP_GATE_GRACE_SECONDS: String(graceSeconds), STOP_GATE_POLL_SECONDS: "1" };
    pods = await Pods.start(controlPlane, { namespace, nodes, shell: [packages.dash], settings, byPerson });
    await api.post(`/apis/apps/v1/namespaces/${namespace}/statefulsets`, statefulSet());
    await allReady();
    await makeQuorumQueue(nodes, queue);
  });

  after(async () => {
    await pods?.stop();
    await nodes?.close();
    await api?.close();
    await controlPlane?.stop();
  });

  async function allReady(): Promise<void> {
    await eventually("all pods are ready and of the newest revision", 300_000, async () => {
      assert.deepEqual(pods.problems, []);
      const { status } = await api.get<StatefulSet>(setPath);
      return status?.readyReplicas === size && status.updatedReplicas === size ? true : undefined;
    });
  }

  /** What is next to end in a pod, from now on. */
  async function nextEnding(ordinal: number, act: () => Promise<unknown>): Promise<Ending> {
    const before = pods.endings.length;
    await act();
    return eventually(`rabbitmq-${ordinal} ends`, 120_000, async () =>
      pods.endings.slice(before).find(({ pod }) => pod === `rabbitmq-${ordinal}`),
    );
  }

  const remove = (ordinal: number, body: object = {}) => api.delete(podPath(ordinal), body);

  test("rolls three nodes under load: nothing that was confirmed is lost, and the queue never lacks its majority", async (context) => {
    const traffic = new Traffic(nodes.addresses, queue);
    const sampler = new Sampler(nodes, queue);
    try {
      await traffic.fill(messages);
      assert.equal(traffic.confirmed, messages);
      traffic.start(2, 2);
      sampler.start();
      const startedMs = performance.now();
      await api.patch(setPath, { spec: { template: { metadata: { annotations: { release: "2" } } } } });
      await eventually("the last pod is replaced", 400_000, async () => {
        assert.deepEqual(pods.problems, []);
        return pods.endings.length >= size ? true : undefined;
      });
      await allReady();
      const tookMs = performance.now() - startedMs;
      const samples = await sampler.stop();
      await traffic.finish(120_000);
      assert.deepEqual(
        pods.endings.map(({ pod, gate, isOrderly }) => [pod, gate?.code, gate?.outcome, isOrderly]),
        [2, 1, 0].map((ordinal) => [`rabbitmq-${ordinal}`, 0, "passed", true]),
      );
      assert.deepEqual(traffic.missing, []);
      assert.ok(traffic.confirmed > messages + 50, `${traffic.confirmed} confirmed: nobody published meanwhile`);
      assert.ok(samples.leastOnline >= 2, JSON.stringify(samples));
      assert.ok(samples.taken >= 20 && samples.answered >= samples.taken / 2, JSON.stringify(samples));
      assert.ok(samples.mostOnline === size && samples.leastOnline < size, "what samples cannot see they cannot prove");
      context.diagnostic(
        `rolled in ${seconds(tookMs)}, hooks ${pods.endings.map(({ hookMs }) => seconds(hookMs)).join(", ")}; ` +
          `${traffic.confirmed} confirmed, ${traffic.unconfirmed} not, ${traffic.deliveries} deliveries, ` +
          `longest time without a confirm ${seconds(traffic.longestGapMs)}; ${JSON.stringify(samples)}`,
      );
    } finally {
      await sampler.stop();
      traffic.close();
    }
  });

  test("with one node down a gate blocks, says which queue, and goes by the marker alone, or when its grace period ends", async (context) => {
    await nodes.stop(0, 0);
    const isCritical = async (ordinal: number) => {
      const gate = await eventually(`a gate in rabbitmq-${ordinal}`, 30_000, async () =>
        pods.gateOf(`rabbitmq-${ordinal}`),
      );
      const line = await gate.said(/^waits \(quorum-critical\)/, 60_000);
      assert.match(
        line,
        new RegExp(`queue '${queue}' in vhost '/' would lose quorum if node ${nodes.nameOf(ordinal)}`),
      );
      return gate;
    };

    // Without a marker, with 12 s in place of a week.
    const hung = await nextEnding(2, async () => {
      await remove(2, { gracePeriodSeconds: 12 });
      await isCritical(2);
    });
    assert.equal(hung.gate, undefined, "its grace period ended it");
    assert.ok(hung.hookMs >= 11_900, seconds(hung.hookMs));
    await allReady();

    // The label is there before the pod is deleted, as mark-skip-label sees to.
    await api.patch(podPath(2), { metadata: { labels: { skipPreStopChecks: "true" } } });
    const { marker } = await pods.filesOf("rabbitmq-2");
    await eventually("the volume has the label", 30_000, async () =>
      (await readFile(marker, "utf8")) === "true" ? true : undefined,
    );
    const released = await nextEnding(2, () => remove(2));
    assert.deepEqual([released.gate?.code, released.gate?.outcome], [0, "skip-marker"]);
    assert.ok(released.hookMs < 10_000, seconds(released.hookMs));
    await allReady();

    // The label comes too late: the volume of a pod that terminates stands still. What a person writes helps.
    let waitedMs = 0;
    const byHand = await nextEnding(1, async () => {
      await remove(1);
      const gate = await isCritical(1);
      const file = (await pods.filesOf("rabbitmq-1")).marker;
      await api.patch(podPath(1), { metadata: { labels: { skipPreStopChecks: "true" } } });
      const labelledMs = performance.now();
      await delay(3_000);
      assert.ok(gate.isRunning(), "a label that came too late has let it go");
      assert.equal(await readFile(file, "utf8"), "");
      waitedMs = performance.now() - labelledMs;
      await writeFile(byPerson, "true");
    });
    assert.deepEqual([byHand.gate?.code, byHand.gate?.outcome], [0, "skip-marker"]);
    context.diagnostic(
      `from the delete to the end of the hook: ${seconds(released.hookMs)} with the marker, ` +
        `${seconds(hung.hookMs)} without it (all of a grace period of 12 s); ` +
        `with a label that came too late not in ${seconds(waitedMs)}, until a person wrote the file`,
    );
  });
});
