/** Two namespaces with the same objects in them. Sluice serves the first one, and its accounts have no work in the other one. */
import type { Api } from "../controlplane/api.ts";
import type { Built } from "../support/kubectl.ts";
import type { Place } from "./escapes.ts";

const size = { storage: "1Gi" };
const containers = [{ name: "c", image: "app:1" }];

/** Labels, an annotation and a finalizer that are not ours. */
function named(name: string, more: object = {}): object {
  const fields = { labels: { app: name }, annotations: { "example.com/here": "true" } };
  return { name, ...fields, finalizers: ["example.com/kept"], ...more };
}

/** Makes what the attempts are about. Nothing binds or starts: the volumes are of no class, and the StatefulSet is empty. */
export async function furnish(api: Api, { namespace, elsewhere }: Place): Promise<void> {
  for (const one of [namespace, elsewhere]) await furnishOne(api, one);
  const validating = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
  await api.post(validating, ofNoNamespace(namespace, { app: "old" }));
  const volumes = {
    [`ours-${namespace}`]: { claimRef: referenceTo(namespace, "data-gone") },
    [`theirs-${namespace}`]: { claimRef: referenceTo(elsewhere, "data-gone") },
    [`free-${namespace}`]: {},
  };
  for (const [name, spec] of Object.entries(volumes))
    await api.post("/api/v1/persistentvolumes", {
      apiVersion: "v1",
      kind: "PersistentVolume",
      metadata: named(name),
      spec: {
        accessModes: ["ReadWriteOnce"],
        capacity: size,
        persistentVolumeReclaimPolicy: "Delete",
        storageClassName: "no-class",
        csi: { driver: "csi.example.com", volumeHandle: name },
        ...spec,
      },
    });
}

/**
 * A configuration that the accounts of a namespace may change by its name, which ends in one that they serve, though no manifest
 * has it. Nothing is served at its path.
 */
export function ofNoNamespace(
  namespace: string,
  labels: Readonly<Record<string, string>>,
  served: string = namespace,
): Built {
  const nowhere = { matchLabels: { "kubernetes.io/metadata.name": "nowhere" } };
  const rule = { apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods/eviction"] };
  const service = { name: "rollout-operator", namespace, port: 443, path: "/not-served/pod-eviction" };
  return {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "ValidatingWebhookConfiguration",
    metadata: {
      name: `pod-eviction-${served}`,
      labels: { "grafana.com/inject-rollout-operator-ca": "true", "grafana.com/namespace": namespace, ...labels },
    },
    webhooks: [
      {
        name: `pod-eviction.${namespace}.grafana.com`,
        clientConfig: { service },
        rules: [{ ...rule, scope: "Namespaced" }],
        namespaceSelector: nowhere,
        admissionReviewVersions: ["v1"],
        sideEffects: "None",
      },
    ],
  } as Built;
}

function referenceTo(namespace: string, name: string): object {
  return { apiVersion: "v1", kind: "PersistentVolumeClaim", namespace, name, uid: crypto.randomUUID() };
}

async function furnishOne(api: Api, namespace: string): Promise<void> {
  const core = `/api/v1/namespaces/${namespace}`;
  const at = (group: string) => `/apis/${group}/namespaces/${namespace}`;
  const app = { app: "db" };
  await api.post(`${at("apps/v1")}/statefulsets`, {
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    metadata: named("db"),
    spec: {
      replicas: 0,
      selector: { matchLabels: app },
      template: { metadata: { labels: app }, spec: { containers } },
    },
  });
  await api.post(`${core}/pods`, { apiVersion: "v1", kind: "Pod", metadata: named("alone"), spec: { containers } });
  const claim = { accessModes: ["ReadWriteOnce"], resources: { requests: size }, storageClassName: "no-class" };
  for (const name of ["data-db-0", "unbound"])
    await api.post(`${core}/persistentvolumeclaims`, {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: named(name),
      spec: claim,
    });
  const ledger = { annotations: { "sluice.dev/group": "db", "sluice.dev/format": "1" } };
  const leases = { leader: {}, "sluice-lookalike": {}, "marked-like-one": ledger, "sluice-db": ledger };
  for (const [name, more] of Object.entries(leases))
    await api.post(`${at("coordination.k8s.io/v1")}/leases`, {
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: named(name, more),
    });
  for (const [apiVersion, kind, plural, name] of [
    ["rabbitmq.com/v1beta1", "RabbitmqCluster", "rabbitmqclusters", "orders"],
    ["apps.foundationdb.org/v1beta2", "FoundationDBCluster", "foundationdbclusters", "fdb"],
  ] as const)
    await api.post(`${at(apiVersion)}/${plural}`, {
      apiVersion,
      kind,
      metadata: named(name),
      spec: kind === "FoundationDBCluster" ? { labels: { matchLabels: app } } : {},
    });
  await api.patch(`${at("apps.foundationdb.org/v1beta2")}/foundationdbclusters/fdb/status`, {
    status: { processGroups: [{ processGroupID: "storage-1" }] },
  });
}
