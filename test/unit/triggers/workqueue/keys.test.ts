/** Keys belong to functions: which events wake which function, for which of its keys. In virtual time. */
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
import { createTestWorld, isOfSchedule, type TestDoorsOptions } from "../server/world.ts";

const lists: TestDoorsOptions["settings"] = { views: "list" };
const nothing = { requeueAfterMs: undefined, pendingActs: undefined };
type Parts<K extends Key> = Pick<FunctionDefinition<K>, "name" | "keyedBy" | "watches" | "listKeys">;

/** A function that remembers for which keys it ran, and which lists of keys its sweeps were given. */
function recording<K extends Key>(parts: Parts<K>) {
  const passes: string[] = [];
  const swept: string[][] = [];
  const definition: FunctionDefinition<K> = {
    ...parts,
    concern: "remember passes",
    needs: [],
    reads: [],
    writes: [],
    async reconcile(_context, key, { sweep }) {
      passes.push(`${pathOf(key)}${sweep ? " sweep" : ""}`);
      return nothing;
    },
    async sweep(_context, keys) {
      swept.push(keys.map(pathOf));
    },
  };
  return { definition, passes, swept };
}

/** Deployments, each woken by the ConfigMaps that it owns. */
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

type Doors = ReturnType<typeof createTestWorld>;

function owned(doors: Doors, name: string): void {
  const ownerReferences = [{ apiVersion: "apps/v1", kind: "Deployment", name: "web", uid: "u", controller: true }];
  // Its owner is none, and it would soon be gone, too.
  doors.world.garbageCollector.stop();
  doors.world.store.create("configmaps", "app", { metadata: { name, ownerReferences } });
}

async function started(options: TestDoorsOptions, prepare: (doors: Doors) => void = () => undefined) {
  const doors = createTestWorld(options);
  prepare(doors);
  const standalone = doors.start();
  await doors.goTo(1);
  return { ...doors, standalone, ...standalone.enqueuer };
}

test("an event about an object with an owner wakes the owner, and one about an object that is gone wakes no owner", async () => {
  const { definition, passes } = byOwner();
  const doors = await started({ definitions: [definition], settings: lists }, (prepared) => owned(prepared, "one"));
  assert.deepEqual(passes, []);
  assert.equal(doors.changed("configmaps", { namespace: "app", name: "one" }), "queued");
  assert.equal(doors.changed("configmaps", { namespace: "app", name: "gone" }), "queued");
  await doors.goTo(10);
  assert.deepEqual(passes, ["deployments app/web"]);
});

test("a look-up for an object of no namespace is told which namespaces are served: it may read no other", async () => {
  const told: unknown[] = [];
  const find = async ({ namespaces }: KeySources) => {
    told.push(namespaces);
    return [];
  };
  const asks = { name: "who is on it", find };
  const definition = { ...byNode().definition, watches: [{ resource: "nodes" as const, keysOf: () => asks }] };
  const doors = await started({ definitions: [definition], settings: lists, namespaces: ["app", "other"] });
  assert.equal(doors.changed("nodes", { namespace: "", name: "n" }), "queued");
  await doors.goTo(10);
  assert.deepEqual(told, [["app", "other"]]);
});

test("many events of one object cost one read in five seconds, whatever their function looks up", async () => {
  const { definition } = byOwner();
  const doors = await started({ definitions: [definition], settings: lists });
  doors.calls.length = 0;
  for (let event = 0; event < 100; event++) doors.changed("configmaps", { namespace: "app", name: "forged" });
  await doors.goTo(4);
  assert.deepEqual(
    doors.calls.map(({ verb, resource, name }) => [verb, resource, name]),
    [["get", "configmaps", "forged"]],
  );
});

test("an object of a type that a function does not wait for wakes nothing, though a StatefulSet has its name", async () => {
  const { definition, passes } = byOwner();
  const doors = await started({ definitions: [advanceZoneRollout, definition], settings: lists });
  doors.calls.length = 0;
  for (const resource of ["persistentvolumeclaims", "nodes"] as const)
    assert.equal(doors.changed(resource, { namespace: "app", name: "ingester-a" }), "ignored");
  await doors.goTo(10);
  assert.deepEqual([doors.calls, passes], [[], []]);
});

