/** The clusters that must keep the contract: the real API server, and the fake cluster over HTTP and directly. */

import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { connect } from "../../functions/shared/kubernetes/client.ts";
import type { Cluster } from "../../functions/shared/kubernetes/cluster.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { Admission } from "../fake-cluster/admission.ts";
import { serveWorld } from "../fake-cluster/http.ts";
import type { KindDefinition } from "../fake-cluster/objects.ts";
import { RealTimeline } from "../fake-cluster/timeline.ts";
import { World } from "../fake-cluster/world.ts";
import { createWorldCluster } from "../fake-cluster/world-cluster.ts";
import { kubeconfigText } from "../support/kubeconfig.ts";
import type { EvictionAnswer, EvictionFixture, Fixture, RawAnswer } from "./fixture.ts";

const userAgent = "sluice/0.0.0 (contract)";
const podsReadyAfterMs = 150;
const podsGoneAfterMs = 150;
/** Twenty and forty seconds in a real cluster, where no flag changes them. */
const podCollector = { everyMs: 200, quarantineMs: 400 };
/** Number of changes that the fake cluster can look back on: enough for all cases that run at once. */
const watchHistory = 2_000;
const crds = join(import.meta.dirname, "../../knative/base/crds");
/** CRDs of an operator that users may have beside Sluice. */
const foreignCrds = join(import.meta.dirname, "../fixtures/crds");
const definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const budgetsPath = "/apis/rollout-operator.grafana.com/v1/zoneawarepoddisruptionbudgets";
const foreignKinds = ["rabbitmq.com/v1beta1/rabbitmqclusters", "apps.foundationdb.org/v1beta2/foundationdbclusters"];

const contentTypes = { PATCH: "application/merge-patch+json", PUT: "application/json" } as const;

export interface ContractWorld<F extends Fixture = Fixture> {
  /** Makes a fixture with namespaces that no case has used before. */
  fixture(): Promise<F>;
  close(): Promise<void>;
}

let namespaces = 0;

function nextNamespace(): string {
  namespaces += 1;
  return `contract-${namespaces}`;
}

/** Starts a real control plane. Throws if it does not start; builds nothing. */
export async function startRealWorld(assets: string): Promise<ContractWorld<EvictionFixture>> {
  const controlPlane = await startControlPlane({ assets, podsReadyAfterMs, podsGoneAfterMs, controllers: "all" });
  const cluster = await connect({ userAgent, kubeconfig: controlPlane.kubeconfig });
  const api = await Api.open(controlPlane, { userAgent: "sluice-test-contract", connections: 8 });
  await applyCustomResources(controlPlane, api);
  const makeNamespace = async (): Promise<string> => {
    const name = nextNamespace();
    await api.post("/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name } });
    return name;
  };
  return {
    fixture: async () => {
      const namespace = await makeNamespace();
      const { kubelet } = controlPlane;
      return {
        cluster,
        namespace,
        otherNamespace: await makeNamespace(),
        breakPod: (name, reason) => kubelet.breakPod(namespace, name, reason),
        healPod: (name) => kubelet.healPod(namespace, name),
        removeBudgetType: () => removeBudgetType(api),
        restoreBudgetType: () => applyCustomResources(controlPlane, api),
        defineKind: async (kind) => void (await api.post(definitionsPath, definitionOf(kind))),
        removeKind: async ({ plural, group }) => void (await api.delete(`${definitionsPath}/${plural}.${group}`)),
        forgetHistory: () => restart(controlPlane),
        evict: async (name, eviction, query) => {
          const path = evictionPath(namespace, name, query);
          const { statusCode, headers, body } = await api.send("POST", path, evictionOf(name, eviction));
          const retryAfter = headers["retry-after"]?.toString();
          return { code: statusCode, status: (await body.json()) as EvictionAnswer["status"], retryAfter };
        },
        send: async ({ method, path, body, headers = {} }) => {
          const answer = await api.send(method, path, body, contentTypes[method], headers);
          return { code: answer.statusCode, body: (await answer.body.json()) as RawAnswer };
        },
      };
    },
    close: async () => {
      await Promise.all([cluster.close(), api.close()]);
      await controlPlane.stop();
    },
  };
}

/** Resolves when budgets can be listed: for a moment after their CRD is established the answer is 429. */
async function applyCustomResources({ kubectl, kubeconfig }: ControlPlane, api: Api): Promise<void> {
  const args = ["--kubeconfig", kubeconfig];
  for (const folder of [crds, foreignCrds]) await promisify(execFile)(kubectl, [...args, "apply", "-k", folder]);
  await eventually("budgets to be listed", 30_000, () => api.get<object>(budgetsPath));
  for (const kind of foreignKinds)
    await eventually(`${kind} to be listed`, 30_000, () => api.get<object>(`/apis/${kind}`));
}

/** A CRD whose objects may have any fields. */
function definitionOf({ group, version, kind, plural, isNamespaced, hasScale = false }: KindDefinition): object {
  const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
  const scale = { specReplicasPath: ".spec.replicas", statusReplicasPath: ".status.replicas" };
  const subresources = { status: {}, ...(hasScale ? { scale } : {}) };
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: isNamespaced ? "Namespaced" : "Cluster",
      names: { kind, plural },
      versions: [{ name: version, served: true, storage: true, schema, subresources }],
    },
  };
}

