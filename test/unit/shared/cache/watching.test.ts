/** Views from watches in a fake cluster: what they cost, when they list, and which failures they survive. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { GroupView, ViewNeed } from "../../../../functions/shared/cache/cache.ts";
import { createWatchCache } from "../../../../functions/shared/cache/watching.ts";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import { Harness, key, namespace, played } from "../reconcile/harness.ts";

const podKey = (name: string) => ({ namespace, name });

async function watching(options: ConstructorParameters<typeof Harness>[0] = {}) {
  const harness = await new Harness(options).prepare();
  const cache = await harness.watch();
  harness.forget();
  const read = (need: Partial<ViewNeed> = {}): Promise<GroupView> =>
    played(
      harness.timeline,
      cache.read(key, { settledThrough: 1, permitSinceMs: undefined, consistent: false, ...need }),
    );
  return { harness, cache, read };
}

const names = (view: GroupView): string[] =>
  view.workloads.flatMap((set) => [...view.podsOf(set)].map(({ name }) => name)).sort();
const all = ["group-a-0", "group-a-1", "group-b-0", "group-b-1"];

test("a decision that waits costs no request", async () => {
  const { harness } = await watching();
  await harness.run();
  harness.forget();
  for (let round = 0; round < 10; round++) await harness.run();
  assert.equal(harness.guard, "budget");
  assert.deepEqual(harness.requests, []);
});

test("a decision that takes a pod costs a GET of each StatefulSet, one write and one deletion", async () => {
  const { harness } = await watching();
  await harness.run();
  harness.world.settle();
  await harness.goOn(3_000);
  harness.forget();
  await harness.run();
  assert.equal(harness.guard, "rolling");
  assert.deepEqual(harness.requests, ["get statefulsets", "get statefulsets", "patch leases", "delete pods"]);
});

test("a view that only waits is served from memory, with what the watch has reported", async () => {
  const { harness, read } = await watching();
  assert.deepEqual(names(await read()), all);
  harness.world.store.delete("pods", podKey("group-a-0"), { gracePeriodSeconds: 0 });
  await harness.goOn(3);
  assert.equal((await read()).pod("group-a-0"), undefined);
  assert.deepEqual(harness.requests, []);
  assert.equal((await read()).statefulSetsReadMs, undefined);
});

test("each StatefulSet is read before a permit; a read serves for 3 s, unless another client has written the ledger since (R5)", async () => {
  const { harness, read } = await watching();
  const startMs = harness.cluster.monotonicMs();
  await read({ permitSinceMs: startMs });
  assert.equal(harness.count("get statefulsets"), 2);
  await harness.goOn(2_900);
  const view = await read({ permitSinceMs: startMs });
  assert.equal(harness.count("get statefulsets"), 2);
  assert.equal(view.statefulSetsReadMs, startMs);
  await read({ permitSinceMs: harness.cluster.monotonicMs() });
  assert.equal(harness.count("get statefulsets"), 4);
  await harness.goOn(3_100);
  await read({ permitSinceMs: startMs });
  assert.equal(harness.count("get statefulsets"), 6);
});

test("a StatefulSet that is gone, or has left the group, is not in a view that may permit", async () => {
  const { harness, read } = await watching();
  harness.interfere = ({ verb, resource }) => {
    if (verb !== "get" || resource !== "statefulsets") return;
    harness.interfere = () => {};
    harness.world.store.patch("statefulsets", podKey("group-b"), {
      metadata: { labels: { "rollout-group": "other" } },
    });
    harness.world.removeStatefulSet(podKey("group-a"));
  };
  const view = await read({ permitSinceMs: harness.cluster.monotonicMs() });
  assert.deepEqual(view.workloads, []);
});

test("a memory that does not reach settled-through within 250 ms is replaced by LISTs at least that new (R5)", async () => {
  const { harness, read } = await watching();
  harness.world.store.create("leases", namespace, { metadata: { name: "noise" } });
  const settledThrough = Number(harness.world.store.list("pods").resourceVersion);
  const startMs = harness.cluster.monotonicMs();
  await read({ settledThrough });
  assert.ok(harness.cluster.monotonicMs() - startMs >= 250);
  const lists = harness.calls.filter(({ verb }) => verb === "list");
  assert.equal(lists.length, 2);
  for (const { given } of lists)
    assert.equal((given[1] as { notOlderThan?: string }).notOlderThan, String(settledThrough));
});

test("a watch that is only a moment behind is waited for", async () => {
  const { harness, read } = await watching();
  harness.world.store.delete("pods", podKey("group-a-0"), { gracePeriodSeconds: 0 });
  const settledThrough = Number(harness.world.store.list("pods").resourceVersion);
  assert.equal((await read({ settledThrough })).pod("group-a-0"), undefined);
  assert.deepEqual(harness.requests, []);
});

test("after 30 s of silence a view that may permit is a consistent LIST, and another one is not (R5)", async () => {
  const { harness, read } = await watching();
  const settledThrough = 1;
  await harness.goOn(29_000);
  await read({ settledThrough, permitSinceMs: harness.cluster.monotonicMs() });
  assert.equal(harness.count("list pods"), 0);
  await harness.goOn(1_100);
  await read({ settledThrough });
  assert.equal(harness.count("list pods"), 0);
  await read({ settledThrough, permitSinceMs: harness.cluster.monotonicMs() });
  const lists = harness.calls.filter(({ verb, resource }) => verb === "list" && resource === "pods");
  assert.equal(lists.length, 2);
  for (const { given } of lists) assert.equal((given[1] as { notOlderThan?: string }).notOlderThan, undefined);
  harness.forget();
  await read({ settledThrough, permitSinceMs: harness.cluster.monotonicMs() });
  assert.equal(harness.count("list pods"), 0, "a confirmed memory counts as received");
});

test("a bookmark ends the silence", async () => {
  const { harness, read } = await watching();
  await harness.goOn(25_000);
  harness.world.store.sendBookmarks("pods");
  await harness.goOn(10_000);
  await read({ permitSinceMs: harness.cluster.monotonicMs() });
  assert.equal(harness.count("list pods"), 0);
});

test("a sweep, and a ledger's first decision, list consistently, whatever is in memory (R4)", async () => {
  for (const need of [{ consistent: true }, { settledThrough: undefined }]) {
    const { harness, read } = await watching();
    const startMs = harness.cluster.monotonicMs();
    const view = await read(need);
    assert.ok(harness.cluster.monotonicMs() - startMs < 50, "there is nothing to wait for");
    assert.deepEqual(names(view), all);
    const lists = harness.calls.filter(({ verb, resource }) => verb === "list" && resource === "pods");
    assert.equal(lists.length, 2);
    for (const { given } of lists) assert.equal((given[1] as { notOlderThan?: string }).notOlderThan, undefined);
  }
});

test("the lists' own revision counts as seen under a ledger's first decision, and later not (R4, R8)", async () => {
  const { harness, read } = await watching();
  harness.world.store.create("leases", namespace, { metadata: { name: "noise" } });
  const revision = Number(harness.world.store.list("pods").resourceVersion);
  assert.equal((await read({ settledThrough: undefined })).seenThrough, revision);
  assert.ok((await read({ consistent: true })).seenThrough < revision);
});

test("a watch that stopped without an error is detected after 30 s, and begun again with a list", async () => {
  const harness = await new Harness().prepare();
  let deaf = false;
  const { watch } = harness.cluster;
  const cluster = {
    ...harness.cluster,
    watch: ((resource, query, options) => {
      const events = watch(resource, query, options);
      return {
        async *[Symbol.asyncIterator]() {
          for await (const event of events) if (!deaf) yield event;
        },
      };
    }) as typeof watch,
  };
  const cache = createWatchCache({ cluster, namespaces: undefined, onChange() {}, onTrouble() {} });
  await played(harness.timeline, cache.ready);
  const read = (permitSinceMs: number | undefined): Promise<GroupView> =>
    played(harness.timeline, cache.read(key, { settledThrough: 1, permitSinceMs, consistent: false }));
  deaf = true;
  harness.world.store.delete("pods", podKey("group-a-0"), { gracePeriodSeconds: 0 });
  await harness.goOn(31_000);
  const before = (await read(undefined)).pod("group-a-0")?.uid;
  const after = (await read(harness.cluster.monotonicMs())).pod("group-a-0")?.uid;
  assert.notEqual(after, before);
  deaf = false;
  await harness.goOn(1_000);
  assert.equal((await read(undefined)).pod("group-a-0")?.uid, after);
});

test("a watch that breaks is reported, and resumed where it was after longer and longer waits", async () => {
  const harness = await new Harness().prepare();
  const troubles: number[] = [];
  const { watch } = harness.cluster;
  let broken = true;
  const cluster = {
    ...harness.cluster,
    watch: ((resource, query, options) => {
      if (broken && resource === "pods") throw new Error("connection reset");
      return watch(resource, query, options);
    }) as typeof watch,
  };
  const onTrouble = () => void troubles.push(harness.cluster.monotonicMs());
  const cache = createWatchCache({ cluster, namespaces: undefined, onChange() {}, onTrouble });
  await played(harness.timeline, cache.ready);
  await harness.goOn(60_000);
  const gaps = troubles.slice(1).map((atMs, index) => atMs - (troubles[index] ?? 0));
  assert.deepEqual(gaps.slice(0, 8), [100, 300, 700, 1_500, 3_100, 6_300, 10_000, 10_000]);
  broken = false;
  harness.world.store.delete("pods", podKey("group-a-0"), { gracePeriodSeconds: 0 });
  harness.forget();
  await harness.goOn(20_000);
  assert.equal(harness.count("list pods"), 0);
});

test("a watch whose revision is too old begins again with a list, at once and without a report", async () => {
  const harness = await new Harness().prepare();
  const troubles: unknown[] = [];
  const { watch } = harness.cluster;
  let expired = 0;
  const cluster = {
    ...harness.cluster,
    watch: ((resource, query, options) => {
      if (resource === "pods" && ++expired === 1) throw gone();
      return watch(resource, query, options);
    }) as typeof watch,
  };
  const onTrouble = (_resource: string, error: unknown) => void troubles.push(error);
  const triggered: string[] = [];
  const cache = createWatchCache({
    cluster,
    namespaces: undefined,
    onChange: ({ group }) => void triggered.push(group),
    onTrouble,
  });
  await played(harness.timeline, cache.ready);
  await harness.goOn(10);
  assert.deepEqual([harness.count("list pods"), harness.count("list statefulsets")], [2, 1]);
  assert.deepEqual(troubles, []);
  assert.ok(triggered.includes("group"));
});

function gone(): ClusterError {
  return new ClusterError({ code: 410, reason: "Expired", message: "too old", verb: "watch", resource: "pods" });
}

test("stopped views watch no more", async () => {
  const { harness, cache } = await watching();
  await played(harness.timeline, cache.stop());
  harness.world.store.delete("pods", podKey("group-a-0"), { gracePeriodSeconds: 0 });
  await harness.goOn(2_000);
  assert.equal(harness.calls.length, 0);
});

test("a read of a namespace that is not watched fails, and does not return an empty view", async () => {
  const harness = await new Harness().prepare();
  const options = { cluster: harness.cluster, onChange() {}, onTrouble() {} };
  const cache = createWatchCache({ ...options, namespaces: ["elsewhere"] });
  await played(harness.timeline, cache.ready);
  const need = { settledThrough: 1, permitSinceMs: undefined, consistent: false };
  await assert.rejects(cache.read(key, need), /namespace db is not among the watched ones/);
});

/** What a cache reports of changes: to its owner, of a group by the kind of object, and to its listeners, of a namespace. */
async function reporting() {
  const harness = await new Harness().prepare();
  const [groups, listened]: [Set<string>, Set<string>] = [new Set(), new Set()];
  const cache = createWatchCache({
    ...{ cluster: harness.cluster, namespaces: undefined, onTrouble() {} },
    onChange: ({ group }, by) => groups.add(`${group} ${by}`),
  });
  cache.onChange?.((where, group) => listened.add(`${where} ${group}`));
  await played(harness.timeline, cache.ready);
  const reported = async (change: () => unknown) => {
    for (const one of [groups, listened]) one.clear();
    change();
    await harness.goOn(50);
    return [[...groups], [...listened]];
  };
  return { harness, cache, reported };
}

