/** Views made of LISTs: what is requested, what counts as seen, and what a LIST proves (R4, R5, R8). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { getPod, indexPods, listBudgets, listPods, viewOfIndex } from "../../../../functions/shared/cache/cache.ts";
import {
  type Cluster,
  ClusterError,
  type ListQuery,
  type PodObject,
} from "../../../../functions/shared/kubernetes/cluster.ts";
import { namespace, podObject, statefulSet } from "../../functions/advance-zone-rollout/given.ts";

const at = (name: string, revision: number, more: Partial<PodObject["metadata"]> = {}): PodObject =>
  podObject(name, { metadata: { resourceVersion: `${revision}`, ...more } });
const [a, b] = [statefulSet("a"), statefulSet("b")];
const key = { namespace, group: "group" };

/** Answers each LIST with the pods of its selector, at the revision given for it. */
function serving(revisions: Readonly<Record<string, number>>, ...pods: PodObject[]) {
  const queries: ListQuery[] = [];
  const cluster = {
    async list(_resource: string, query: ListQuery) {
      queries.push(query);
      const [, name = ""] = query.labelSelector?.split("=") ?? [];
      const items = pods.filter(({ metadata }) => metadata.name.startsWith(`${name}-`));
      return { items, resourceVersion: `${revisions[name]}` };
    },
  } as unknown as Cluster;
  return { cluster, queries };
}

test("pods are listed by the selector of each StatefulSet, consistently or at least as new as required", async () => {
  const { cluster, queries } = serving({ a: 20 });
  for (const need of [
    { settledThrough: 7, consistent: false },
    { settledThrough: 7, consistent: true },
    { settledThrough: undefined, consistent: false },
    { settledThrough: 0, consistent: false },
  ]) {
    await listPods(cluster, key, [a], need);
  }
  const consistent = { namespace, labelSelector: "name=a" };
  assert.deepEqual(queries, [{ ...consistent, notOlderThan: "7" }, consistent, consistent, consistent]);
});

test("several lists are as old as the oldest; consistent ones prove the newest revision, and others prove none (R5)", async () => {
  const { cluster } = serving({ a: 20, b: 30 }, at("a-0", 12), at("b-0", 9));
  const list = (consistent: boolean, ...statefulSets: (typeof a)[]) =>
    listPods(cluster, key, statefulSets, { settledThrough: 7, consistent });
  const index = await list(true, a, b);
  assert.deepEqual([index.listedAt, index.consistentAt, index.seenThrough], [20, 30, 12]);
  assert.equal((await list(true, a)).consistentAt, 20);
  assert.equal((await list(false, a, b)).consistentAt, undefined);
  assert.equal((await list(true)).consistentAt, undefined, "without a LIST nothing is proved");
});

test("under a ledger's first decision the revision of the newest list counts as seen, or 0 without a list (R4)", async () => {
  const { cluster } = serving({ a: 20, b: 30 }, at("a-0", 12));
  const seen = async (...statefulSets: (typeof a)[]) =>
    (await listPods(cluster, key, statefulSets, { settledThrough: undefined, consistent: true })).seenThrough;
  assert.deepEqual([await seen(a, b), await seen(a), await seen()], [30, 20, 0]);
});

test("a list has seen through the largest revision of its pods, and each pod belongs to its owner", () => {
  const index = indexPods([at("a-1", 4), at("a-0", 9), at("web", 5, { ownerReferences: [] })]);
  assert.deepEqual([index.seenThrough, index.listedAt, index.consistentAt], [9, 0, undefined]);
  assert.deepEqual([...index.byOwner.keys()], ["uid-of-a"]);
  assert.deepEqual([...index.byName.keys()], ["a-1", "a-0", "web"]);
  assert.equal(indexPods([]).seenThrough, 0);
});

test("a view of lists knows all members up to the newest one, and is consistent if all its lists are", () => {
  const around = (...workloads: (typeof a)[]) => ({ workloads, neighbours: [], budgets: [] });
  const pods = { ...indexPods([at("a-0", 4)]), consistentAt: 20 };
  const younger = statefulSet("b", { resourceVersion: "8" });
  const view = viewOfIndex(around(younger, a), { askedMs: 7, revision: 19 }, pods);
  assert.deepEqual([view.membersThrough, view.statefulSetsReadMs], [8, 7]);
  assert.deepEqual(view.consistentAt, { pods: 20, statefulSets: 19 });
  assert.deepEqual([[...view.podsOf(a)].length, [...view.podsOf(younger)]], [1, []]);
  assert.equal(viewOfIndex(around(), { askedMs: 7 }, pods).membersThrough, 0);
  assert.equal(viewOfIndex(around(a), { askedMs: undefined }, pods).consistentAt, undefined, "a watch reported them");
  const stale = { ...pods, consistentAt: undefined };
  assert.equal(viewOfIndex(around(a), { askedMs: 7, revision: 19 }, stale).consistentAt, undefined);
});

test("without their CRD there are no budgets, and a pod that is not found is gone; other errors are thrown", async () => {
  const failing = (code: number) => {
    const fail = async () => {
      throw new ClusterError({ code, reason: "Test", message: "no", verb: "get", resource: "pods" });
    };
    return { list: fail, get: fail } as unknown as Cluster;
  };
  assert.deepEqual(await listBudgets(failing(404), namespace), []);
  assert.equal(await getPod(failing(404), { namespace, name: "a-0" }), undefined);
  for (const code of [0, 202, 403, 500, 808]) {
    await assert.rejects(listBudgets(failing(code), namespace), { code });
    await assert.rejects(getPod(failing(code), { namespace, name: "a-0" }), { code });
  }
});

test("budgets are listed in one namespace, or in all", async () => {
  const { cluster, queries } = serving({});
  await listBudgets(cluster, namespace);
  await listBudgets(cluster, undefined);
  assert.deepEqual(queries, [{ namespace }, {}]);
});