async function removeBudgetType(api: Api): Promise<void> {
  await api.delete(`${definitionsPath}/zoneawarepoddisruptionbudgets.rollout-operator.grafana.com`);
  await eventually("the end of the type", 30_000, async () => {
    const answer = await api.send("GET", budgetsPath);
    await answer.body.dump();
    return answer.statusCode === 404 ? true : undefined;
  });
}

/** A new API server only remembers changes after its start. */
async function restart(controlPlane: ControlPlane): Promise<void> {
  await controlPlane.restartApiServer();
}

/** The fake cluster, called over HTTP by the client that the product uses. */
export async function startServedWorld(): Promise<ContractWorld<EvictionFixture>> {
  const { world, timeline } = createWorld();
  const served = await serveWorld(world);
  const directory = await mkdtemp(join(tmpdir(), "sluice-contract-"));
  const kubeconfig = join(directory, "kubeconfig");
  await writeFile(kubeconfig, kubeconfigText(served.url, {}));
  const cluster = await connect({ userAgent, kubeconfig });
  return {
    fixture: async () => {
      const fixture = embeddedFixture(world, cluster);
      return {
        ...fixture,
        evict: async (name, eviction, query) => {
          const path = evictionPath(fixture.namespace, name, query);
          const body = JSON.stringify(evictionOf(name, eviction));
          const headers = { "content-type": "application/json" };
          const answer = await fetch(served.url + path, { method: "POST", headers, body });
          const retryAfter = answer.headers.get("retry-after") ?? undefined;
          return { code: answer.status, status: (await answer.json()) as EvictionAnswer["status"], retryAfter };
        },
        send: async ({ method, path, body, headers = {} }) => {
          const typed = { "content-type": contentTypes[method], ...headers };
          const answer = await fetch(served.url + path, { method, headers: typed, body: JSON.stringify(body) });
          return { code: answer.status, body: (await answer.json()) as RawAnswer };
        },
      };
    },
    close: async () => {
      await cluster.close();
      await served.close();
      world.stop();
      timeline.close();
      await rm(directory, { recursive: true });
    },
  };
}

/** The fake cluster without HTTP, as in simulations, but on the real clock. */
export async function startDirectWorld(): Promise<ContractWorld> {
  const { world, timeline } = createWorld();
  const admission = new Admission(world);
  const cluster = createWorldCluster(world, { admission });
  return {
    fixture: async () => embeddedFixture(world, cluster),
    close: async () => {
      await admission.close();
      world.stop();
      timeline.close();
    },
  };
}

function createWorld(): { world: World; timeline: RealTimeline } {
  const timeline = new RealTimeline();
  const times = { readyAfterMs: podsReadyAfterMs, goneAfterMs: podsGoneAfterMs, podCollector };
  const world = new World({ timeline, ...times, watchHistory });
  return { world, timeline };
}

function embeddedFixture(world: World, cluster: Cluster): Fixture {
  const namespace = nextNamespace();
  return {
    cluster,
    namespace,
    otherNamespace: nextNamespace(),
    breakPod: async (name, reason) => world.kubelet.breakPod({ namespace, name }, reason),
    healPod: async (name) => world.kubelet.healPod({ namespace, name }),
    removeBudgetType: async () => world.store.withdraw("zoneawarepoddisruptionbudgets"),
    restoreBudgetType: async () => world.store.restore("zoneawarepoddisruptionbudgets"),
    defineKind: async (kind) => void world.store.define(kind),
    removeKind: async (kind) => world.store.withdraw(world.store.define(kind)),
    forgetHistory: async () => {
      const key = { namespace, name: "filler" };
      world.store.create("leases", namespace, { metadata: { name: key.name } });
      for (let count = 0; count <= watchHistory; count++) {
        world.store.patch("leases", key, { metadata: { annotations: { count: String(count) } } });
      }
    },
  };
}

function evictionPath(namespace: string, name: string, query = ""): string {
  return `/api/v1/namespaces/${namespace}/pods/${name}/eviction?${query}`;
}

function evictionOf(name: string, eviction: object = {}): object {
  return { apiVersion: "policy/v1", kind: "Eviction", metadata: { name }, ...eviction };
}