test("where a process lives, it watches what wakes a function and no view tells of: what is there, comes, changes and goes", async () => {
  const { definition, passes } = byOwner();
  const nodes = byNode();
  const doors = await started({ definitions: [definition, nodes.definition], namespaces: ["app"] }, (prepared) => {
    owned(prepared, "one");
    prepared.world.store.create("nodes", "", { metadata: { name: "worker-1" } });
  });
  await doors.goTo(10);
  assert.deepEqual(passes, ["deployments app/web"]);
  assert.ok(nodes.passes.some((pass) => pass.startsWith("nodes /worker-1")));
  for (const list of [passes, nodes.passes]) list.length = 0;
  owned(doors, "two");
  doors.world.store.create("configmaps", "elsewhere", { metadata: { name: "three" } });
  doors.world.store.patch("nodes", { namespace: "", name: "worker-1" }, { metadata: { labels: { a: "1" } } });
  await doors.goTo(20);
  assert.deepEqual([passes, nodes.passes], [["deployments app/web"], ["nodes /worker-1"]]);
  doors.world.store.delete("nodes", { namespace: "", name: "worker-1" });
  await doors.goTo(30);
  assert.deepEqual(nodes.passes, ["nodes /worker-1", "nodes /worker-1"]);
  assert.ok(!doors.calls.some(({ name }) => name === "three"), "what is not served is not looked up");
  const stopped = doors.standalone.stop(doors.cluster.monotonicMs() + 5_000);
  await doors.goTo(31);
  assert.equal(await stopped, true);
});

test("a watch of all objects of a type wakes no function that waits for those with a label alone", async () => {
  const heard: string[] = [];
  const keysOf = (by: string) => (changed: { readonly name: string }) => {
    heard.push(`${by} ${changed.name}`);
    return [];
  };
  const parts = { ...byNode().definition, keyedBy: "persistentvolumeclaims" as const, listKeys: async () => [] };
  const resource = "persistentvolumeclaims";
  const definitions: FunctionDefinition<ObjectRef>[] = [
    { ...parts, name: "watch-all", watches: [{ resource, keysOf: keysOf("all") }] },
    { ...parts, name: "watch-some", watches: [{ resource, selector: clusterName, keysOf: keysOf("some") }] },
  ];
  const doors = await started({ definitions, namespaces: ["app"] });
  const labels = { [clusterName.key]: "orders" };
  doors.world.store.create(resource, "app", { metadata: { name: "plain" } } as never);
  doors.world.store.create(resource, "app", { metadata: { name: "labelled", labels } } as never);
  await doors.goTo(10);
  assert.deepEqual([...new Set(heard)].sort(), ["all labelled", "all plain", "some labelled"]);
});

test("one whose keys are StatefulSets hears of those with its label by a watch of its own, though views tell groups of all", async () => {
  const groups = recording<GroupKey>({
    name: "watch-groups",
    keyedBy: "groups",
    watches: [{ resource: "statefulsets", keysOf: groupOfStatefulSet }],
    listKeys: listGroupKeys,
  });
  const definitions = [rebalanceQueues, groups.definition] as FunctionDefinition[];
  const doors = await started({ definitions, namespaces: ["app"] });
  const gets = () => doors.calls.filter(({ verb }) => verb === "get").map(({ name }) => name);
  assert.deepEqual(gets(), []);
  groups.passes.length = 0;
  const labels = { [wantsRebalance.key]: "true" };
  doors.world.store.patch("statefulsets", { namespace: "app", name: "ingester-b" }, { metadata: { labels } });
  await doors.goTo(3);
  // The look-up, and the pass.
  assert.deepEqual(gets(), ["ingester-b", "ingester-b"]);
  assert.deepEqual(groups.passes, [], "no other function is woken by that watch");
  // What any client may post costs nothing where watches tell.
  assert.equal(doors.changed("statefulsets", { namespace: "app", name: "forged" }), "ignored");
  // The sweep has told of this one: its group has a pass, from memory.
  assert.equal(doors.changed("statefulsets", { namespace: "app", name: "ingester-b" }), "queued");
  await doors.goTo(20);
  assert.deepEqual(gets(), ["ingester-b", "ingester-b"]);
});

