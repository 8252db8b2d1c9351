/** What a process with watches requests from the API server before a decision, and what it takes from memory (R5). */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ViewNeed } from "../../../../functions/shared/cache/cache.ts";
import { createWatchCache, type WatchCache } from "../../../../functions/shared/cache/watching.ts";
import type { Cluster, ListQuery } from "../../../../functions/shared/kubernetes/cluster.ts";
import { type Call, Harness, key, namespace, played } from "../reconcile/harness.ts";

const notOlderThan = ({ given }: Call) => (given[1] as ListQuery).notOlderThan;

/** A process whose watches of each type can be silenced without its knowledge. */
async function listening() {
  const harness = await new Harness({ replicas: 2 }).prepare();
  const deaf = new Set<string>();
  const { watch } = harness.cluster;
  const cluster: Cluster = {
    ...harness.cluster,
    watch(resource, query, options) {
      const events = watch(resource, query, options);
      return {
        async *[Symbol.asyncIterator]() {
          for await (const event of events) if (!deaf.has(resource)) yield event;
        },
      };
    },
  };
  const cache = createWatchCache({ cluster, namespaces: undefined, onChange() {}, onTrouble() {} });
  await played(harness.timeline, cache.ready);
  harness.forget();
  const read = (need: Partial<ViewNeed> = {}) =>
    played(
      harness.timeline,
      cache.read(key, { settledThrough: 1, permitSinceMs: undefined, consistent: false, ...need }),
    );
  const permit = (need: Partial<ViewNeed> = {}) => read({ permitSinceMs: harness.cluster.monotonicMs(), ...need });
  const lists = (resource: string) =>
    harness.calls.filter((call) => call.verb === "list" && call.resource === resource);
  const stop = () => played(harness.timeline, cache.stop());
  return { harness, cache, deaf, read, permit, lists, stop };
}

const names = (view: Awaited<ReturnType<WatchCache["read"]>>) => view.workloads.map(({ name }) => name).sort();

function addZone({ world }: Harness): number {
  world.addGroup({ namespace, group: "group", zones: ["c"], replicas: 2 });
  return Number(world.store.list("statefulsets").resourceVersion);
}

test("if the watch does not reach members-through within 250 ms, StatefulSets are listed at least that new (S1)", async () => {
  const { harness, deaf, read, lists, stop } = await listening();
  deaf.add("statefulsets");
  const membersThrough = addZone(harness);
  assert.deepEqual(names(await read()), ["group-a", "group-b"]);
  const startMs = harness.cluster.monotonicMs();
  assert.deepEqual(names(await read({ membersThrough })), ["group-a", "group-b", "group-c"]);
  assert.ok(harness.cluster.monotonicMs() - startMs >= 250);
  assert.deepEqual(lists("statefulsets").map(notOlderThan), [String(membersThrough)]);
  harness.forget();
  assert.deepEqual(names(await read({ membersThrough })), ["group-a", "group-b", "group-c"]);
  assert.deepEqual(harness.requests, [], "the listed state is known");
  await stop();
});

test("a watch that is only a moment behind members-through is waited for", async () => {
  const { harness, read, stop } = await listening();
  const membersThrough = addZone(harness);
  assert.deepEqual(names(await read({ membersThrough })), ["group-a", "group-b", "group-c"]);
  assert.deepEqual(harness.requests, []);
  await stop();
});

test("a view's members-through is the revision from which its members are known, by watch or LIST", async () => {
  const { harness, read, stop } = await listening();
  const before = (await read()).membersThrough;
  harness.world.annotate({ namespace, name: "group-a" }, { "rollout-max-unavailable": "2" });
  await harness.goOn(100);
  assert.equal((await read()).membersThrough, before, "a member that changes is still the same member");
  const revision = addZone(harness);
  await harness.goOn(100);
  assert.equal((await read()).membersThrough, revision);
  harness.world.store.create("leases", namespace, { metadata: { name: "noise" } });
  const settledThrough = Number(harness.world.store.list("pods").resourceVersion);
  assert.equal((await read({ settledThrough })).membersThrough, revision, "also if pods had to be listed");
  await stop();
});

