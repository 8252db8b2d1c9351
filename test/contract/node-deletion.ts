/** A Node that the shipped fence-node deletes and makes again at a real API server: first without the right, then with it. */
import assert from "node:assert/strict";
import { fenceNode } from "../../functions/fence-node/function.ts";
import { createListReader } from "../../functions/shared/cache/listing.ts";
import type { Context } from "../../functions/shared/contract/context.ts";
import { createMemory } from "../../functions/shared/contract/memory.ts";
import { silentReporter } from "../../functions/shared/contract/reporter.ts";
import type { Cluster } from "../../functions/shared/kubernetes/cluster.ts";
import { find } from "../../functions/shared/kubernetes/find.ts";
import { protocol } from "../../functions/shared/ledger/protocol.ts";
import type { Api } from "../controlplane/api.ts";

const namespace = "sluice-fencing";
const name = "fenced-node";
const key = { namespace: "", name };
const record = { namespace, name: `fence-${name}` };
const noted = { "example.com/note": "kept" };
const theirs = { key: "example.com/dedicated", value: "db", effect: "NoSchedule" };

/** One reconcile of the Node by a process with an empty memory. Resolves to its last guard. */
async function reconcile(cluster: Cluster): Promise<string | undefined> {
  const guards: string[] = [];
  const reporter = { ...silentReporter, verdict: ({ guard }: { guard: string }) => void guards.push(guard) };
  const cache = createListReader(cluster, undefined);
  const common = { reporter, mode: "act", namespaces: undefined, memoryOf: createMemory() } as const;
  const context: Context = { cluster, cache, protocol, ...common };
  await fenceNode.reconcile(context, { resource: "nodes", namespace: "", name }, { sweep: false });
  return guards.at(-1);
}

const report = (cluster: Cluster, bootID: string, status: "True" | "Unknown") =>
  cluster.patch(
    "nodes",
    key,
    { status: { conditions: [{ type: "Ready", status }], nodeInfo: { bootID, systemUUID: "machine-1" } } },
    { subresource: "status" },
  );
const annotate = (cluster: Cluster, annotations: object) => cluster.patch("nodes", key, { metadata: { annotations } });
const textsOf = async (cluster: Cluster) => (await find(cluster, "leases", record))?.metadata.annotations ?? {};

/** Gives an account the normal rights of the function, which include neither the creation nor the deletion of Nodes. */
export async function grantNormalRights(api: Api, account: string): Promise<void> {
  const rbac = "/apis/rbac.authorization.k8s.io/v1";
  const apiGroup = "rbac.authorization.k8s.io";
  const rules = fenceNode.needs.map(({ group, resource, verbs }) => ({
    apiGroups: [group],
    resources: [resource],
    verbs,
  }));
  const metadata = { name: account };
  await api.post(`${rbac}/clusterroles`, { apiVersion: `${apiGroup}/v1`, kind: "ClusterRole", metadata, rules });
  await api.post(`${rbac}/clusterrolebindings`, {
    apiVersion: `${apiGroup}/v1`,
    kind: "ClusterRoleBinding",
    metadata,
    roleRef: { apiGroup, kind: "ClusterRole", name: account },
    subjects: [{ kind: "ServiceAccount", name: account, namespace: "default" }],
  });
}

/** @param limited has the normal rights of the function, and `cluster` has every right */
export async function replaceNode(cluster: Cluster, limited: Cluster): Promise<void> {
  const spec = { unschedulable: true, taints: [theirs], podCIDR: "10.9.7.0/24", podCIDRs: ["10.9.7.0/24"] };
  const made = await cluster.create("nodes", "", { metadata: { name, labels: noted, annotations: noted }, spec });
  await report(cluster, "boot-1", "Unknown");
  await annotate(cluster, { "sluice.dev/unhealthy": "silent", "sluice.dev/fence-strategy": "node-deletion" });
  assert.equal(await reconcile(limited), "no-agent");
  await annotate(cluster, { "sluice.dev/fence-confirmed": (await textsOf(cluster))["sluice.dev/fence-id"] });
  assert.equal(await reconcile(limited), "not-permitted");
  assert.equal((await cluster.get("nodes", key)).metadata.uid, made.metadata.uid);
  assert.equal((await textsOf(cluster))["sluice.dev/fence-hold"], "not-permitted");

  const since = { "sluice.dev/fence-since": "2026-01-01T00:00:00Z" };
  await cluster.patch("leases", record, { metadata: { annotations: since } });
  assert.equal(await reconcile(cluster), "not-ready");
  const { metadata, spec: after = {} } = await cluster.get("nodes", key);
  assert.notEqual(metadata.uid, made.metadata.uid);
  assert.deepEqual([metadata.labels, metadata.annotations?.["example.com/note"]], [noted, "kept"]);
  const { taints = [], ...range } = after;
  // The API server gives each new Node the taint not-ready.
  assert.deepEqual(
    taints.filter((one) => one.key !== "node.kubernetes.io/not-ready"),
    [theirs],
  );
  assert.deepEqual(range, { unschedulable: true, podCIDR: "10.9.7.0/24", podCIDRs: ["10.9.7.0/24"] });

  await report(cluster, "boot-2", "True");
  assert.equal(await reconcile(limited), "not-marked");
  const clean = (await cluster.get("nodes", key)).metadata;
  assert.deepEqual(clean.annotations, { ...noted, "sluice.dev/fence-strategy": "node-deletion" });
  assert.equal(await find(cluster, "leases", record), undefined);
  await cluster.delete("nodes", key, { uid: metadata.uid });
}