test("a sweep wakes each function for its own keys; those of the whole cluster are listed once, whatever namespaces are served", async () => {
  const nodes = byNode();
  const owners = byOwner();
  const groups = recording<GroupKey>({
    name: "watch-groups",
    keyedBy: "groups",
    watches: [{ resource: "statefulsets", keysOf: groupOfStatefulSet }],
    listKeys: listGroupKeys,
  });
  const definitions = [nodes, owners, groups].map(({ definition }) => definition as FunctionDefinition);
  const doors = await started({ definitions, settings: lists, namespaces: ["app", "db"] }, ({ world }) => {
    world.store.create("nodes", "", { metadata: { name: "worker-1" } });
    for (const namespace of ["app", "db", "elsewhere"])
      world.store.create("deployments", namespace, { metadata: { name: "web" } });
  });
  assert.deepEqual(nodes.passes, ["nodes /worker-1 sweep"]);
  assert.deepEqual(nodes.swept, [["nodes /worker-1"]]);
  assert.deepEqual(owners.passes.toSorted(), ["deployments app/web sweep", "deployments db/web sweep"]);
  assert.deepEqual(owners.swept, [["deployments app/web"], ["deployments db/web"]]);
  assert.deepEqual(groups.passes, ["app/ingester sweep"]);
  assert.ok(doors.lines.some(({ msg }) => msg === "swept 4 keys"));
});

test("what a function does besides in a sweep, however long it takes, keeps no other function's keys waiting", async () => {
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
  const doors = await started({ definitions, settings: lists, namespaces: ["app", "db"] });
  assert.deepEqual([slow.passes, other.passes, ended], [["app/ingester sweep"], ["app/ingester sweep"], 0]);
  await doors.goTo(121);
  assert.equal(ended, 2, "in each namespace");
});

test("a pod that no StatefulSet can have concerns no group, and the function does not ask about it", () => {
  const known = { groupOf: () => assert.fail("it is of no StatefulSet") };
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
  const doors = await started({ definitions, settings: lists });
  assert.deepEqual([one.passes, two.passes], [["app/ingester sweep"], ["app/ingester sweep"]]);
  assert.equal(doors.calls.filter(({ verb }) => verb === "list").length, 1);
});

test("one function is not woken by what another waits for, in events and in watches", async () => {
  for (const settings of [lists, {}]) {
    const parts = { keyedBy: "groups", listKeys: listGroupKeys } as const;
    const pods = recording<GroupKey>({ ...parts, name: "pods", watches: [{ resource: "pods", keysOf: groupOfPod }] });
    const sets = recording<GroupKey>({
      ...parts,
      name: "sets",
      watches: [{ resource: "statefulsets", keysOf: groupOfStatefulSet }],
    });
    const definitions = [pods, sets].map(({ definition }) => definition as FunctionDefinition);
    const doors = await started({ definitions, settings });
    await doors.goTo(30);
    for (const { passes } of [pods, sets]) passes.length = 0;
    doors.world.store.patch("pods", { namespace: "app", name: "ingester-a-0" }, { metadata: { labels: { a: "1" } } });
    if (settings === lists) doors.changed("pods", { namespace: "app", name: "ingester-a-0" });
    await doors.goTo(60);
    assert.deepEqual([pods.passes, sets.passes], [["app/ingester"], []]);
  }
});

test("a group whose budget no function can keep goes on as soon as an event tells that its budget was mended", async () => {
  const doors = createTestWorld({ settings: lists });
  const key = { namespace: "app", name: "budget" };
  doors.world.store.create("zoneawarepoddisruptionbudgets", "app", brokenBudget);
  const standalone = doors.start();
  await doors.goTo(20);
  doors.changeTemplates("app:2");
  standalone.enqueuer.changed("statefulsets", { namespace: "app", name: "ingester-a" });
  await doors.goTo(60);
  const deletions = () => doors.calls.filter(({ verb, resource }) => verb === "delete" && resource === "pods").length;
  assert.equal(deletions(), 0);
  doors.world.store.patch("zoneawarepoddisruptionbudgets", key, { spec: { maxUnavailable: 1 } });
  doors.calls.length = 0;
  assert.equal(standalone.enqueuer.changed("zoneawarepoddisruptionbudgets", key), "queued");
  await doors.goTo(61);
  assert.equal(deletions(), 1);
});

test("a budget that a view tells of costs no read", async () => {
  const doors = await started({});
  await doors.goTo(20);
  doors.calls.length = 0;
  assert.equal(doors.changed("zoneawarepoddisruptionbudgets", { namespace: "app", name: "budget" }), "ignored");
  await doors.goTo(25);
  assert.deepEqual(
    doors.calls.filter((call) => !isOfSchedule(call)),
    [],
  );
});
