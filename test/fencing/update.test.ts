/**
 * The agents are updated: the real controller of DaemonSets replaces their pods by the strategy that is rendered for them. The
 * pods run the shipped agent in played machines, and the image of the new version is pulled for long (A8).
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, afterEach, before, describe, test } from "node:test";
import { loadAll } from "js-yaml";
import { eventually } from "../controlplane/api.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { environmentWith } from "./changed-sources.ts";
import { FencingCluster, namespace, watchdogMs } from "./cluster.ts";
import type { Machine } from "./machine.ts";
import { skipWithoutNamespaces } from "./network.ts";
import { type ShippedPod, shippedPodAnnotation } from "./shipped-pod.ts";

const timeoutMs = 60_000;
/** A minute for a watchdog of 10 s, as all times here. */
const pulledForMs = 6 * watchdogMs;
const scale = watchdogMs / 10_000;
const key = (name: string) => `sluice.dev/${name}`;
const skip = (await skipWithoutControlPlane()) || (await skipWithoutNamespaces());

interface DaemonSet {
  readonly kind: string;
  readonly spec: { readonly updateStrategy: object; readonly minReadySeconds: number };
  readonly metadata: { readonly generation: number };
  readonly status: {
    readonly observedGeneration?: number;
    readonly updatedNumberScheduled?: number;
    readonly numberAvailable?: number;
  };
}
const manifest = join(import.meta.dirname, "../../knative/base/fencing-agents/agents.yaml");
const objects = loadAll(readFileSync(manifest, "utf8")) as unknown as readonly DaemonSet[];
const rendered = objects.find(({ kind }) => kind === "DaemonSet");

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

  const path = `/apis/apps/v1/namespaces/${namespace}/daemonsets`;
  /** One for each node: the scheduler of these tests knows no other affinity. */
  const nameOn = ({ name }: Machine) => `agent-${name}`;
  const versionOf = (pod: Omit<ShippedPod, "program">) => ({
    metadata: { annotations: { [shippedPodAnnotation]: JSON.stringify({ program: "agent", ...pod }) } },
  });

  async function create(machine: Machine, env: ShippedPod["env"]): Promise<void> {
    assert.ok(rendered);
    const { updateStrategy, minReadySeconds } = rendered.spec;
    const labels = { agent: machine.name };
    const { metadata } = versionOf({ startsAfterMs: 0, env });
    await cluster.api.post(path, {
      metadata: { name: nameOn(machine) },
      spec: {
        selector: { matchLabels: labels },
        updateStrategy,
        minReadySeconds: Math.ceil(minReadySeconds * scale),
        template: {
          metadata: { ...metadata, labels },
          spec: {
            nodeSelector: { "kubernetes.io/hostname": machine.name },
            containers: [{ name: "agent", image: "agent:1" }],
          },
        },
      },
    });
  }

  const podsOn = async ({ name }: Machine) => {
    const pods = `/api/v1/namespaces/${namespace}/pods?labelSelector=agent=${name}`;
    return (await cluster.api.get<{ items: readonly { metadata: { uid: string } }[] }>(pods)).items;
  };

  /** Resolves to the one pod of the DaemonSet once it is of the last version, and has been Ready for long enough. */
  const rolledOut = (machine: Machine) =>
    eventually(`${nameOn(machine)} is rolled out`, timeoutMs, async () => {
      const { metadata, status } = await cluster.api.get<DaemonSet>(`${path}/${nameOn(machine)}`);
      const { observedGeneration, updatedNumberScheduled, numberAvailable } = status;
      const [pod, ...others] = await podsOn(machine);
      const isObserved = observedGeneration === metadata.generation;
      const isDone = isObserved && updatedNumberScheduled === 1 && numberAvailable === 1 && others.length === 0;
      return isDone ? pod?.metadata.uid : undefined;
    });

  async function untilArmed({ name, hardware }: Machine): Promise<void> {
    await eventually(`${name} is armed, and fed`, timeoutMs, async () => {
      const { annotations } = (await cluster.agentLease(name)).metadata;
      return annotations?.[key("agent-mode")] === "armed" && hardware.isRunning ? true : undefined;
    });
    const { feeds } = hardware;
    await eventually("more feeds", timeoutMs, async () => (hardware.feeds >= feeds + 10 ? true : undefined));
  }

  for (const { machineName, device, isNoWayOut, env } of cases)
    test(`whose new pod starts a minute late resets nothing: the old agent feeds ${device} until the new one has begun (F30)`, async () => {
      const machine = cluster.machine(machineName);
      assert.equal(await machine.stopAgent(), 0);
      machine.hardware.isNoWayOut = isNoWayOut;
      await create(machine, env);
      const old = await rolledOut(machine);
      await untilArmed(machine);
      const keyBefore = await cluster.keyOf(machine.name);
      await cluster.api.patch(`${path}/${nameOn(machine)}`, {
        spec: { template: versionOf({ startsAfterMs: pulledForMs, env }) },
      });
      assert.notEqual(await rolledOut(machine), old);
      await untilArmed(machine);
      assert.equal(await cluster.keyOf(machine.name), keyBefore, "its peers know it by the same key");
      const waits = machine.log.split("port 9843 is taken").length - 1;
      assert.equal(waits, 1, "the new agent has waited beside the old one");
      assert.deepEqual(machine.resets, []);
    });
});
