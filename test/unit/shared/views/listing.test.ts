/** What one object asks of the API server where nothing is kept: its owner, its group, the pods made for it; and all groups. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type Cluster,
  ClusterError,
  type ListQuery,
  type ObjectKey,
  type PodObject,
  type StatefulSetObject,
} from "../../../../functions/shared/kubernetes/cluster.ts";
import {
  createListingViews,
  getGroupOf,
  getOwnerOf,
  listGroups,
  listPodsMadeFor,
} from "../../../../functions/shared/views/listing.ts";
import { namespace, pod, podObject, statefulSetObject } from "../../functions/advance-zone-rollout/given.ts";

/** An API server with these objects, which says what it was asked for. */
function serving(statefulSets: readonly StatefulSetObject[], pods: readonly PodObject[] = []) {
  const asked: string[] = [];
  const cluster = {
    async get(resource: string, { name }: ObjectKey) {
      asked.push(`get ${resource} ${name}`);
      const found = statefulSets.find(({ metadata }) => metadata.name === name);
      if (found !== undefined) return found;
      throw new ClusterError({ code: 404, reason: "NotFound", message: "no", verb: "get", resource: "statefulsets" });
    },
    async list(resource: string, query: ListQuery) {
      asked.push([`list ${resource}`, query.namespace ?? "everywhere", query.labelSelector ?? ""].join(" "));
      const objects: readonly (PodObject | StatefulSetObject)[] = resource === "pods" ? pods : statefulSets;
      const items = objects.filter(({ metadata }) => [undefined, metadata.namespace].includes(query.namespace));
      return { items, resourceVersion: "9" };
    },
  } as unknown as Cluster;
  return { cluster, asked };
}

test("a pod's StatefulSet is the one of the name and the uid that the pod tells; a pod of another owner costs no read", async () => {
  const { cluster, asked } = serving([statefulSetObject("a")]);
  const ownerOf = async (changes: Parameters<typeof pod>[1]) => (await getOwnerOf(cluster, pod("a-0", changes)))?.name;
  assert.equal(await ownerOf({}), "a");
  assert.equal(await ownerOf({ ownerUid: "made-again" }), undefined);
  assert.equal(await ownerOf({ ownerName: "gone" }), undefined);
  asked.length = 0;
  assert.equal(await ownerOf({ ownerUid: undefined, ownerKind: "ReplicaSet" }), undefined);
  assert.equal(await ownerOf({ ownerUid: undefined, ownerName: undefined }), undefined);
  assert.deepEqual(asked, []);
});

test("the group of a StatefulSet is its label's; one that is gone, or has none, is in no group", async () => {
  const loose = statefulSetObject("loose", { metadata: { labels: {} } });
  const { cluster } = serving([statefulSetObject("a"), loose]);
  assert.deepEqual(await getGroupOf(cluster, namespace, "a"), { namespace, group: "group" });
  assert.deepEqual(await getGroupOf(cluster, namespace, "loose"), undefined);
  assert.deepEqual(await getGroupOf(cluster, namespace, "gone"), undefined);
});

test("pods made for a StatefulSet are those of its name that stand, its own or nobody's, and no other owner's (S3)", async () => {
  const labels = { "statefulset.kubernetes.io/pod-name": "a-1" };
  const pods = [
    podObject("a-0"),
    podObject("a-1", { metadata: { ownerReferences: [], labels } }),
    podObject("a-2", { metadata: { ownerReferences: [] } }),
    podObject("a-3", {
      metadata: { ownerReferences: [{ kind: "ReplicaSet", name: "a", uid: "u", controller: true }] },
    }),
    podObject("a-4", { metadata: { deletionTimestamp: "2026-01-01T00:09:00Z" } }),
    podObject("b-0"),
  ];
  const { cluster, asked } = serving([], pods);
  const made = await listPodsMadeFor(cluster, { namespace, name: "a" });
  assert.deepEqual(
    made.map(({ name }) => name),
    ["a-0", "a-1"],
  );
  assert.deepEqual(asked, [`list pods ${namespace} statefulset.kubernetes.io/pod-name`], "a consistent LIST");
});

test("every group is named once: of the namespaces that are served, of one of them, or of all", async () => {
  const zone = (name: string, group: string | undefined, at = namespace) =>
    statefulSetObject(name, {
      metadata: { namespace: at, labels: group === undefined ? {} : { "rollout-group": group } },
    });
  const { cluster, asked } = serving([
    zone("a", "one"),
    zone("b", "one"),
    zone("c", "two"),
    zone("d", undefined),
    zone("a", "one", "web"),
  ]);
  const here = [
    { namespace, group: "one" },
    { namespace, group: "two" },
  ];
  const there = { namespace: "web", group: "one" };
  assert.deepEqual(await listGroups(cluster, undefined), [...here, there]);
  assert.deepEqual(await listGroups(cluster, [namespace]), here);
  assert.deepEqual(await listGroups(cluster, ["web", namespace]), [there, ...here]);
  assert.deepEqual(await listGroups(cluster, []), []);
  asked.length = 0;
  const views = createListingViews(cluster, [namespace, "web"]);
  assert.deepEqual(await views.groups("web"), [there]);
  assert.deepEqual(await views.groups(undefined), [...here, there]);
  assert.deepEqual(
    asked,
    ["web", namespace, "web"].map((of) => `list statefulsets ${of} rollout-group`),
  );
  assert.equal(views.isLasting, false);
});
