import assert from "node:assert/strict";
import { test } from "node:test";
import type { ObjectKey } from "../../functions/shared/kubernetes/cluster.ts";
import type { StatefulSetStatus, StoredPod } from "./objects.ts";
import { revisionOf } from "./statefulset-revisions.ts";
import { VirtualTimeline } from "./timeline.ts";
import { createWorld, type GroupOptions, type World, type WorldOptions } from "./world.ts";

const namespace = "test";
const set: ObjectKey = { namespace, name: "db-a" };

function makeWorld(group: Partial<GroupOptions> = {}, options: Partial<WorldOptions> = {}): World {
  const world = createWorld({ timeline: new VirtualTimeline(), ...options });
  world.addGroup({ namespace, group: "db", zones: ["a"], replicas: 3, ...group });
  return world;
}

function advance(world: World, ms: number): void {
  (world.timeline as VirtualTimeline).runUntil(world.timeline.nowMs() + ms);
}

function pods(world: World): readonly StoredPod[] {
  return world.store.list("pods", { namespace }).items;
}

function names(world: World): string {
  return pods(world)
    .map(({ metadata }) => metadata.name)
    .join(" ");
}

function status(world: World): StatefulSetStatus {
  return world.store.get("statefulsets", set).status;
}

function deletePod(world: World, name: string): void {
  world.store.delete("pods", { namespace, name });
}

test("pods have the labels, the owner and the names that Kubernetes gives them", () => {
  const world = makeWorld();
  world.settle();
  const { metadata } = world.store.get("statefulsets", set);
  const [first] = pods(world);
  assert.equal(names(world), "db-a-0 db-a-1 db-a-2");
  assert.deepEqual(first?.metadata.labels, {
    name: "db-a",
    "rollout-group": "db",
    "apps.kubernetes.io/pod-index": "0",
    "controller-revision-hash": status(world).updateRevision,
    "statefulset.kubernetes.io/pod-name": "db-a-0",
  });
  const owner = { apiVersion: "apps/v1", kind: "StatefulSet", name: "db-a", uid: metadata.uid };
  assert.deepEqual(first?.metadata.ownerReferences, [{ ...owner, controller: true, blockOwnerDeletion: true }]);
});

test("with OnDelete nothing is rolled, a new pod has the new revision, and the current revision stays", () => {
  const world = makeWorld();
  world.settle();
  const old = status(world).currentRevision;
  world.changeTemplate(set, "app:2");
  advance(world, 10_000);
  const { updateRevision, updatedReplicas, currentReplicas, observedGeneration } = status(world);
  assert.notEqual(updateRevision, old);
  assert.deepEqual([updatedReplicas, currentReplicas, observedGeneration], [undefined, 3, 2]);
  for (const ordinal of [0, 1, 2]) {
    deletePod(world, `db-a-${ordinal}`);
    world.settle();
    assert.equal(revisionOf(pods(world)[ordinal] as StoredPod), updateRevision);
  }
  assert.deepEqual([status(world).currentRevision, status(world).updatedReplicas], [old, 3]);
  world.store.patch("statefulsets", set, { status: { currentRevision: updateRevision } }, "status");
  advance(world, 100);
  assert.deepEqual([status(world).currentRevision, status(world).currentReplicas], [updateRevision, 3]);
});

test("going back to a template goes back to its revision", () => {
  const world = makeWorld();
  world.settle();
  const first = status(world).updateRevision;
  world.changeTemplate(set, "app:2");
  advance(world, 100);
  world.changeTemplate(set, "app:1");
  advance(world, 100);
  assert.equal(status(world).updateRevision, first);
});

test("with RollingUpdate pods are replaced from the highest ordinal, one at a time, down to the partition", () => {
  const world = makeWorld({ updateStrategy: "RollingUpdate" });
  world.settle();
  const deleted: string[] = [];
  world.store.onChange("pods", ({ current, previous }) => {
    if (current?.metadata.deletionTimestamp === undefined || previous?.metadata.deletionTimestamp !== undefined) return;
    deleted.push(current.metadata.name);
    assert.ok(pods(world).length === 3, "one at a time");
  });
  world.store.patch("statefulsets", set, { spec: { updateStrategy: { rollingUpdate: { partition: 1 } } } });
  world.changeTemplate(set, "app:2");
  advance(world, 60_000);
  assert.deepEqual(deleted, ["db-a-2", "db-a-1"]);
  const { currentRevision, updateRevision } = status(world);
  // A pod below the partition comes back with its old revision.
  deletePod(world, "db-a-0");
  world.settle();
  assert.equal(revisionOf(pods(world)[0] as StoredPod), currentRevision);
  world.store.patch("statefulsets", set, { spec: { updateStrategy: { rollingUpdate: { partition: 0 } } } });
  advance(world, 60_000);
  assert.deepEqual([status(world).currentRevision, status(world).currentReplicas], [updateRevision, 3]);
});

test("an ordered set creates a pod only when those before it are Ready", () => {
  const world = makeWorld({ podManagementPolicy: "OrderedReady" });
  advance(world, 500);
  assert.equal(names(world), "db-a-0");
  advance(world, 1100);
  assert.equal(names(world), "db-a-0 db-a-1");
  world.settle();
  assert.equal(names(world), "db-a-0 db-a-1 db-a-2");
});

