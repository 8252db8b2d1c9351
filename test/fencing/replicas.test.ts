/**
 * Both replicas of the function run on the nodes that are to be fenced, as they are installed: pods of a Deployment with the
 * rendered tolerations, in played machines. Nothing else fences here.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, afterEach, before, describe, test } from "node:test";
import { loadAll } from "js-yaml";
import { eventually } from "../controlplane/api.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { FencingCluster, namespace } from "./cluster.ts";
import type { Machine } from "./machine.ts";
import { skipWithoutNamespaces } from "./network.ts";
import { type BoundPod, Pods } from "./pods.ts";
import { type ShippedPod, shippedPodAnnotation } from "./shipped-pod.ts";

const timeoutMs = 60_000;
const skip = (await skipWithoutControlPlane()) || (await skipWithoutNamespaces());

interface Deployment {
  readonly kind: string;
  readonly spec: {
    readonly replicas: number;
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
    readonly strategy: object;
    readonly template: {
      readonly metadata: object;
      readonly spec: {
        readonly priorityClassName: string;
        readonly tolerations: readonly object[];
        readonly affinity: object;
        readonly containers: readonly [{ readonly env: readonly { readonly name: string; readonly value?: string }[] }];
      };
    };
  };
}
const manifest = join(import.meta.dirname, "../../knative/base/fencing/functions.yaml");
const objects = loadAll(readFileSync(manifest, "utf8")) as unknown as readonly Deployment[];
const rendered = objects.find(({ kind }) => kind === "Deployment");

interface Replica extends BoundPod {
  readonly metadata: BoundPod["metadata"] & { readonly name: string };
}

describe("the function on the nodes that it has to fence, on the real API server", { skip, concurrency: 1 }, () => {
  let cluster: FencingCluster;
  let pods: Pods;
  let sick: readonly Machine[];
  let well: readonly Machine[];

  before(async () => {
    cluster = await FencingCluster.start(4);
    [sick, well] = [cluster.machines.slice(0, 2), cluster.machines.slice(2)];
    await cluster.armAll();
    pods = new Pods(cluster);
  });

  afterEach((context) => cluster.printLogsOf(context));

  after(() => cluster?.stop());

  const cordonWell = async (unschedulable: true | null) => {
    for (const { name } of well) await cluster.patchNode(name, { spec: { unschedulable } });
  };

  async function deploy(): Promise<void> {
    assert.ok(rendered);
    const { replicas, selector, strategy, template } = rendered.spec;
    const { priorityClassName, tolerations, affinity, containers } = template.spec;
    const values = containers[0].env.flatMap(({ name, value }) =>
      value === undefined ? [] : [[name, value] as const],
    );
    const { kubeconfig } = cluster.controlPlane;
    // Two of four nodes are a storm.
    const own = { KUBECONFIG: kubeconfig, NAMESPACE: namespace, FENCE_NAMESPACE: namespace, FENCE_STORM: "100%" };
    const env = { ...Object.fromEntries(values), ...own, FENCE_MAX_CONCURRENT: "2" };
    const shipped: ShippedPod = { program: "functions", startsAfterMs: 0, env };
    const annotations = { [shippedPodAnnotation]: JSON.stringify(shipped) };
    const image = { name: "sluice", image: "sluice:1" };
    await cluster.api.post(`/apis/apps/v1/namespaces/${namespace}/deployments`, {
      metadata: { name: "fence-node" },
      spec: {
        replicas,
        selector,
        strategy,
        template: {
          metadata: { ...template.metadata, annotations },
          spec: { priorityClassName, tolerations, affinity, containers: [image] },
        },
      },
    });
  }

  /** Resolves when a replica that is not to go runs on each of these machines, and none anywhere else. */
  const untilReplicasOn = (machines: readonly Machine[]) =>
    eventually(`replicas on ${machines.map(({ name }) => name).join()}`, timeoutMs, async () => {
      const path = `/api/v1/namespaces/${namespace}/pods?labelSelector=app.kubernetes.io/component=fence-node`;
      const { items } = await cluster.api.get<{ items: readonly Replica[] }>(path);
      const staying = items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
      const nodes = staying.map(({ spec }) => spec.nodeName ?? "").sort();
      const isPlaced = nodes.join() === machines.map(({ name }) => name).join();
      return isPlaced && machines.every(({ log }) => log.includes("listening on port")) ? true : undefined;
    });

  test("its nodes are cut off with it: they reset themselves, Kubernetes moves it after 10 s, and only the recovery has waited (F18)", async () => {
    const boots = sick.map(({ bootId }) => bootId);
    await cordonWell(true);
    await deploy();
    await untilReplicasOn(sick);
    await cordonWell(null);
    await pods.start("db", "node-1");

    for (const machine of sick) {
      machine.bootsAgain = false;
      await machine.setConnected(false);
    }
    for (const { name } of sick) await cluster.mark(name);
    for (const machine of sick)
      await eventually(`${machine.name} is off`, timeoutMs, async () => (machine.isOn ? undefined : true));
    for (const machine of sick) assert.deepEqual(await cluster.recordOf(machine), {}, "no function has run meanwhile");
    assert.equal((await pods.of("db"))?.metadata.deletionTimestamp, undefined, "without evidence its pods stay");

    await untilReplicasOn(well);
    for (const machine of sick)
      await eventually(`evidence for ${machine.name}`, timeoutMs, async () =>
        (await cluster.recordOf(machine))["fence-evidence"] === "time" ? true : undefined,
      );
    assert.deepEqual(
      sick.map(({ resets }) => resets.map((reset) => [reset.cause, reset.bootId])),
      boots.map((bootId) => [["watchdog", bootId]]),
    );

    for (const machine of sick) await machine.boot();
    for (const machine of sick) await cluster.untilClean(machine);
    assert.deepEqual([well.flatMap(({ resets }) => resets), cluster.overlaps], [[], []]);
  });
});
