/** Keys belong to functions: which events trigger which function, for which of its keys. In virtual time. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { advanceZoneRollout } from "../../../../functions/advance-zone-rollout/function.ts";
import { rebalanceQueues } from "../../../../functions/rebalance-queues/function.ts";
import { clusterName } from "../../../../functions/shared/annotations/foundationdb.ts";
import { wantsRebalance } from "../../../../functions/shared/annotations/rebalancing.ts";
import type { Context } from "../../../../functions/shared/contract/context.ts";
import { type FunctionDefinition, listGroupKeys } from "../../../../functions/shared/contract/definition.ts";
import {
  groupOfPod,
  groupOfStatefulSet,
  type Key,
  type KeySources,
  type ObjectRef,
  pathOf,
} from "../../../../functions/shared/contract/keys.ts";
import { hasCode } from "../../../../functions/shared/kubernetes/cluster.ts";
import type { GroupKey } from "../../../../functions/shared/workloads/statefulsets.ts";
import { createTestWorld, isOfSchedule, type TestWorldOptions } from "../server/world.ts";

const lists: TestWorldOptions["settings"] = { views: "list" };
const nothing = { requeueAfterMs: undefined, pendingActs: undefined };
type Parts<K extends Key> = Pick<FunctionDefinition<K>, "name" | "keyedBy" | "watches" | "listKeys">;

/** A function that remembers the keys of its runs, and the lists of keys that its sweeps got. */
function recording<K extends Key>(parts: Parts<K>) {
  const reconciled: string[] = [];
  const swept: string[][] = [];
  const definition: FunctionDefinition<K> = {
    ...parts,
    concern: "remember passes",
    guards: {},
    needs: [],
    reads: [],
    writes: [],
    async reconcile(_context, key, { sweep }) {
      reconciled.push(`${pathOf(key)}${sweep ? " sweep" : ""}`);
      return nothing;
    },
    async sweep(_context, keys) {
      swept.push(keys.map(pathOf));
    },
  };
  return { definition, reconciled, swept };
}

/** Deployments, each triggered by the ConfigMaps that it owns. */
function byOwner() {
  return recording<ObjectRef>({
    name: "watch-settings",
    keyedBy: "deployments",
    watches: [{ resource: "configmaps", keysOf: (changed) => ownerOf(changed) }],
    async listKeys({ cluster }: Context, namespace) {
      const { items } = await cluster.list("deployments", namespace === undefined ? {} : { namespace });
      return items.map(({ metadata: { namespace = "", name } }) => ({ resource: "deployments", namespace, name }));
    },
  });
}

function ownerOf({ namespace, name }: Pick<ObjectRef, "namespace" | "name">) {
  return {
    name: `owner of ${namespace}/${name}`,
    async find({ cluster }: KeySources): Promise<ObjectRef[]> {
      try {
        const { metadata } = await cluster.get("configmaps", { namespace, name });
        const owner = metadata.ownerReferences?.find(({ kind }) => kind === "Deployment");
        return owner === undefined ? [] : [{ resource: "deployments", namespace, name: owner.name }];
      } catch (error) {
        if (hasCode(error, 404)) return [];
        throw error;
      }
    },
  };
}

function byNode() {
  return recording<ObjectRef>({
    name: "watch-nodes",
    keyedBy: "nodes",
    watches: [{ resource: "nodes", keysOf: ({ namespace, name }) => [{ resource: "nodes", namespace, name }] }],
    async listKeys({ cluster }) {
      const { items } = await cluster.list("nodes", {});
      return items.map(({ metadata: { name } }) => ({ resource: "nodes", namespace: "", name }));
    },
  });
}

const brokenBudget = {
  metadata: { name: "budget" },
  spec: { maxUnavailable: "no", selector: { matchLabels: { "rollout-group": "ingester" } } },
};

type TestWorld = ReturnType<typeof createTestWorld>;

function owned(testWorld: TestWorld, name: string): void {
  const ownerReferences = [{ apiVersion: "apps/v1", kind: "Deployment", name: "web", uid: "u", controller: true }];
  // Its owner does not exist, so the garbage collector would soon delete it as well.
  testWorld.world.garbageCollector.stop();
  testWorld.world.store.create("configmaps", "app", { metadata: { name, ownerReferences } });
}

