import { type Api, ApiError } from "./api.ts";

export interface NodeOptions {
  readonly name: string;
  /** Such as "zone-a", its label topology.kubernetes.io/zone. */
  readonly zone: string;
  /** More labels. */
  readonly labels?: Readonly<Record<string, string>>;
}

/** Creates a Node that is ready and has room for any number of pods; an existing one stays as it is. */
export async function createNode(api: Api, { name, zone, labels }: NodeOptions): Promise<void> {
  const metadata = {
    name,
    // The kubelet's own report that volumes are attached for it.
    annotations: { "volumes.kubernetes.io/controller-managed-attach-detach": "true" },
    labels: { ...labels, "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone },
  };
  const now = new Date().toISOString();
  const resources = { cpu: "1000", memory: "1000Gi", pods: "100000" };
  const status = {
    capacity: resources,
    allocatable: resources,
    addresses: [{ type: "InternalIP", address: "127.0.0.1" }],
    conditions: [
      { type: "Ready", status: "True", reason: "KubeletReady", lastTransitionTime: now, lastHeartbeatTime: now },
    ],
  };
  try {
    await api.post("/api/v1/nodes", { apiVersion: "v1", kind: "Node", metadata, status });
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 409)) throw error;
  }
}
