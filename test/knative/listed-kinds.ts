/** Kinds of a user: one whose size is mirrored, one that asks for skip labels, and one that no list names. */
import assert from "node:assert/strict";
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";
import { type Api, eventually } from "../controlplane/api.ts";
import { auditPosition, readAudit } from "../controlplane/audit.ts";
import { createGroup, waitForGroupReady } from "../controlplane/fixtures.ts";
import type { Kubectl } from "../support/kubectl.ts";
import type { Scene } from "../support/scene.ts";

const group = "kinds.example.com";
const apiVersion = `${group}/v1`;
const kinds = { things: "Thing", brokers: "Broker", others: "Other" } as const;
type Plural = keyof typeof kinds;

/** As values of the chart, with a kind whose own controller writes its status. `Other` is of no list. */
export const listedKinds = {
  kinds: { mirrored: [`things.${group}`, "deployments.apps"], owners: [`brokers.${group}`] },
  settings: { SKIP_LABEL_KINDS: `Broker.${group}`, SKIP_LABEL_WAIT: "0" },
};

/** The CRDs. Objects of all three have a size and a status. */
export async function serveKinds(kubectl: Kubectl): Promise<void> {
  const open = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
  const scale = { specReplicasPath: ".spec.replicas", statusReplicasPath: ".status.replicas" };
  const definitions = Object.entries(kinds).map(([plural, kind]) => ({
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: "Namespaced",
      names: { plural, kind },
      versions: [
        {
          name: "v1",
          served: true,
          storage: true,
          schema: { openAPIV3Schema: { type: "object", properties: { spec: open, status: open } } },
          subresources: { status: {}, scale },
        },
      ],
    },
  }));
  await kubectl.apply(definitions);
}

interface Custom {
  readonly metadata: Metadata;
  readonly status?: { readonly replicas?: number };
}

function pathOf(namespace: string, plural: Plural): string {
  return `/apis/${apiVersion}/namespaces/${namespace}/${plural}`;
}

function create(api: Api, namespace: string, plural: Plural, annotations = {}): Promise<Custom> {
  const metadata = { name: "one", annotations };
  return api.post(pathOf(namespace, plural), { apiVersion, kind: kinds[plural], metadata, spec: { replicas: 3 } });
}

/** A zone gets the size of an object of the kind, and its status says so. */
export async function mirrorListed({ api, controlPlane, group: { namespace } }: Scene): Promise<void> {
  await create(api, namespace, "things");
  const from = "grafana.com/rollout-mirror-replicas-from-resource";
  const annotations = { [`${from}-name`]: "one", [`${from}-kind`]: "Thing", [`${from}-api-version`]: apiVersion };
  await createGroup(controlPlane, { name: "mirroring", namespace, zones: 1, pods: 1, annotations });
  await eventually("the size mirrored, and written back", 60_000, async () => {
    const { status } = await api.get<Custom>(`${pathOf(namespace, "things")}/one`);
    return status?.replicas === 3 ? true : undefined;
  });
  const set = `/apis/apps/v1/namespaces/${namespace}/statefulsets/mirroring-zone-a`;
  assert.equal((await api.get<{ spec: { replicas: number } }>(set)).spec.replicas, 3);
}

const deployments = (namespace: string) => `/apis/apps/v1/namespaces/${namespace}/deployments`;

/** A zone of another size than the Deployment that it mirrors: the user reads that scale, and leaves the status alone. */
export async function mirrorDeployment({ api, controlPlane, group: { namespace } }: Scene, user: string) {
  const from = await auditPosition(controlPlane.auditLog);
  const labels = { app: "sized" };
  const template = { metadata: { labels }, spec: { containers: [{ name: "app", image: "app:1" }] } };
  const spec = { replicas: 1, selector: { matchLabels: labels }, template };
  await api.post(deployments(namespace), { metadata: { name: "sized" }, spec });
  const source = "grafana.com/rollout-mirror-replicas-from-resource";
  const annotations = {
    [`${source}-name`]: "sized",
    [`${source}-kind`]: "Deployment",
    "grafana.com/rollout-force-replicas": "2",
  };
  await createGroup(controlPlane, { name: "forced", namespace, zones: 1, pods: 2, annotations });
  // A reconcile writes back right after the read, so that the first one has done so when the next one reads.
  await eventually("its scale read by two reconciles, and its status not written", 60_000, async () => {
    const asked: string[] = [];
    for await (const entry of readAudit(controlPlane.auditLog, { from }, () => {}))
      if (entry.user === user && entry.namespace === namespace && entry.name === "sized")
        asked.push(`${entry.verb} ${entry.resource}`);
    assert.deepEqual(
      [...new Set(asked)].filter((one) => one !== "get deployments/scale"),
      [],
    );
    return asked.length >= 2 ? true : undefined;
  });
}