async function started(options: TestWorldOptions, prepare: (testWorld: TestWorld) => void = () => undefined) {
  const testWorld = createTestWorld(options);
  prepare(testWorld);
  const standalone = testWorld.start();
  await testWorld.goTo(1);
  return { ...testWorld, standalone, ...standalone.enqueuer };
}

test("an event about an object triggers its owner, and an event about a missing object triggers none", async () => {
  const { definition, reconciled } = byOwner();
  const testWorld = await started({ definitions: [definition], settings: lists }, (prepared) => owned(prepared, "one"));
  assert.deepEqual(reconciled, []);
  assert.equal(testWorld.changed("configmaps", { namespace: "app", name: "one" }), "queued");
  assert.equal(testWorld.changed("configmaps", { namespace: "app", name: "gone" }), "queued");
  await testWorld.goTo(10);
  assert.deepEqual(reconciled, ["deployments app/web"]);
});

test("the look-up for a cluster-wide object gets the served namespaces, because it may read no others", async () => {
  const notified: unknown[] = [];
  const find = async ({ namespaces }: KeySources) => {
    notified.push(namespaces);
    return [];
  };
  const asks = { name: "who is on it", find };
  const definition = { ...byNode().definition, watches: [{ resource: "nodes" as const, keysOf: () => asks }] };
  const testWorld = await started({ definitions: [definition], settings: lists, namespaces: ["app", "other"] });
  assert.equal(testWorld.changed("nodes", { namespace: "", name: "n" }), "queued");
  await testWorld.goTo(10);
  assert.deepEqual(notified, [["app", "other"]]);
});

test("many events of one object cost one read in five seconds, whatever their function looks up", async () => {
  const { definition } = byOwner();
  const testWorld = await started({ definitions: [definition], settings: lists });
  testWorld.calls.length = 0;
  for (let event = 0; event < 100; event++) testWorld.changed("configmaps", { namespace: "app", name: "forged" });
  await testWorld.goTo(4);
  assert.deepEqual(
    testWorld.calls.map(({ verb, resource, name }) => [verb, resource, name]),
    [["get", "configmaps", "forged"]],
  );
});

test("an object of a type that no function watches triggers nothing, even if a StatefulSet has its name", async () => {
  const { definition, reconciled } = byOwner();
  const testWorld = await started({ definitions: [advanceZoneRollout, definition], settings: lists });
  testWorld.calls.length = 0;
  for (const resource of ["persistentvolumeclaims", "nodes"] as const)
    assert.equal(testWorld.changed(resource, { namespace: "app", name: "ingester-a" }), "ignored");
  await testWorld.goTo(10);
  assert.deepEqual([testWorld.calls, reconciled], [[], []]);
});

test("a process watches the types that trigger a function and that no view reports: objects that exist, appear, change and go", async () => {
  const { definition, reconciled } = byOwner();
  const nodes = byNode();
  const testWorld = await started({ definitions: [definition, nodes.definition], namespaces: ["app"] }, (prepared) => {
    owned(prepared, "one");
    prepared.world.store.create("nodes", "", { metadata: { name: "worker-1" } });
  });
  await testWorld.goTo(10);
  assert.deepEqual(reconciled, ["deployments app/web"]);
  assert.ok(nodes.reconciled.some((round) => round.startsWith("nodes /worker-1")));
  for (const list of [reconciled, nodes.reconciled]) list.length = 0;
  owned(testWorld, "two");
  testWorld.world.store.create("configmaps", "elsewhere", { metadata: { name: "three" } });
  testWorld.world.store.patch("nodes", { namespace: "", name: "worker-1" }, { metadata: { labels: { a: "1" } } });
  await testWorld.goTo(20);
  assert.deepEqual([reconciled, nodes.reconciled], [["deployments app/web"], ["nodes /worker-1"]]);
  testWorld.world.store.delete("nodes", { namespace: "", name: "worker-1" });
  await testWorld.goTo(30);
  assert.deepEqual(nodes.reconciled, ["nodes /worker-1", "nodes /worker-1"]);
  assert.ok(!testWorld.calls.some(({ name }) => name === "three"), "an object of another namespace is not looked up");
  const stopped = testWorld.standalone.stop(testWorld.cluster.monotonicMs() + 5_000);
  await testWorld.goTo(31);
  assert.equal(await stopped, true);
});

