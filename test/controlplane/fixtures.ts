import { Api, type ApiAccess, ApiError, eventually } from "./api.ts";
import type { Pod } from "./podstatus.ts";

/** Pods over zones as users of rollout-operator have them: a StatefulSet for each zone, all in one rollout group. */
export interface GroupOptions {
  readonly name: string;
  /** Made when it does not exist. Default "default". */
  readonly namespace?: string;
  /** Default 3: zone-a, zone-b, zone-c. */
  readonly zones?: number;
  /** Of each zone. Default 3. */
  readonly pods?: number;
  /** Default 1. */
  readonly maxUnavailable?: number | string;
  /** Default "app:1". An image with the tag "broken" never becomes ready. */
  readonly image?: string;
  /** Default 0. */
  readonly minReadySeconds?: number;
  /** More annotations for the StatefulSets. */
  readonly annotations?: Readonly<Record<string, string>>;
  /** More annotations for the pods, `ANNOTATIONS` of the kubelet among them. */
  readonly podAnnotations?: Readonly<Record<string, string>>;
  /** More labels for StatefulSets and pods. */
  readonly labels?: Readonly<Record<string, string>>;
  /** The names of volume claim templates: each pod gets a PersistentVolumeClaim of each. */
  readonly volumes?: readonly string[];
  /** Pods go to nodes with these labels in their zone, wherever the scheduler puts them. Default: all go to node-1. */
  readonly nodeLabels?: Readonly<Record<string, string>>;
}

export interface FixtureGroup {
  readonly name: string;
  readonly namespace: string;
  /** Names of the StatefulSets, by zone. */
  readonly statefulSets: readonly string[];
  /** Of each zone. */
  readonly pods: number;
}

/** The part of a StatefulSet that fixtures write and read. */
export interface StatefulSet {
  readonly apiVersion: "apps/v1";
  readonly kind: "StatefulSet";
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly generation?: number;
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string>>;
  };
  readonly spec: Readonly<Record<string, unknown>> & { readonly replicas: number };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly replicas?: number;
    readonly availableReplicas?: number;
    readonly readyReplicas?: number;
    readonly updatedReplicas?: number;
    readonly updateRevision?: string;
  };
}

const USER_AGENT = "sluice-test-fixtures";

/** The StatefulSets of a group. */
export function groupManifests(options: GroupOptions): StatefulSet[] {
  const zones = Array.from({ length: options.zones ?? 3 }, (_, index) => `zone-${String.fromCharCode(97 + index)}`);
  return zones.map((zone) => zoneManifest(options, zone));
}

function zoneManifest(options: GroupOptions, zone: string): StatefulSet {
  const name = `${options.name}-${zone}`;
  const labels = { ...options.labels, name, "rollout-group": options.name, zone };
  const container = { name: "app", image: options.image ?? "app:1" };
  const place =
    options.nodeLabels === undefined
      ? { nodeName: "node-1" }
      : { nodeSelector: { ...options.nodeLabels, "topology.kubernetes.io/zone": zone } };
  return {
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    metadata: {
      name,
      namespace: options.namespace ?? "default",
      labels,
      annotations: { "rollout-max-unavailable": String(options.maxUnavailable ?? 1), ...options.annotations },
    },
    spec: {
      replicas: options.pods ?? 3,
      serviceName: name,
      podManagementPolicy: "Parallel",
      updateStrategy: { type: "OnDelete" },
      minReadySeconds: options.minReadySeconds ?? 0,
      selector: { matchLabels: { name } },
      volumeClaimTemplates: (options.volumes ?? []).map((volume) => ({
        metadata: { name: volume },
        spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
      })),
      template: {
        metadata: { labels, annotations: { ...options.podAnnotations } },
        spec: { ...place, terminationGracePeriodSeconds: 30, containers: [container] },
      },
    },
  };
}

/** Creates the StatefulSets of a group, and resolves before their pods exist. Throws an `ApiError` if one exists. */
export async function createGroup(access: ApiAccess, options: GroupOptions): Promise<FixtureGroup> {
  const namespace = options.namespace ?? "default";
  const manifests = groupManifests(options);
  return using(access, async (api) => {
    await ensureNamespace(api, namespace);
    for (const manifest of manifests) await api.post(statefulSetPath(namespace), manifest);
    const statefulSets = manifests.map(({ metadata }) => metadata.name);
    return { name: options.name, namespace, statefulSets, pods: options.pods ?? 3 };
  });
}

