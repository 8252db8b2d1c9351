/** The requests to the API server without a cache: an object's owner, its group, the pods made for it; and all groups. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { indexPods, viewOfIndex } from "../../../../functions/shared/cache/cache.ts";
import {
  createListReader,
  getGroupOf,
  getOwnerOf,
  listGroups,
  listOrphans,
  listPodsMadeFor,
  readAgain,
} from "../../../../functions/shared/cache/listing.ts";
import { surroundingsOf } from "../../../../functions/shared/groups/governing.ts";
import {
  type Cluster,
  ClusterError,
  type ListQuery,
  type ObjectKey,
  type PodObject,
  type StatefulSetObject,
} from "../../../../functions/shared/kubernetes/cluster.ts";
import { asStatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";
import {
  namespace,
  nowMs,
  pod,
  podObject,
  statefulSet,
  statefulSetObject,
} from "../../functions/advance-zone-rollout/given.ts";

/** An API server with these objects, which records its requests. */
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

test("a pod's StatefulSet has the name and the uid of its owner reference; a pod of another owner costs no read", async () => {
  const { cluster, asked } = serving([statefulSetObject("a")]);
  const ownerOf = async (changes: Parameters<typeof pod>[1]) => (await getOwnerOf(cluster, pod("a-0", changes)))?.name;
  assert.equal(await ownerOf({}), "a");
  assert.equal(await ownerOf({ ownerUid: "made-again" }), undefined);
  assert.equal(await ownerOf({ ownerName: "gone" }), undefined);
  asked.length = 0;
  assert.equal(await ownerOf({ ownerUid: undefined, ownerKind: "ReplicaSet" }), undefined);
  assert.equal(await ownerOf({ ownerUid: undefined, ownerName: undefined }), undefined);
  assert.equal(await ownerOf({ ownerName: undefined }), undefined);
  assert.deepEqual(asked, []);
});

test("a StatefulSet's group is that of its label; a missing StatefulSet, or one without the label, has none", async () => {
  const loose = statefulSetObject("loose", { metadata: { labels: {} } });
  const { cluster } = serving([statefulSetObject("a"), loose]);
  assert.deepEqual(await getGroupOf(cluster, namespace, "a"), { namespace, group: "group" });
  assert.deepEqual(await getGroupOf(cluster, namespace, "loose"), undefined);
  assert.deepEqual(await getGroupOf(cluster, namespace, "gone"), undefined);
});

test("pods made for a StatefulSet have its name, are not terminating, and belong to it or to no owner (S3)", async () => {
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
  const orphans = await listOrphans(cluster, namespace);
  assert.deepEqual(
    orphans.map(({ name }) => name),
    ["a-1"],
    "without those that a StatefulSet owns",
  );
});

test("every group is listed once, for the served namespaces, one of them, or all", async () => {
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
  const cache = createListReader(cluster, [namespace, "web"]);
  assert.deepEqual(await cache.groups("web"), [there]);
  assert.deepEqual(await cache.groups(undefined), [...here, there]);
  assert.deepEqual(
    asked,
    ["web", namespace, "web"].map((of) => `list statefulsets ${of} rollout-group`),
  );
  assert.equal(cache.isLasting, false);
});

const key = { namespace, group: "group" };
const fresh = { permitSinceMs: undefined, consistent: true, settledThrough: undefined, membersThrough: undefined };

/**
 * Whether a StatefulSet is read again after its pods, the newest of which was created this many milliseconds before
 * it was listed.
 */
async function readsAgain(...pods: readonly { readonly madeMs: number; readonly revision: string }[]) {
  const made = pods.map(({ madeMs, revision }, index) => {
    const creationTimestamp = Number.isNaN(madeMs) ? undefined : new Date(nowMs - madeMs).toISOString();
    return podObject(`a-${index}`, {
      metadata: {
        labels: { "controller-revision-hash": revision },
        ...(creationTimestamp === undefined ? {} : { creationTimestamp }),
      },
    });
  });
  const { cluster, asked } = serving(
    [statefulSetObject("a", { spec: { selector: { matchLabels: { name: "a" } } } })],
    made,
  );
  let passedMs = 0;
  const slow = {
    ...cluster,
    async list(resource: never, query: ListQuery) {
      const answer = await cluster.list(resource, query);
      passedMs += 5_000;
      return answer;
    },
    monotonicMs: () => 1_000_000 + passedMs,
    serverTimeMs: () => nowMs + passedMs,
  } as unknown as Cluster;
  await createListReader(slow, undefined).read(key, fresh);
  return asked.includes("get statefulsets a");
}