test("a watch of all objects of a type does not trigger a function that only watches objects with a label", async () => {
  const received: string[] = [];
  const keysOf = (by: string) => (changed: { readonly name: string }) => {
    received.push(`${by} ${changed.name}`);
    return [];
  };
  const parts = { ...byNode().definition, keyedBy: "persistentvolumeclaims" as const, listKeys: async () => [] };
  const resource = "persistentvolumeclaims";
  const definitions: FunctionDefinition<ObjectRef>[] = [
    { ...parts, name: "watch-all", watches: [{ resource, keysOf: keysOf("all") }] },
    { ...parts, name: "watch-some", watches: [{ resource, selector: clusterName, keysOf: keysOf("some") }] },
  ];
  const testWorld = await started({ definitions, namespaces: ["app"] });
  const labels = { [clusterName.key]: "orders" };
  testWorld.world.store.create(resource, "app", { metadata: { name: "plain" } } as never);
  testWorld.world.store.create(resource, "app", { metadata: { name: "labelled", labels } } as never);
  await testWorld.goTo(10);
  assert.deepEqual([...new Set(received)].sort(), ["all labelled", "all plain", "some labelled"]);
});

test("a function whose keys are labelled StatefulSets has a watch of its own for them, although views report all groups", async () => {
  const groups = recording<GroupKey>({
    name: "watch-groups",
    keyedBy: "groups",
    watches: [{ resource: "statefulsets", keysOf: groupOfStatefulSet }],
    listKeys: listGroupKeys,
  });
  const definitions = [rebalanceQueues, groups.definition] as FunctionDefinition[];
  const testWorld = await started({ definitions, namespaces: ["app"] });
  const gets = () => testWorld.calls.filter(({ verb }) => verb === "get").map(({ name }) => name);
  assert.deepEqual(gets(), []);
  groups.reconciled.length = 0;
  const labels = { [wantsRebalance.key]: "true" };
  testWorld.world.store.patch("statefulsets", { namespace: "app", name: "ingester-b" }, { metadata: { labels } });
  await testWorld.goTo(3);
  // The look-up, and the reconcile.
  assert.deepEqual(gets(), ["ingester-b", "ingester-b"]);
  assert.deepEqual(groups.reconciled, [], "that watch triggers no other function");
  // An event that any client may post costs nothing while watches report changes.
  assert.equal(testWorld.changed("statefulsets", { namespace: "app", name: "forged" }), "ignored");
  // The sweep has listed this StatefulSet: its group gets a reconcile, from memory.
  assert.equal(testWorld.changed("statefulsets", { namespace: "app", name: "ingester-b" }), "queued");
  await testWorld.goTo(20);
  assert.deepEqual(gets(), ["ingester-b", "ingester-b"]);
});

test("a sweep triggers each function for its own keys, and lists cluster-wide keys once, whichever namespaces are served", async () => {
  const nodes = byNode();
  const owners = byOwner();
  const groups = recording<GroupKey>({
    name: "watch-groups",
    keyedBy: "groups",
    watches: [{ resource: "statefulsets", keysOf: groupOfStatefulSet }],
    listKeys: listGroupKeys,
  });
  const definitions = [nodes, owners, groups].map(({ definition }) => definition as FunctionDefinition);
  const testWorld = await started({ definitions, settings: lists, namespaces: ["app", "db"] }, ({ world }) => {
    world.store.create("nodes", "", { metadata: { name: "worker-1" } });
    for (const namespace of ["app", "db", "elsewhere"])
      world.store.create("deployments", namespace, { metadata: { name: "web" } });
  });
  assert.deepEqual(nodes.reconciled, ["nodes /worker-1 sweep"]);
  assert.deepEqual(nodes.swept, [["nodes /worker-1"]]);
  assert.deepEqual(owners.reconciled.toSorted(), ["deployments app/web sweep", "deployments db/web sweep"]);
  assert.deepEqual(owners.swept, [["deployments app/web"], ["deployments db/web"]]);
  assert.deepEqual(groups.reconciled, ["app/ingester sweep"]);
  assert.ok(testWorld.lines.some(({ msg }) => msg === "swept 4 keys"));
});

