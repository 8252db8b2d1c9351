/** The pods of the suites of fences: StatefulSets of one pod each, on played machines. */
import assert from "node:assert/strict";
import { ApiError, eventually } from "../controlplane/api.ts";
import type { FencingCluster } from "./cluster.ts";
import type { PodRun } from "./journal.ts";

const timeoutMs = 90_000;

export interface BoundPod {
  readonly metadata: { readonly uid: string; readonly deletionTimestamp?: string };
  readonly spec: { readonly nodeName?: string };
}

export class Pods {
  readonly #cluster: FencingCluster;

  constructor(cluster: FencingCluster) {
    this.#cluster = cluster;
  }

  /** A StatefulSet of one pod on a node, or on any. Resolves when the pod runs. */
  async start(name: string, node?: string): Promise<BoundPod> {
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
    await this.#cluster.api.post(path, { apiVersion: "apps/v1", kind: "StatefulSet", metadata: { name }, spec });
    return eventually(`${name}-0 runs`, timeoutMs, async () => {
      const pod = await this.of(name);
      return pod !== undefined && this.runsOf(name).some(({ uid }) => uid === pod.metadata.uid) ? pod : undefined;
    });
  }

  /** A StatefulSet of one pod that may run anywhere, and whose first pod a node gets: the others are cordoned meanwhile. */
  async startFirstOn(name: string, node: string): Promise<BoundPod> {
    const others = this.#cluster.machines.filter((machine) => machine.name !== node);
    for (const other of others) await this.#cluster.patchNode(other.name, { spec: { unschedulable: true } });
    const pod = await this.start(name);
    for (const other of others) await this.#cluster.patchNode(other.name, { spec: { unschedulable: null } });
    assert.equal(pod.spec.nodeName, node);
    return pod;
  }

  /** Deletes the StatefulSet, and resolves when its pod is gone. */
  async remove(name: string): Promise<void> {
    const path = `/apis/apps/v1/namespaces/default/statefulsets/${name}`;
    const { body } = await this.#cluster.api.send("DELETE", path, { propagationPolicy: "Background" });
    await body.dump();
    await eventually(`${name}-0 is gone`, timeoutMs, async () =>
      (await this.of(name)) === undefined ? true : undefined,
    );
  }

  /** Resolves to the pod that has taken the place of another one, once it runs. */
  async replacementOf(name: string, { metadata: { uid: old } }: BoundPod): Promise<BoundPod> {
    return eventually("the replacement runs", timeoutMs, async () => {
      const found = await this.of(name);
      const isNew = found !== undefined && found.metadata.uid !== old;
      return isNew && this.runsOf(name).some(({ uid }) => uid === found.metadata.uid) ? found : undefined;
    });
  }

  /** Undefined while there is none. */
  async of(name: string): Promise<BoundPod | undefined> {
    try {
      return await this.#cluster.api.get<BoundPod>(`/api/v1/namespaces/default/pods/${name}-0`);
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    }
  }

  runsOf(name: string): readonly PodRun[] {
    return this.#cluster.runs.filter(({ pod }) => pod === `default/${name}-0`);
  }
}