async function ensureNamespace(api: Api, name: string): Promise<void> {
  try {
    await api.post("/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name } });
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 409)) throw error;
  }
}

export interface WaitOptions {
  /** Default 60000. */
  readonly timeoutMs?: number;
  /** Also wait until all pods are of the newest template. Default false. */
  readonly updated?: boolean;
  /** Between two reconciles at each StatefulSet, which cost the API server about 1 ms. Default: as `eventually` has it. */
  readonly everyMs?: number;
}

/** Resolves when the StatefulSets report all pods as available. After the time it throws an error with the missing pods. */
export async function waitForGroupReady(
  access: ApiAccess,
  group: FixtureGroup,
  options: WaitOptions = {},
): Promise<void> {
  let missing = "";
  await using(access, (api) =>
    eventually(
      `group ${group.name} ready`,
      options.timeoutMs ?? 60_000,
      async () => {
        const sets = await Promise.all(group.statefulSets.map((name) => readStatefulSet(api, group.namespace, name)));
        missing = sets.flatMap((set) => shortfall(set, options.updated ?? false)).join(", ");
        return missing === "" ? true : undefined;
      },
      options.everyMs,
    ),
  ).catch((error: Error) => {
    throw new Error(`${error.message}: ${missing}`, { cause: error });
  });
}

function shortfall({ metadata, spec, status }: StatefulSet, updated: boolean): string[] {
  if (status?.observedGeneration !== metadata.generation) return [`${metadata.name}: not observed yet`];
  const counts = [status?.availableReplicas ?? 0, ...(updated ? [status?.updatedReplicas ?? 0] : [])];
  // After replicas were lowered, pods that are still to go count in `replicas`.
  const complete = counts.every((count) => count === spec.replicas) && (status?.replicas ?? 0) === spec.replicas;
  return complete ? [] : [`${metadata.name}: ${JSON.stringify(status)}`];
}

/** Changes the image in the template of all or some StatefulSets of a group: their pods are outdated from now on. */
export async function changeTemplate(
  access: ApiAccess,
  group: FixtureGroup,
  image: string,
  statefulSets: readonly string[] = group.statefulSets,
): Promise<void> {
  const operations = [{ op: "replace", path: "/spec/template/spec/containers/0/image", value: image }];
  await using(access, async (api) => {
    for (const name of statefulSets) {
      const path = `${statefulSetPath(group.namespace)}/${name}`;
      await api.request("PATCH", path, operations, "application/json-patch+json");
    }
  });
}

/** All pods of a group, including terminating ones. */
export function groupPods(access: ApiAccess, group: FixtureGroup): Promise<Pod[]> {
  const selector = encodeURIComponent(`rollout-group=${group.name}`);
  return using(access, async (api) => {
    const path = `/api/v1/namespaces/${group.namespace}/pods?labelSelector=${selector}`;
    return (await api.get<{ items: Pod[] }>(path)).items;
  });
}

/** Deletes a group and resolves when the last pod is gone. Throws if that takes more than `timeoutMs`. */
export async function deleteGroup(access: ApiAccess, group: FixtureGroup, timeoutMs = 60_000): Promise<void> {
  await using(access, async (api) => {
    for (const name of group.statefulSets) {
      await api.delete(`${statefulSetPath(group.namespace)}/${name}`, { propagationPolicy: "Background" });
    }
  });
  await eventually(`pods of group ${group.name} gone`, timeoutMs, async () =>
    (await groupPods(access, group)).length === 0 ? true : undefined,
  );
}

function readStatefulSet(api: Api, namespace: string, name: string): Promise<StatefulSet> {
  return api.get<StatefulSet>(`${statefulSetPath(namespace)}/${name}`);
}

function statefulSetPath(namespace: string): string {
  return `/apis/apps/v1/namespaces/${namespace}/statefulsets`;
}

async function using<T>(access: ApiAccess, work: (api: Api) => Promise<T>): Promise<T> {
  const api = await Api.open(access, { userAgent: USER_AGENT, connections: 4 });
  try {
    return await work(api);
  } finally {
    await api.close();
  }
}