/** An owner of the kind gets the finalizer, and when it is deleted its pods get the label before it goes. */
export async function labelListed({ api, controlPlane, group: { namespace } }: Scene): Promise<void> {
  const { metadata } = await create(api, namespace, "brokers", { "sluice.dev/skip-label": "sluice.dev/let-go" });
  const made = await createGroup(controlPlane, { name: "owned", namespace, zones: 1, pods: 2 });
  const owner = { apiVersion, kind: kinds.brokers, name: "one", uid: metadata.uid, controller: true };
  const core = `/api/v1/namespaces/${namespace}/pods?labelSelector=rollout-group%3Downed`;
  await api.patch(`/apis/apps/v1/namespaces/${namespace}/statefulsets/owned-zone-a`, {
    metadata: { ownerReferences: [owner] },
  });
  await waitForGroupReady(controlPlane, made);
  const path = `${pathOf(namespace, "brokers")}/one`;
  await eventually("an owner with the finalizer", 60_000, async () => {
    const { finalizers = [] } = (await api.get<Custom>(path)).metadata;
    return finalizers.includes("sluice.dev/release-prestop") ? true : undefined;
  });
  await api.patch(path, { metadata: { annotations: { "sluice.dev/stop-all": "true" } } });
  await eventually("its pods labelled, and its status written", 60_000, async () => {
    const { items } = await api.get<{ items: Custom[] }>(core);
    const isLabelled = items.every((one) => one.metadata.labels?.["sluice.dev/let-go"] !== undefined);
    const { annotations = {} } = (await api.get<Custom>(path)).metadata;
    return isLabelled && annotations["sluice.dev/skip-status"] !== undefined ? true : undefined;
  });
}

/** What the account may not write: an unlisted kind, and of the listed ones what no function writes. */
export async function forgeWrites({ api, group: { namespace } }: Scene, account: Api): Promise<void> {
  await create(api, namespace, "others");
  const patched = async (path: string, body: object) => {
    const { statusCode, body: answer } = await account.send("PATCH", path, body, "application/merge-patch+json");
    return `${statusCode} ${((await answer.json()) as { message?: string }).message ?? ""}`;
  };
  const status = (plural: Plural, body: object, subresource = "") =>
    patched(`${pathOf(namespace, plural)}/one${subresource}`, body);
  const finalizers = { metadata: { finalizers: ["sluice.dev/release-prestop"] } };
  const sized = { status: { replicas: 4 } };
  assert.match(await status("others", finalizers), /^403 .*cannot patch resource "others"/);
  assert.match(await status("others", sized, "/status"), /^403 .*cannot patch resource "others\/status"/);
  assert.match(await status("brokers", sized, "/status"), /^403 .*cannot patch resource "brokers\/status"/);
  const deployment = `${deployments(namespace)}/sized`;
  assert.match(await patched(`${deployment}/status`, sized), /^403 .*cannot patch resource "deployments\/status"/);
  assert.match(await status("things", finalizers), /^403 .*cannot patch resource "things"/);
  assert.match(await status("things", sized, "/status"), /^200 /);
  assert.match(await status("things", { status: { phase: "Done" } }, "/status"), /^4\d\d .*no other field of things/);
  assert.match(await status("brokers", { spec: { replicas: 9 } }), /^4\d\d .*no other field of brokers/);
  assert.match(await status("brokers", { metadata: { labels: { a: "b" } } }), /^4\d\d .*no other label or annotation/);
}