test("a change of a pod or of a StatefulSet is reported with its group, and to those that wait for the namespace", async () => {
  const { harness, cache, reported } = await reporting();
  const { store } = harness.world;
  const touch = (resource: "pods" | "statefulsets", name: string, labels: Readonly<Record<string, string>>) =>
    store.patch(resource, podKey(name), { metadata: { labels } } as never);
  assert.equal(cache.pods, 4);
  const listened = ["db group"];
  assert.deepEqual(await reported(() => touch("pods", "group-a-0", { one: "1" })), [["group pods"], listened]);
  assert.deepEqual(
    await reported(() =>
      store.patch("statefulsets", podKey("group-a"), {
        metadata: { annotations: { "rollout-max-unavailable": "2" } },
      } as never),
    ),
    [["group statefulsets"], listened],
  );
  const loose = (name: string, labels: Readonly<Record<string, string>>) =>
    store.create("pods", namespace, { metadata: { name, labels }, spec: { containers: [] } } as never);
  assert.deepEqual(await reported(() => loose("one-0", { "rollout-group": "group" })), [["group pods"], listened]);
  assert.deepEqual(await reported(() => loose("two-0", {})), [[], ["db undefined"]]);
  await reported(() => touch("statefulsets", "group-b", { "rollout-group": null as never }));
  const [, alone] = await reported(() => touch("pods", "group-b-0", { "rollout-group": "other", one: "3" }));
  assert.deepEqual(alone, ["db undefined"], "the label of a pod does not count where it has a StatefulSet");
});

test("a group whose pods no StatefulSet controls is listed, because no watch serves it", async () => {
  const { harness, cache } = await watching();
  const need = { settledThrough: 1, permitSinceMs: undefined, consistent: false };
  const owned = { namespace, group: "owner:Database.example.com/orders" };
  assert.deepEqual((await played(harness.timeline, cache.read(owned, need))).workloads, []);
  assert.deepEqual(harness.requests, ["list statefulsets", "list persistentvolumeclaims", "list pods"]);
});
