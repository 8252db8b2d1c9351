/** A StatefulSet of three pods on a real control plane. Each pod is a real RabbitMQ node with the stop gate as its hook. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { Api, eventually } from "../controlplane/api.ts";
import type { ControlPlane } from "../controlplane/controlplane.ts";
import type { StatefulSet } from "../controlplane/fixtures.ts";
import type { Packages } from "../support/packages.ts";
import { Nodes } from "./nodes.ts";
import { type Ending, Pods, RUN_BY_US } from "./pods.ts";
import { makeQuorumQueue } from "./queues.ts";

export const size = 3;
export const queue = "orders";
const name = "rabbitmq";

export interface BrokerOptions {
  readonly namespace: string;
  /** More settings of the stop gate. */
  readonly settings?: Readonly<Record<string, string>>;
}

/** What a test writes into the StatefulSet. */
export interface SetOptions {
  readonly strategy: "RollingUpdate" | "OnDelete";
  /** Default 600. */
  readonly graceSeconds?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly object[];
}

interface Metadata {
  readonly uid: string;
  readonly deletionTimestamp?: string;
}

export class Broker {
  readonly api: Api;
  readonly nodes: Nodes;
  readonly pods: Pods;
  readonly namespace: string;
  /** The file that a user creates in a container. */
  readonly byPerson: string;

  private constructor(api: Api, nodes: Nodes, pods: Pods, byPerson: string, options: BrokerOptions) {
    this.api = api;
    this.nodes = nodes;
    this.pods = pods;
    this.namespace = options.namespace;
    this.byPerson = byPerson;
  }

  /** Opens a namespace and its kubelet, without a StatefulSet yet. */
  static async open(packages: Packages, controlPlane: ControlPlane, options: BrokerOptions): Promise<Broker> {
    const { namespace } = options;
    const api = await Api.open(controlPlane, { userAgent: "sluice-test-rabbitmq" });
    await api.post("/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } });
    const nodes = await Nodes.make(packages, size);
    const byPerson = join(controlPlane.directory, "skip-by-person");
    const settings = { STOP_GATE_POLL_SECONDS: "1", ...options.settings };
    const pods = await Pods.start(controlPlane, { namespace, nodes, shell: [packages.dash], settings, byPerson });
    return new Broker(api, nodes, pods, byPerson, options);
  }

  get setPath(): string {
    return `/apis/apps/v1/namespaces/${this.namespace}/statefulsets/${name}`;
  }

  podPath(ordinal: number): string {
    return `/api/v1/namespaces/${this.namespace}/pods/${nameOf(ordinal)}`;
  }

  async pod(ordinal: number): Promise<Metadata> {
    return (await this.api.get<{ metadata: Metadata }>(this.podPath(ordinal))).metadata;
  }

  /** Resolves when its pods are ready, and the queue has a member on each of them. */
  async createSet(options: SetOptions): Promise<void> {
    const { namespace } = this;
    const { strategy, graceSeconds = 600, annotations = {}, ownerReferences = [] } = options;
    const labels = { app: name, ...options.labels };
    const container = { name, image: "rabbitmq:3.10" };
    await this.api.post(`/apis/apps/v1/namespaces/${namespace}/statefulsets`, {
      apiVersion: "apps/v1",
      kind: "StatefulSet",
      metadata: { name, namespace, labels, annotations, ownerReferences },
      spec: {
        replicas: size,
        serviceName: name,
        podManagementPolicy: "Parallel",
        updateStrategy: { type: strategy },
        selector: { matchLabels: { app: name } },
        template: {
          metadata: { labels, annotations: { ...RUN_BY_US, release: "1" } },
          spec: { terminationGracePeriodSeconds: graceSeconds, containers: [container] },
        },
      },
    });
    await this.allReady();
    await makeQuorumQueue(this.nodes, queue);
  }

  /** Makes all pods outdated. */
  async changeTemplate(release: string): Promise<void> {
    await this.api.patch(this.setPath, { spec: { template: { metadata: { annotations: { release } } } } });
  }

  async allReady(): Promise<void> {
    await eventually("all pods are ready and of the newest revision", 400_000, async () => {
      assert.deepEqual(this.pods.problems, []);
      const { metadata, status } = await this.api.get<StatefulSet>(this.setPath);
      if (status?.observedGeneration !== metadata.generation) return undefined;
      return status?.readyReplicas === size && status.updatedReplicas === size ? true : undefined;
    });
  }

  /** Runs `act`. Resolves to the next ending of that pod. */
  async nextEnding(ordinal: number, act: () => Promise<unknown>): Promise<Ending> {
    const before = this.pods.endings.length;
    await act();
    return eventually(`${nameOf(ordinal)} ends`, 120_000, async () =>
      this.pods.endings.slice(before).find(({ pod }) => pod === nameOf(ordinal)),
    );
  }

  async close(): Promise<void> {
    await this.pods.stop();
    await this.nodes.close();
    await this.api.close();
  }
}

export function nameOf(ordinal: number): string {
  return `${name}-${ordinal}`;
}

/** The text that tests print. */
export function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}
