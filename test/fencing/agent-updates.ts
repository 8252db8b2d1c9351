/** The agents of played machines as pods of DaemonSets, which are updated by the strategy that is rendered for them. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { loadAll } from "js-yaml";
import { eventually } from "../controlplane/api.ts";
import { type FencingCluster, namespace } from "./cluster.ts";
import type { Machine } from "./machine.ts";
import { type ShippedPod, shippedPodAnnotation } from "./shipped-pod.ts";

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

const path = `/apis/apps/v1/namespaces/${namespace}/daemonsets`;
/** One for each node: the scheduler of these tests knows no other affinity. */
const nameOn = ({ name }: Machine) => `agent-${name}`;
const versionOf = (pod: Omit<ShippedPod, "program">) => ({
  metadata: { annotations: { [shippedPodAnnotation]: JSON.stringify({ program: "agent", ...pod }) } },
});

export interface AgentUpdatesOptions {
  readonly cluster: FencingCluster;
  /** By how much the times of the cluster are shorter than in real time. */
  readonly scale: number;
  readonly timeoutMs: number;
}

export class AgentUpdates {
  readonly #options: AgentUpdatesOptions;

  constructor(options: AgentUpdatesOptions) {
    this.#options = options;
  }

  /** Makes the agent of a machine whose own one has ended. Resolves to the uid of the pod once it is armed. */
  async begin(machine: Machine, env: ShippedPod["env"]): Promise<string> {
    await this.#create(machine, env);
    const uid = await this.#rolledOut(machine);
    await this.#untilArmed(machine);
    return uid;
  }

  /** Resolves to the uid of the pod of another version, once it is armed. @param pulledForMs how late it starts */
  async update(machine: Machine, env: ShippedPod["env"], pulledForMs: number): Promise<string> {
    const template = versionOf({ startsAfterMs: pulledForMs, env });
    await this.#options.cluster.api.patch(`${path}/${nameOn(machine)}`, { spec: { template } });
    const uid = await this.#rolledOut(machine);
    await this.#untilArmed(machine);
    return uid;
  }

  async #create(machine: Machine, env: ShippedPod["env"]): Promise<void> {
    assert.ok(rendered);
    const { cluster, scale } = this.#options;
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

  /** Resolves to the one pod of the DaemonSet once it is of the last version, and has been Ready for long enough. */
  #rolledOut(machine: Machine): Promise<string> {
    const { cluster, timeoutMs } = this.#options;
    return eventually(`${nameOn(machine)} is rolled out`, timeoutMs, async () => {
      const { metadata, status } = await cluster.api.get<DaemonSet>(`${path}/${nameOn(machine)}`);
      const { observedGeneration, updatedNumberScheduled, numberAvailable } = status;
      const [pod, ...others] = await this.#podsOn(machine);
      const isObserved = observedGeneration === metadata.generation;
      const isDone = isObserved && updatedNumberScheduled === 1 && numberAvailable === 1 && others.length === 0;
      return isDone ? pod?.metadata.uid : undefined;
    });
  }

  async #podsOn({ name }: Machine) {
    const pods = `/api/v1/namespaces/${namespace}/pods?labelSelector=agent=${name}`;
    return (await this.#options.cluster.api.get<{ items: readonly { metadata: { uid: string } }[] }>(pods)).items;
  }

  async #untilArmed({ name, hardware }: Machine): Promise<void> {
    const { cluster, timeoutMs } = this.#options;
    await eventually(`${name} is armed, and fed`, timeoutMs, async () => {
      const { annotations } = (await cluster.agentLease(name)).metadata;
      return annotations?.["sluice.dev/agent-mode"] === "armed" && hardware.isRunning ? true : undefined;
    });
    const { feeds } = hardware;
    await eventually("more feeds", timeoutMs, async () => (hardware.feeds >= feeds + 10 ? true : undefined));
  }
}
