/** Kinds of a user: one whose size is mirrored, one that asks for skip labels, and one that no list names. */
import assert from "node:assert/strict";
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";
import { type Api, eventually } from "../controlplane/api.ts";
import { createGroup, waitForGroupReady } from "../controlplane/fixtures.ts";
import type { Kubectl } from "../support/kubectl.ts";
import type { Scene } from "../support/scene.ts";

const group = "kinds.example.com";
const apiVersion = `${group}/v1`;
const kinds = { things: "Thing", brokers: "Broker", others: "Other" } as const;
type Plural = keyof typeof kinds;

/** As values of the chart. `Other` is of no list. */
export const listedKinds = {
  kinds: { mirrored: [`things.${group}`], owners: [`brokers.${group}`] },
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
  const status = async (plural: Plural, body: object, subresource = "") => {
    const path = `${pathOf(namespace, plural)}/one${subresource}`;
    const type = "application/merge-patch+json";
    const { statusCode, body: answer } = await account.send("PATCH", path, body, type);
    return `${statusCode} ${((await answer.json()) as { message?: string }).message ?? ""}`;
  };
  const finalizers = { metadata: { finalizers: ["sluice.dev/release-prestop"] } };
  const sized = { status: { replicas: 4 } };
  assert.match(await status("others", finalizers), /^403 .*cannot patch resource "others"/);
  assert.match(await status("others", sized, "/status"), /^403 .*cannot patch resource "others\/status"/);
  assert.match(await status("brokers", sized, "/status"), /^403 .*cannot patch resource "brokers\/status"/);
  assert.match(await status("things", finalizers), /^403 .*cannot patch resource "things"/);
  assert.match(await status("things", sized, "/status"), /^200 /);
  assert.match(await status("things", { status: { phase: "Done" } }, "/status"), /^4\d\d .*no other field of things/);
  assert.match(await status("brokers", { spec: { replicas: 9 } }), /^4\d\d .*no other field of brokers/);
  assert.match(await status("brokers", { metadata: { labels: { a: "b" } } }), /^4\d\d .*no other label or annotation/);
}