test("a StatefulSet is read again if a pod of another revision may have been created since it was listed, by any clock (Z3)", async () => {
  const [old, wanted] = ["old", "new"];
  assert.equal(await readsAgain({ madeMs: 30_001, revision: old }), false);
  assert.equal(await readsAgain({ madeMs: 30_000, revision: old }), true);
  assert.equal(await readsAgain({ madeMs: -4_000, revision: old }), true);
  assert.equal(await readsAgain({ madeMs: -4_000, revision: wanted }), false, "it runs the wanted revision");
  assert.equal(await readsAgain({ madeMs: Number.NaN, revision: old }), true, "its creation time is unknown");
  assert.equal(await readsAgain({ madeMs: 60_000, revision: old }, { madeMs: 1_000, revision: old }), true);
  assert.equal(await readsAgain(), false);
});

test("a StatefulSet that is gone at the second read leaves the view, and the neighbours stay", async () => {
  const { cluster } = serving([statefulSetObject("a", { metadata: { resourceVersion: "8" } })]);
  const [a, b, c, n] = ["a", "b", "c", "n"].map((name) => statefulSet(name));
  assert.ok(a && b && c && n);
  const known = surroundingsOf([a, b, c, { ...n, group: "another" }], key, []);
  const view = viewOfIndex(known, { askedMs: 0 }, indexPods([]));
  const received: string[] = [];
  const read = await readAgain({ ...cluster, monotonicMs: () => 7 } as Cluster, key, view, [a, b], (set, readMs) => {
    received.push(`${set.name}@${set.resourceVersion} at ${readMs}`);
  });
  assert.deepEqual(received, ["a@8 at 7"]);
  const shown = ({ workloads, neighbours }: typeof read) => [
    workloads.map(({ name, resourceVersion }) => `${name}@${resourceVersion}`),
    neighbours.map(({ name }) => name),
  ];
  assert.deepEqual(shown(read), [["c@5", "a@8"], ["n"]]);
  assert.equal(await readAgain(cluster, key, view, []), view, "if no StatefulSet is behind, the view is the same");
});

test("the group of a budget has the StatefulSets whose pods it selects, and not those of another budget", async () => {
  const budget = (name: string, matchLabels: object) => ({
    metadata: { name, namespace, uid: `uid-of-${name}`, resourceVersion: "9" },
    spec: { maxUnavailable: 1, selector: { matchLabels } },
  });
  const loose = (name: string) => statefulSetObject(name, { metadata: { labels: {} } });
  const ofA = podObject("a-0", { metadata: { labels: { app: "db" } } });
  const found = async (matchLabels: object) => {
    const budgets = [budget("another", { app: "queue" }), budget("one", matchLabels)];
    const { cluster } = serving([loose("a"), loose("b")], [ofA]);
    const queries: ListQuery[] = [];
    const listing = {
      ...cluster,
      async list(resource: never, query: ListQuery) {
        if (resource === "pods") queries.push(query);
        if (resource === "zoneawarepoddisruptionbudgets") return { items: budgets, resourceVersion: "9" };
        return cluster.list(resource, query);
      },
      monotonicMs: () => 0,
      serverTimeMs: () => nowMs,
    } as unknown as Cluster;
    const view = await createListReader(listing, undefined).read({ namespace, group: "budget:one" }, fresh);
    const has = view.budgets.map((one) =>
      [...view.neighbours, ...view.workloads.map(asStatefulSet)].map((set) => view.hasPods?.(set, one)),
    );
    return { first: queries[0], members: view.workloads.map(({ name }) => name), has };
  };
  const one = await found({ app: "db" });
  assert.deepEqual(one.first, { namespace, labelSelector: "app=db" });
  assert.deepEqual(one.members, ["a"]);
  assert.deepEqual(one.has, [
    [false, false],
    [false, true],
  ]);
  assert.deepEqual((await found({})).first, { namespace }, "an empty selector is none, and selects every pod");
});
