/** A release of the chart on the real API server: what it has deployed, and a group that it serves. */
import assert from "node:assert/strict";
import { type Api, eventually } from "../controlplane/api.ts";
import { changeTemplate, waitForGroupReady } from "../controlplane/fixtures.ts";
import { evict } from "../support/drain-webhook.ts";
import { workloadOf } from "../support/installed.ts";
import type { Built } from "../support/kubectl.ts";
import type { Scene } from "../support/scene.ts";

export interface Configuration {
  readonly webhooks: readonly {
    readonly clientConfig: { readonly caBundle?: string; readonly service: { readonly path: string } };
  }[];
}

export const webhooksPath = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

interface Deployed extends Built {
  readonly spec: { readonly replicas: number };
}

export function deploymentOf(api: Api, namespace: string): Promise<Deployed> {
  return api.get<Deployed>(`/apis/apps/v1/namespaces/${namespace}/deployments/sluice`);
}

/** What the pods would run, if pods ran here. */
export async function installed(api: Api, namespace: string) {
  return workloadOf([{ ...(await deploymentOf(api, namespace)), apiVersion: "apps/v1", kind: "Deployment" }], "sluice");
}

/** Resolves when the API server trusts the webhook for evictions, and shows it the review key. */
export function keyed(api: Api, namespace: string): Promise<{ readonly caBundle: string }> {
  return eventually("the review key before the path", 60_000, async () => {
    const { webhooks } = await api.get<Configuration>(`${webhooksPath}/pod-eviction-${namespace}`);
    const [{ clientConfig } = assert.fail("no webhook")] = webhooks;
    const { caBundle, service } = clientConfig;
    const isKeyed = service.path !== "/pods/eviction/pin" && service.path.endsWith("/pods/eviction/pin");
    return caBundle !== undefined && isKeyed ? { caBundle } : undefined;
  });
}

/** One pod of the group may be down. */
export function createBudget({ api, group: { name, namespace } }: Scene): Promise<unknown> {
  const selector = { matchLabels: { "rollout-group": name } };
  return api.post(`/apis/rollout-operator.grafana.com/v1/namespaces/${namespace}/zoneawarepoddisruptionbudgets`, {
    apiVersion: "rollout-operator.grafana.com/v1",
    kind: "ZoneAwarePodDisruptionBudget",
    metadata: { name },
    spec: { maxUnavailable: 1, selector },
  });
}

export async function rollAndEvict(scene: Scene): Promise<void> {
  const { api, group, controlPlane } = scene;
  const [first, second] = group.statefulSets;
  await eventually("an eviction allowed", 60_000, async () =>
    (await evict(api, group.namespace, `${first}-0`, "in the body")).code === 201 ? true : undefined,
  );
  assert.equal((await evict(api, group.namespace, `${first}-0`)).code, 201);
  assert.equal((await evict(api, group.namespace, `${second}-0`, "in the body")).code, 429);
  await waitForGroupReady(controlPlane, group);
  await changeTemplate(controlPlane, group, "app:2");
  await scene.waitForRollout("app:2");
}

/** With no webhook left, a StatefulSet may get smaller, and a pod may be evicted, though no process of Sluice answers. */
export async function scaleDownWithout({ api, group }: Scene): Promise<void> {
  for (const path of [webhooksPath, webhooksPath.replace("mutating", "validating")]) {
    const { items } = await api.get<{ items: Built[] }>(path);
    assert.deepEqual(
      items.map(({ metadata }) => metadata.name).filter((name) => name.endsWith(`-${group.namespace}`)),
      [],
    );
  }
  const [first] = group.statefulSets;
  const path = `/apis/apps/v1/namespaces/${group.namespace}/statefulsets/${first}`;
  await api.patch(path, { spec: { replicas: 1 } });
  assert.equal((await evict(api, group.namespace, `${first}-0`)).code, 201);
}