test("an ordered set scales down from the top, one at a time; a parallel one all at once", () => {
  for (const podManagementPolicy of ["OrderedReady", "Parallel"] as const) {
    const world = makeWorld({ podManagementPolicy });
    world.settle();
    world.scale(set, 1);
    advance(world, 100);
    const leaving = pods(world).filter(({ metadata }) => metadata.deletionTimestamp !== undefined);
    const expected = podManagementPolicy === "Parallel" ? ["db-a-1", "db-a-2"] : ["db-a-2"];
    assert.deepEqual(
      leaving.map(({ metadata }) => metadata.name),
      expected,
    );
    world.settle();
    assert.equal(names(world), "db-a-0");
  }
});

test("an ordered set does not scale down while a pod that stays is not Ready", () => {
  const world = makeWorld({ podManagementPolicy: "OrderedReady" });
  world.settle();
  world.kubelet.breakPod({ namespace, name: "db-a-0" });
  world.scale(set, 1);
  advance(world, 10_000);
  assert.equal(names(world), "db-a-0 db-a-1 db-a-2");
  world.kubelet.healPod({ namespace, name: "db-a-0" });
  world.settle();
  assert.equal(names(world), "db-a-0");
});

test("ordinals may start anywhere, and pods outside of them go", () => {
  const world = makeWorld();
  world.settle();
  world.store.patch("statefulsets", set, { spec: { ordinals: { start: 2 } } });
  world.settle();
  assert.equal(names(world), "db-a-2 db-a-3 db-a-4");
});

test("a failed pod is replaced", () => {
  const world = makeWorld();
  world.settle();
  const before = world.store.get("pods", { namespace, name: "db-a-1" }).metadata.uid;
  world.kubelet.failPod({ namespace, name: "db-a-1" });
  world.settle();
  assert.notEqual(world.store.get("pods", { namespace, name: "db-a-1" }).metadata.uid, before);
});

test("a pod counts as available after minReadySeconds", () => {
  const world = makeWorld({ minReadySeconds: 30 });
  advance(world, 5000);
  assert.deepEqual([status(world).readyReplicas, status(world).availableReplicas], [3, 0]);
  advance(world, 30_000);
  assert.deepEqual([status(world).readyReplicas, status(world).availableReplicas], [3, 3]);
});

test("terminating pods count as replicas, and as Ready while they are, but not as updated", () => {
  const world = makeWorld();
  world.settle();
  deletePod(world, "db-a-0");
  advance(world, 100);
  const { replicas, readyReplicas, updatedReplicas } = status(world);
  assert.deepEqual([replicas, readyReplicas, updatedReplicas], [3, 3, 2]);
});

test("a slow controller acts late, and once for all changes", () => {
  const world = makeWorld({}, { controllerDelayMs: 5000 });
  advance(world, 4999);
  assert.equal(names(world), "");
  const before = world.store.revision;
  world.annotate(set, { x: "1" });
  world.annotate(set, { x: "2" });
  advance(world, 1);
  assert.equal(names(world), "db-a-0 db-a-1 db-a-2");
  // Two annotations, three pods and one status.
  assert.equal(world.store.revision, before + 6);
});

test("a template change counts as observed only when the controller has seen it", () => {
  const world = makeWorld({}, { controllerDelayMs: 5000 });
  world.settle();
  world.changeTemplate(set, "app:2");
  advance(world, 1000);
  const { metadata, status: stale } = world.store.get("statefulsets", set);
  assert.deepEqual([metadata.generation, stale.observedGeneration], [2, 1]);
});

test("the pods of a deleted set go at once or before it, or stay and are adopted", () => {
  const world = makeWorld();
  world.settle();
  world.removeStatefulSet(set, "Orphan");
  advance(world, 10_000);
  assert.equal(world.store.find("statefulsets", set), undefined);
  assert.equal(pods(world).filter(({ metadata }) => metadata.ownerReferences === undefined).length, 3);
  world.addGroup({ namespace, group: "db", zones: ["a"], replicas: 3 });
  world.settle();
  const { uid } = world.store.get("statefulsets", set).metadata;
  assert.equal([...world.store.ownedBy("pods", uid)].length, 3);

  world.removeStatefulSet(set, "Foreground");
  advance(world, 100);
  assert.ok(world.store.find("statefulsets", set), "it waits for its pods");
  advance(world, 10_000);
  assert.deepEqual([world.store.find("statefulsets", set), names(world)], [undefined, ""]);

  world.addGroup({ namespace, group: "db", zones: ["a"], replicas: 3 });
  world.settle();
  world.removeStatefulSet(set);
  assert.equal(world.store.find("statefulsets", set), undefined);
  advance(world, 10_000);
  assert.equal(names(world), "");
});

test("a set that is created again waits until the pods of its namesake are gone", () => {
  const world = makeWorld();
  world.settle();
  world.removeStatefulSet(set);
  world.addGroup({ namespace, group: "db", zones: ["a"], replicas: 3 });
  advance(world, 100);
  const { uid } = world.store.get("statefulsets", set).metadata;
  assert.equal([...world.store.ownedBy("pods", uid)].length, 0);
  world.settle();
  assert.equal([...world.store.ownedBy("pods", uid)].length, 3);
});