test("after 30 s of silence of the StatefulSets' watch alone, a read that may permit lists them (S1)", async () => {
  const { harness, deaf, read, permit, lists, stop } = await listening();
  deaf.add("statefulsets");
  addZone(harness);
  await harness.goOn(29_000);
  harness.world.store.sendBookmarks("pods");
  await harness.goOn(900);
  assert.deepEqual(names(await permit()), ["group-a", "group-b"], "silent for less than 30 s");
  await harness.goOn(200);
  harness.forget();
  assert.deepEqual(names(await read()), ["group-a", "group-b"]);
  assert.equal(lists("statefulsets").length, 0);
  const view = await permit();
  assert.deepEqual(names(view), ["group-a", "group-b", "group-c"]);
  assert.equal(lists("statefulsets").map(notOlderThan)[0], undefined);
  assert.equal(lists("pods").length, 0, "the watch of pods is not silent");
  assert.notEqual(view.statefulSetsReadMs, undefined);
  await harness.goOn(10);
  assert.equal(lists("statefulsets").length, 2, "a watch that disagreed is begun again with a list");
  await stop();
});

test("a watch of StatefulSets without changes is not begun again, and its state counts as received", async () => {
  const { harness, permit, lists, stop } = await listening();
  await harness.goOn(31_000);
  harness.world.store.sendBookmarks("pods");
  await harness.goOn(10);
  await permit();
  await harness.goOn(100);
  assert.equal(lists("statefulsets").length, 1);
  await permit();
  assert.equal(lists("statefulsets").length, 1);
  await stop();
});

test("an answer about one group after silence proves nothing about another", async () => {
  const { harness, cache, permit, lists, stop } = await listening();
  harness.world.addGroup({ namespace, group: "other", zones: ["a"], replicas: 1 });
  await harness.goOn(40_000);
  harness.forget();
  await permit();
  assert.equal(lists("pods").length, 2);
  await permit();
  assert.equal(lists("pods").length, 2);
  const need = { settledThrough: 1, permitSinceMs: harness.cluster.monotonicMs(), consistent: false };
  await played(harness.timeline, cache.read({ namespace, group: "other" }, need));
  assert.equal(lists("pods").length, 3);
  await stop();
});

test("a pod and its StatefulSet are read from the API server after 30 s of silence, and otherwise from memory", async () => {
  const { harness, cache, deaf, stop } = await listening();
  const at = { namespace, name: "group-a-0" };
  const readOnce = async () => {
    harness.forget();
    const pod = await played(harness.timeline, cache.pod(at));
    assert.ok(pod !== undefined);
    await played(harness.timeline, cache.ownerOf(pod));
    return [pod.labels.app, ...harness.requests];
  };
  deaf.add("pods").add("statefulsets");
  harness.world.store.patch("pods", at, { metadata: { labels: { app: "db" } } });
  await harness.goOn(29_000);
  assert.deepEqual(await readOnce(), [undefined]);
  await harness.goOn(1_100);
  assert.deepEqual(await readOnce(), ["db", "get pods", "get statefulsets"]);
  await stop();
});

test("a pod's StatefulSet that the watch has not reported is read at once, because its absence in memory proves nothing", async () => {
  const { harness, cache, deaf, stop } = await listening();
  deaf.add("statefulsets");
  addZone(harness);
  await harness.goOn(5_000);
  const pod = await played(harness.timeline, cache.pod({ namespace, name: "group-c-0" }));
  assert.ok(pod !== undefined);
  harness.forget();
  assert.equal((await played(harness.timeline, cache.ownerOf(pod)))?.name, "group-c");
  assert.deepEqual(harness.requests, ["get statefulsets"]);
  await stop();
});

test("orphaned pods of a StatefulSet are known from memory, but their absence is not, nor anything after silence (S3)", async () => {
  const { harness, cache, stop } = await listening();
  const left = async (name: string) => {
    harness.forget();
    const found = await played(harness.timeline, cache.podsMadeFor({ namespace, name }));
    return [found.map((pod) => pod.name).sort(), harness.requests];
  };
  const both = ["group-a-0", "group-a-1"];
  assert.deepEqual(await left("group-a"), [both, []], "a pod of its own, which it may just have orphaned");
  harness.world.removeStatefulSet({ namespace, name: "group-a" }, "Orphan");
  await harness.goOn(1_000);
  assert.deepEqual(await left("group-a"), [both, []]);
  assert.deepEqual(await left("group"), [[], ["list pods"]]);
  harness.world.kubelet.failPod({ namespace, name: "group-a-1" });
  await harness.goOn(31_000);
  assert.deepEqual(await left("group-a"), [both, ["list pods"]], "one of them has ended, and still exists");
  await stop();
});
