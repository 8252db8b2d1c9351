/**
 * A user deletes a RabbitmqCluster while a queue is critical: the stop gates of its nodes wait, and mark-skip-label ends that.
 */
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { after, before, suite, test } from "node:test";
import { markSkipLabel } from "../../functions/mark-skip-label/function.ts";
import { eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { runKubectl } from "../support/drain.ts";
import { packagesForTests } from "../support/packages.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";
import { Broker, nameOf, seconds } from "./broker.ts";
import type { Ending } from "./pods.ts";

const packages = await packagesForTests();
const skip = packages === undefined || (await skipWithoutControlPlane());
const namespace = "deleted";
const owners = `/apis/rabbitmq.com/v1beta1/namespaces/${namespace}/rabbitmqclusters`;
/** Time of a grace period that is reserved for drain and stop; the rest is for the checks. */
const settings = { STOP_GATE_DRAIN_SECONDS: "2", STOP_GATE_RESERVE_SECONDS: "3" };
const checksIn = (graceSeconds: number) => graceSeconds - 5;
const waitsForOrders = /^waits \(quorum-critical\).*queue 'orders' in vhost '\/' would lose quorum/;

interface Owner {
  readonly metadata: { readonly uid: string; readonly finalizers?: readonly string[] };
}

suite("the deletion of a RabbitmqCluster on the real API server", { skip }, () => {
  let controlPlane: ControlPlane;
  let broker: Broker;

  before(async () => {
    if (packages === undefined) return;
    controlPlane = await startControlPlane();
    const crds = new URL("../fixtures/crds", import.meta.url).pathname;
    for (const args of [
      ["apply", "-k", crds],
      ["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"],
    ]) {
      const { code, stderr } = await runKubectl(controlPlane, ...args);
      assert.equal(code, 0, stderr);
    }
    broker = await Broker.open(packages, controlPlane, { namespace, settings });
  });

  after(async () => {
    await broker?.close();
    await controlPlane?.stop();
  });

  async function createOwner(name: string): Promise<object> {
    const [apiVersion, kind] = ["rabbitmq.com/v1beta1", "RabbitmqCluster"];
    const metadata = { name, annotations: { "sluice.dev/skip-label": "skipPreStopChecks" } };
    const made = await broker.api.post<Owner>(owners, { apiVersion, kind, metadata, spec: { replicas: 3 } });
    return { apiVersion, kind, name, uid: made.metadata.uid, controller: true, blockOwnerDeletion: true };
  }

  /**
   * Waits until the garbage collector knows the kind. It looks for new kinds twice a minute, which the test must not measure.
   */
  async function collectorKnows(): Promise<void> {
    const { api } = broker;
    const owned = `/api/v1/namespaces/${namespace}/configmaps`;
    const metadata = { name: "owned", ownerReferences: [await createOwner("first")] };
    await api.post(owned, { apiVersion: "v1", kind: "ConfigMap", metadata });
    await api.delete(`${owners}/first`, { propagationPolicy: "Background" });
    await eventually("what a RabbitmqCluster owns is collected", 120_000, async () =>
      (await api.send("GET", `${owned}/owned`)).statusCode === 404 ? true : undefined,
    );
  }

  /** Creates the cluster, and ends the node of its first pod: from then on each of the others is needed. */
  async function createCritical(graceSeconds: number): Promise<void> {
    const ownerReferences = [await createOwner("orders")];
    await broker.createSet({ strategy: "RollingUpdate", graceSeconds, ownerReferences });
    await broker.nodes.stop(0, 0);
  }

  /** Waits until the pods of these ordinals have ended. Resolves to their endings in that order. */
  async function endingsOf(ordinals: readonly number[], from: number): Promise<Ending[]> {
    return eventually("the pods have ended", 120_000, async () => {
      const { endings, problems } = broker.pods;
      assert.deepEqual(problems, []);
      const found = ordinals.map((ordinal) => endings.slice(from).find(({ pod }) => pod === nameOf(ordinal)));
      return found.every((ending) => ending !== undefined) ? found : undefined;
    });
  }

  async function allGone(): Promise<void> {
    const lists = [
      `/api/v1/namespaces/${namespace}/pods`,
      `/apis/apps/v1/namespaces/${namespace}/statefulsets`,
      owners,
    ];
    await eventually("the owner and all that it owned are gone", 120_000, async () => {
      const found = await Promise.all(lists.map((path) => broker.api.get<{ items: object[] }>(path)));
      return found.every(({ items }) => items.length === 0) ? true : undefined;
    });
  }

  const remove = () => broker.api.delete(`${owners}/orders`, { propagationPolicy: "Background" });

  /** Time from `startedMs` to the end of the last of these hooks. */
  function sinceOf(startedMs: number, endings: readonly Ending[]): number {
    return Math.max(...endings.map(({ atMs }) => atMs)) - startedMs;
  }

  test("without mark-skip-label the gates of needed nodes wait until the end of the grace period", async (context) => {
    const graceSeconds = 35;
    await Promise.all([collectorKnows(), createCritical(graceSeconds)]);
    const startedMs = performance.now();
    await remove();
    const needed = await endingsOf([1, 2], 0);
    for (const { gate, hookMs } of needed) {
      assert.deepEqual([gate?.code, gate?.outcome], [1, "grace-over"]);
      assert.ok(
        gate?.lines.some((line) => waitsForOrders.test(line)),
        gate?.lines.join("\n"),
      );
      assert.ok(hookMs >= (checksIn(graceSeconds) - 1) * 1_000, seconds(hookMs));
    }
    await allGone();
    const took = seconds(sinceOf(startedMs, needed));
    context.diagnostic(
      `from the delete to the end of the last hook: ${took}, with a grace period of ${graceSeconds} s`,
    );
  });

  test("with it they end as soon as their pods have the label; a gate that was terminating before ends by a user's marker", async (context) => {
    const { api, pods } = broker;
    const from = pods.endings.length;
    const server = await Server.start({
      kubeconfig: controlPlane.kubeconfig,
      namespace,
      settings: { FUNCTION: markSkipLabel.name, SKIP_LABEL_WAIT: "2s" },
    });
    try {
      const graceSeconds = 600;
      await createCritical(graceSeconds);
      await eventually("the owner is held", 60_000, async () => {
        const { finalizers = [] } = (await api.get<Owner>(`${owners}/orders`)).metadata;
        return finalizers.includes("sluice.dev/release-prestop") ? true : undefined;
      });
      await api.delete(broker.podPath(2));
      const gate = await eventually("a gate in rabbitmq-2", 30_000, async () => pods.gateOf(nameOf(2)));
      await gate.reported(waitsForOrders, 60_000);

      const startedMs = performance.now();
      await remove();
      const released = await endingsOf([0, 1], from);
      for (const { gate: ended } of released) assert.deepEqual([ended?.code, ended?.outcome], [0, "skip-marker"]);
      const tookMs = sinceOf(startedMs, released);
      const unreachable = await eventually("an Event reports the pod that was terminating", 60_000, async () => {
        const path = `/api/v1/namespaces/${namespace}/events?fieldSelector=reason=MarkerUnreachable`;
        return (await api.get<{ items: { message: string }[] }>(path)).items[0];
      });
      assert.match(unreachable.message, /rabbitmq-2/);
      assert.ok(gate.isRunning(), "a label that came too late has let it go");
      await writeFile(broker.byPerson, "true");
      const [byHand] = await endingsOf([2], from);
      assert.equal(byHand?.gate?.outcome, "skip-marker");
      await allGone();
      const took = `${seconds(tookMs)}, with a grace period of ${graceSeconds} s, and 2 s for kubelet to show the label`;
      context.diagnostic(`from the delete to the end of the last hook: ${took}; then: ${unreachable.message}`);
    } finally {
      await server.stop();
    }
  });
});
