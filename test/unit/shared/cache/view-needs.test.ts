/** The limits of a view's needs: how long silence may last, how long a GET serves, and what a LIST proves (R5). */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ViewNeed } from "../../../../functions/shared/cache/cache.ts";
import { emptyMemory, podStore } from "../../../../functions/shared/cache/pod-store.ts";
import { readView } from "../../../../functions/shared/cache/read-view.ts";
import { statefulSetStore } from "../../../../functions/shared/cache/statefulset-store.ts";
import {
  type Cluster,
  ClusterError,
  type ListQuery,
  type ObjectKey,
  type PodObject,
  type StatefulSetObject,
} from "../../../../functions/shared/kubernetes/cluster.ts";
import { namespace, podObject, statefulSetObject } from "../../functions/advance-zone-rollout/given.ts";
import { createVirtualClock } from "../kubernetes/virtual-clock.ts";

const at = (name: string, revision: number, metadata: Partial<PodObject["metadata"]> = {}): PodObject =>
  podObject(name, { metadata: { resourceVersion: `${revision}`, ...metadata } });
const set = (name: string, revision: number, updateRevision = "new", labels = { "rollout-group": "group" }) =>
  statefulSetObject(name, { metadata: { resourceVersion: `${revision}`, labels }, status: { updateRevision } });

const notFound = () =>
  new ClusterError({ code: 404, reason: "NotFound", message: "no", verb: "get", resource: "statefulsets" });

/** A cache with the API server's objects, and an API server whose objects may have changed since. */
function make(statefulSets: readonly StatefulSetObject[] = [set("a", 3)], pods: readonly PodObject[] = [at("a-0", 4)]) {
  const clock = createVirtualClock();
  const server = { statefulSets, pods, revision: 20 };
  const calls: string[] = [];
  const cluster = {
    monotonicMs: clock.monotonicMs,
    sleep: clock.sleep,
    async list(resource: "statefulsets" | "pods", { notOlderThan }: ListQuery) {
      calls.push(`list ${resource}${notOlderThan === undefined ? "" : ` from ${notOlderThan}`}`);
      return { items: server[resource === "pods" ? "pods" : "statefulSets"], resourceVersion: `${server.revision}` };
    },
    async get(_resource: string, { name }: ObjectKey) {
      calls.push(`get ${name}`);
      const found = server.statefulSets.find(({ metadata }) => metadata.name === name);
      if (found === undefined) throw notFound();
      return found;
    },
  } as unknown as Cluster;
  const memory = emptyMemory(cluster);
  const reported = {
    pods: podStore(memory, () => {}),
    statefulSets: statefulSetStore(memory.membership, cluster, () => {}),
  };
  reported.statefulSets.replace(statefulSets, "9");
  reported.pods.replace(pods, "9");
  const reads = new Map();
  const read = async (need: Partial<ViewNeed> = {}) => {
    calls.length = 0;
    const asked = { settledThrough: 1, permitSinceMs: undefined, consistent: false, ...need };
    const view = readView({ cluster, memory, reads }, [], { namespace, group: "group" }, asked);
    await clock.goTo(clock.monotonicMs());
    return view;
  };
  return { clock, server, requests: calls, memory, noted: reported, read };
}

test("a watch counts as silent when it has delivered nothing for more than 30 s, and no sooner", async () => {
  const { clock, requests: calls, read } = make();
  await clock.goTo(30_000);
  await read({ permitSinceMs: 30_000 });
  assert.deepEqual(calls, ["get a"]);
  await clock.goTo(30_001);
  await read({ permitSinceMs: 30_001 });
  assert.deepEqual(calls, ["list statefulsets", "list pods"]);
});

test("a GET serves for 3 s, but not if it is older than the last write of the ledger by another client", async () => {
  const { clock, requests: calls, read } = make();
  await read({ permitSinceMs: 0 });
  await clock.goTo(3_000);
  const view = await read({ permitSinceMs: 0 });
  assert.deepEqual([calls, view.statefulSetsReadMs], [[], 0]);
  await read({ permitSinceMs: 1 });
  assert.deepEqual(calls, ["get a"]);
  await clock.goTo(6_001);
  await read({ permitSinceMs: 1 });
  assert.deepEqual(calls, ["get a"]);
});