test("a function's additional work in a sweep does not delay another function's keys, however long it takes", async () => {
  const parts = { keyedBy: "groups", listKeys: listGroupKeys } as const;
  const watches = [{ resource: "pods", keysOf: groupOfPod }] as const;
  const [slow, other] = ["slow", "other"].map((name) => recording<GroupKey>({ ...parts, watches, name }));
  assert.ok(slow && other);
  let ended = 0;
  const definition: FunctionDefinition<GroupKey> = {
    ...slow.definition,
    async sweep({ cluster }) {
      await cluster.sleep(60_000);
      ended++;
    },
  };
  const definitions = [definition, other.definition].map((one) => one as FunctionDefinition);
  const testWorld = await started({ definitions, settings: lists, namespaces: ["app", "db"] });
  assert.deepEqual([slow.reconciled, other.reconciled, ended], [["app/ingester sweep"], ["app/ingester sweep"], 0]);
  await testWorld.goTo(121);
  assert.equal(ended, 2, "once for each namespace");
});

test("a pod whose name no StatefulSet can have given triggers no group, without a look-up", () => {
  const known = { groupOf: () => assert.fail("no look-up for such a pod") };
  for (const name of ["web", "web-7c9d-abcde", "-0"]) {
    assert.deepEqual(groupOfPod({ namespace: "app", name }, known), [], name);
  }
});

test("functions that list their keys in the same way share one list in a sweep", async () => {
  const parts = { keyedBy: "groups", listKeys: listGroupKeys } as const;
  const watches = [{ resource: "pods", keysOf: groupOfPod }] as const;
  const [one, two] = ["one", "two"].map((name) => recording<GroupKey>({ ...parts, watches, name }));
  assert.ok(one && two);
  const definitions = [one, two].map(({ definition }) => definition as FunctionDefinition);
  const testWorld = await started({ definitions, settings: lists });
  assert.deepEqual([one.reconciled, two.reconciled], [["app/ingester sweep"], ["app/ingester sweep"]]);
  assert.equal(testWorld.calls.filter(({ verb }) => verb === "list").length, 1);
});

test("a function is not triggered by what only another function watches, in events and in watches", async () => {
  for (const settings of [lists, {}]) {
    const parts = { keyedBy: "groups", listKeys: listGroupKeys } as const;
    const pods = recording<GroupKey>({ ...parts, name: "pods", watches: [{ resource: "pods", keysOf: groupOfPod }] });
    const sets = recording<GroupKey>({
      ...parts,
      name: "sets",
      watches: [{ resource: "statefulsets", keysOf: groupOfStatefulSet }],
    });
    const definitions = [pods, sets].map(({ definition }) => definition as FunctionDefinition);
    const testWorld = await started({ definitions, settings });
    await testWorld.goTo(30);
    for (const { reconciled } of [pods, sets]) reconciled.length = 0;
    testWorld.world.store.patch(
      "pods",
      { namespace: "app", name: "ingester-a-0" },
      { metadata: { labels: { a: "1" } } },
    );
    if (settings === lists) testWorld.changed("pods", { namespace: "app", name: "ingester-a-0" });
    await testWorld.goTo(60);
    assert.deepEqual([pods.reconciled, sets.reconciled], [["app/ingester"], []]);
  }
});

test("a group with an impossible budget goes on as soon as an event reports that its budget was corrected", async () => {
  const testWorld = createTestWorld({ settings: lists });
  const key = { namespace: "app", name: "budget" };
  testWorld.world.store.create("zoneawarepoddisruptionbudgets", "app", brokenBudget);
  const standalone = testWorld.start();
  await testWorld.goTo(20);
  testWorld.changeTemplates("app:2");
  standalone.enqueuer.changed("statefulsets", { namespace: "app", name: "ingester-a" });
  await testWorld.goTo(60);
  const deletions = () =>
    testWorld.calls.filter(({ verb, resource }) => verb === "delete" && resource === "pods").length;
  assert.equal(deletions(), 0);
  testWorld.world.store.patch("zoneawarepoddisruptionbudgets", key, { spec: { maxUnavailable: 1 } });
  testWorld.calls.length = 0;
  assert.equal(standalone.enqueuer.changed("zoneawarepoddisruptionbudgets", key), "queued");
  await testWorld.goTo(61);
  assert.equal(deletions(), 1);
});

test("an event about a budget that a view reports causes no read", async () => {
  const testWorld = await started({});
  await testWorld.goTo(20);
  testWorld.calls.length = 0;
  assert.equal(testWorld.changed("zoneawarepoddisruptionbudgets", { namespace: "app", name: "budget" }), "ignored");
  await testWorld.goTo(25);
  assert.deepEqual(
    testWorld.calls.filter((call) => !isOfSchedule(call)),
    [],
  );
});