test("an event after a GET counts as newer, and a StatefulSet that a GET did not find is read again", async () => {
  const { server, requests: calls, noted: reported, read } = make([set("a", 3), set("b", 3)]);
  await read({ permitSinceMs: 0 });
  reported.statefulSets.apply({ type: "MODIFIED", object: set("a", 12, "newer") });
  const revisionsOf = async (need: Partial<ViewNeed>) =>
    (await read(need)).workloads.map(({ name, updateRevision }) => `${name} ${updateRevision}`);
  assert.deepEqual(await revisionsOf({ permitSinceMs: 0 }), ["a newer", "b new"]);
  assert.equal(calls.length, 0);
  server.statefulSets = [set("a", 12, "newer")];
  assert.deepEqual(await revisionsOf({ permitSinceMs: 1 }), ["a newer"]);
  assert.deepEqual(await revisionsOf({ permitSinceMs: 0 }), ["a newer"]);
  assert.ok(calls.includes("get b"), "the GET from before its deletion does not serve");
});

test("a ledger's first decision lists StatefulSets and pods; without members-through the memory is enough (R4)", async () => {
  const { requests: calls, read, noted: reported } = make();
  await read({ settledThrough: undefined });
  assert.deepEqual(calls, ["list statefulsets", "list pods"]);
  reported.statefulSets.replace([], "0");
  await read();
  assert.deepEqual(calls, []);
});

test("a watch at exactly members-through has reached it (S1)", async () => {
  const { requests: calls, read } = make();
  await read({ membersThrough: 9 });
  assert.deepEqual(calls, []);
});

test("a sweep takes over what its lists show, and a difference does not prove that a watch has stopped", async () => {
  const { server, memory, read } = make();
  server.statefulSets = [set("a", 15), set("b", 16)];
  server.pods = [at("a-0", 17), at("a-1", 18)];
  const names = async (need: Partial<ViewNeed>) => {
    const view = await read(need);
    return view.workloads.map((one) => [one.name, [...view.podsOf(one)].map(({ name }) => name)]);
  };
  const expected = [
    ["a", ["a-0", "a-1"]],
    ["b", []],
  ];
  assert.deepEqual(await names({ consistent: true }), expected);
  assert.deepEqual([memory.relist.signal.aborted, memory.membership.relist.signal.aborted], [false, false]);
  assert.deepEqual(await names({}), expected);
});

test("a view that may permit also has the other StatefulSets of the namespace", async () => {
  const { read } = make([set("a", 3), set("z", 4, "new", { "rollout-group": "other" })]);
  const { neighbours } = await read({ permitSinceMs: 0 });
  assert.deepEqual(
    neighbours.map(({ name }) => name),
    ["z"],
  );
});

test("a StatefulSet that was read before a pod of another revision appeared is read again, and that read serves as well (Z3)", async () => {
  const { clock, server, requests: calls, noted: reported, read } = make();
  await read({ permitSinceMs: 0 });
  await clock.goTo(1_000);
  server.statefulSets = [set("a", 11, "newer")];
  reported.pods.apply({
    type: "ADDED",
    object: at("a-1", 12, { labels: { "controller-revision-hash": "newer" } }),
  });
  const wanted = async (need: Partial<ViewNeed>) => (await read(need)).workloads[0]?.updateRevision;
  assert.equal(await wanted({}), "new");
  assert.deepEqual(calls, [], "a read that permits nothing makes no request");
  assert.equal(await wanted({ permitSinceMs: 0 }), "newer");
  assert.deepEqual(calls, ["get a"]);
  await clock.goTo(3_900);
  assert.equal(await wanted({ permitSinceMs: 0 }), "newer");
  assert.deepEqual(calls, []);
});
