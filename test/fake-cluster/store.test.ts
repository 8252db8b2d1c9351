import assert from "node:assert/strict";
import { test } from "node:test";
import { ClusterError } from "../../functions/shared/kubernetes/cluster.ts";
import { seededRandom } from "./random.ts";
import { Store } from "./store.ts";
import { VirtualTimeline } from "./timeline.ts";

const namespace = "test";
const a = { namespace, name: "a" };

function makeStore(): { store: Store; timeline: VirtualTimeline } {
  const timeline = new VirtualTimeline();
  return { timeline, store: new Store({ timeline, random: seededRandom(7), keepVersions: true }) };
}

function pod(name: string, more: { metadata?: object; spec?: object } = {}): object {
  const spec = { nodeName: "node-1", containers: [{ name: "app", image: "app:1" }], ...more.spec };
  return { metadata: { name, ...more.metadata }, spec };
}

function refusal(run: () => unknown): { code: number; reason: string; message: string } {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof ClusterError, String(error));
    return { code: error.code, reason: error.reason, message: error.message };
  }
  assert.fail("nothing was refused");
}

test("creating gives a uid, a time in whole seconds and a larger revision each time", () => {
  const { store } = makeStore();
  const first = store.create("leases", namespace, { metadata: { name: "a", labels: {} } });
  const second = store.create("leases", namespace, { metadata: { name: "b" } });
  assert.match(first.metadata.uid, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.notEqual(first.metadata.uid, second.metadata.uid);
  assert.equal(first.metadata.creationTimestamp, "2026-01-01T00:00:00Z");
  assert.ok(Number(second.metadata.resourceVersion) > Number(first.metadata.resourceVersion));
  assert.equal("labels" in first.metadata, false);
  assert.equal(store.get("leases", a), first);
});

test("the same seed gives the same uids and generated names", () => {
  const names = [makeStore(), makeStore()].map(({ store }) => {
    const { name, uid } = store.create("events", namespace, { metadata: { generateName: "gen-" } }).metadata;
    return `${name} ${uid}`;
  });
  assert.equal(names[0], names[1]);
  assert.match(names[0] ?? "", /^gen-[a-z0-9]{5} /);
});

test("a name can be taken once; a missing object is not found", () => {
  const { store } = makeStore();
  store.create("leases", namespace, { metadata: { name: "a" } });
  assert.deepEqual(
    refusal(() => store.create("leases", namespace, { metadata: { name: "a" } })),
    { code: 409, reason: "AlreadyExists", message: 'leases.coordination.k8s.io "a" already exists' },
  );
  assert.deepEqual(
    refusal(() => store.get("pods", { namespace, name: "x" })),
    { code: 404, reason: "NotFound", message: 'pods "x" not found' },
  );
  const elsewhere = { metadata: { name: "a", namespace: "other" } };
  assert.equal(refusal(() => store.create("leases", namespace, elsewhere)).code, 400);
  assert.equal(refusal(() => store.create("leases", namespace, { metadata: {} })).code, 422);
});

test("a patch changes the fields that it names, and keeps and shares the others", () => {
  const { store } = makeStore();
  const before = store.create("pods", namespace, pod("a", { metadata: { annotations: { x: "1", y: "2" } } }));
  const after = store.patch("pods", a, { metadata: { annotations: { x: null, z: "3" } } });
  assert.deepEqual(after.metadata.annotations, { y: "2", z: "3" });
  assert.deepEqual(before.metadata.annotations, { x: "1", y: "2" });
  assert.equal(after.spec, before.spec);
});

test("a patch that changes nothing does not raise the revision", () => {
  const { store } = makeStore();
  const before = store.create("leases", namespace, { metadata: { name: "a", annotations: { x: "1" } } });
  const { uid, resourceVersion } = before.metadata;
  const patch = { metadata: { uid, resourceVersion, annotations: { x: "1", gone: null } } };
  assert.equal(store.patch("leases", a, patch), before);
  assert.equal(String(store.revision), resourceVersion);
});

test("a patch with another resourceVersion is a conflict; with another uid it is invalid", () => {
  const { store } = makeStore();
  const { resourceVersion } = store.create("leases", namespace, { metadata: { name: "a" } }).metadata;
  const annotations = { x: "1" };
  assert.deepEqual(
    refusal(() => store.patch("leases", a, { metadata: { resourceVersion: "1", uid: "other", annotations } })),
    {
      code: 409,
      reason: "Conflict",
      message:
        'Operation cannot be fulfilled on leases.coordination.k8s.io "a": the object has been modified; please apply your changes to the latest version and try again',
    },
  );
  assert.deepEqual(
    refusal(() => store.patch("leases", a, { metadata: { resourceVersion, uid: "other", annotations } })),
    {
      code: 422,
      reason: "Invalid",
      message: 'Lease.coordination.k8s.io "a" is invalid: metadata.uid: Invalid value: "other": field is immutable',
    },
  );
  assert.equal(
    refusal(() => store.patch("leases", { namespace, name: "b" }, { metadata: { uid: "other" } })).code,
    404,
  );
  assert.equal(refusal(() => store.patch("leases", a, { metadata: { name: "b" } })).code, 400);
});

test("a patch of the object leaves the status alone, and one of the status leaves the spec alone", () => {
  const { store } = makeStore();
  store.create("statefulsets", namespace, { metadata: { name: "a" }, spec: { replicas: 1 } });
  const main = store.patch("statefulsets", a, { spec: { replicas: 2 }, status: { replicas: 9 } });
  assert.deepEqual([main.spec.replicas, main.status.replicas, main.metadata.generation], [2, 0, 2]);
  const status = store.patch("statefulsets", a, { spec: { replicas: 3 }, status: { replicas: 9 } }, "status");
  assert.deepEqual([status.spec.replicas, status.status.replicas, status.metadata.generation], [2, 9, 2]);
  const stale = { metadata: { resourceVersion: main.metadata.resourceVersion }, status: { replicas: 8 } };
  assert.equal(refusal(() => store.patch("statefulsets", a, stale, "status")).code, 409);
});

test("a patch of the status of pods and StatefulSets also writes labels and annotations", () => {
  const { store } = makeStore();
  store.create("pods", namespace, pod("a"));
  const patch = { metadata: { labels: { l: "1" }, annotations: { x: "1" }, ownerReferences: [{ uid: "u" }] } };
  const { metadata } = store.patch("pods", a, patch, "status");
  assert.deepEqual(
    [metadata.labels, metadata.annotations, metadata.ownerReferences],
    [{ l: "1" }, { x: "1" }, undefined],
  );
});

test("a lease has no status", () => {
  const { store } = makeStore();
  store.create("leases", namespace, { metadata: { name: "a" } });
  assert.equal(refusal(() => store.patch("leases", a, { status: {} }, "status")).code, 404);
});

test("the generation of a StatefulSet counts changes of its spec only", () => {
  const { store } = makeStore();
  const generations = [store.create("statefulsets", namespace, { metadata: { name: "a" }, spec: { replicas: 1 } })];
  generations.push(store.patch("statefulsets", a, { metadata: { annotations: { x: "1" } } }));
  generations.push(store.patch("statefulsets", a, { spec: { replicas: 1 } }));
  generations.push(store.patch("statefulsets", a, { spec: { replicas: 2 } }));
  generations.push(store.patch("statefulsets", a, { metadata: { generation: 77 } }));
  assert.deepEqual(
    generations.map(({ metadata }) => metadata.generation),
    [1, 1, 1, 2, 2],
  );
  assert.equal(refusal(() => store.patch("statefulsets", a, { spec: { serviceName: "x" } })).code, 422);
});

test("a deletion with a failed precondition is a conflict", () => {
  const { store } = makeStore();
  const { uid, resourceVersion } = store.create("pods", namespace, pod("a")).metadata;
  assert.deepEqual(
    refusal(() => store.delete("pods", a, { preconditions: { uid: "other" } })),
    {
      code: 409,
      reason: "Conflict",
      message: `Operation cannot be fulfilled on Pod "a": the UID in the precondition (other) does not match the UID in record (${uid}). The object might have been deleted and then recreated`,
    },
  );
  const changed = refusal(() => store.delete("pods", a, { preconditions: { uid, resourceVersion: "1" } }));
  assert.deepEqual(
    [changed.code, changed.message.includes("the ResourceVersion in the precondition (1)")],
    [409, true],
  );
  assert.equal(store.delete("pods", a, { preconditions: { uid, resourceVersion } }).removed, false);
});

test("a pod on a node terminates first, and a second deletion changes nothing", () => {
  const { store } = makeStore();
  const before = store.create("pods", namespace, pod("a"));
  const { object } = store.delete("pods", a);
  assert.equal(object.metadata.deletionTimestamp, "2026-01-01T00:00:30Z");
  assert.deepEqual([object.metadata.deletionGracePeriodSeconds, object.metadata.generation], [30, 2]);
  assert.ok(Number(object.metadata.resourceVersion) > Number(before.metadata.resourceVersion));
  assert.equal(store.delete("pods", a).object, object);
  assert.equal(store.delete("pods", a, { gracePeriodSeconds: 60 }).object, object);
  assert.equal(store.delete("pods", a, { gracePeriodSeconds: 10 }).object.metadata.deletionGracePeriodSeconds, 10);
  assert.equal(store.delete("pods", a, { gracePeriodSeconds: 0 }).removed, true);
  assert.equal(store.find("pods", a), undefined);
});

test("a pod without a node, and one that has ended, goes at once", () => {
  const { store } = makeStore();
  store.create("pods", namespace, { metadata: { name: "a" }, spec: { containers: [] } });
  assert.equal(store.delete("pods", a).removed, true);
  store.create("pods", namespace, pod("b"));
  store.patch("pods", { namespace, name: "b" }, { status: { phase: "Failed" } }, "status");
  assert.equal(store.delete("pods", { namespace, name: "b" }).removed, true);
});

test("finalizers keep an object until the last one goes", () => {
  const { store } = makeStore();
  for (const resource of ["leases", "pods"] as const) {
    store.create(resource, namespace, { ...pod("a"), metadata: { name: "a", finalizers: ["x.dev/y"] } });
    const { object, removed } = store.delete(resource, a, { gracePeriodSeconds: 0 });
    assert.deepEqual([removed, object.metadata.deletionTimestamp !== undefined], [false, true]);
    assert.equal(store.delete(resource, a, { gracePeriodSeconds: 0 }).object, object);
    assert.equal(refusal(() => store.patch(resource, a, { metadata: { finalizers: ["x.dev/y", "new"] } })).code, 422);
    store.patch(resource, a, { metadata: { finalizers: [] } });
    assert.equal(store.find(resource, a), undefined);
  }
});

test("a list has the order of the API server, and takes its selectors", () => {
  const { store } = makeStore();
  const labels: Record<string, Record<string, string>> = { "a-10": { x: "1" }, "a-2": { x: "2" }, "a-1": { y: "1" } };
  for (const name of Object.keys(labels))
    store.create("pods", namespace, pod(name, { metadata: { labels: labels[name] } }));
  store.create("pods", "another", pod("z", { metadata: { labels: { x: "1" } } }));
  const names = (labelSelector: string, query = {}): string =>
    store
      .list("pods", { namespace, labelSelector, ...query })
      .items.map(({ metadata }) => metadata.name)
      .join(" ");
  assert.equal(names(""), "a-1 a-10 a-2");
  assert.equal(names("x=1"), "a-10");
  assert.equal(names("x==2"), "a-2");
  assert.equal(names("x!=1"), "a-1 a-2");
  assert.equal(names("x in (1, 2)"), "a-10 a-2");
  assert.equal(names("x notin (1)"), "a-1 a-2");
  assert.equal(names("x"), "a-10 a-2");
  assert.equal(names("!x"), "a-1");
  assert.equal(names("x,x!=1"), "a-2");
  assert.equal(names("x in (1,2),y=1"), "");
  assert.deepEqual(
    store.list("pods", { labelSelector: "x=1" }).items.map(({ metadata }) => metadata.namespace),
    ["another", namespace],
  );
  assert.equal(refusal(() => store.list("pods", { labelSelector: "x y" })).code, 400);
});

test("a list that must be newer than everything is refused with 504 and its cause", () => {
  const { store } = makeStore();
  store.create("leases", namespace, { metadata: { name: "a" } });
  assert.equal(store.list("leases", { notOlderThan: String(store.revision) }).items.length, 1);
  const { code, reason, message } = refusal(() => store.list("leases", { notOlderThan: "999" }));
  assert.deepEqual([code, reason], [504, "Timeout"]);
  assert.equal(message, `Timeout: Too large resource version: 999, current: ${store.revision}`);
});

test("a view of any past revision can be built, until it is trimmed", () => {
  const { store, timeline } = makeStore();
  const first = store.create("pods", namespace, pod("a"));
  timeline.runUntil(timeline.nowMs() + 1000);
  store.delete("pods", a, { gracePeriodSeconds: 0 });
  timeline.runUntil(timeline.nowMs() + 1000);
  const second = store.create("pods", namespace, pod("a"));
  const uidsAsOf = (revision: number): string[] =>
    store.podsAsOf(namespace, revision).map(({ metadata }) => metadata.uid);
  assert.deepEqual(uidsAsOf(Number(first.metadata.resourceVersion)), [first.metadata.uid]);
  assert.deepEqual(uidsAsOf(Number(second.metadata.resourceVersion) - 1), []);
  assert.deepEqual(uidsAsOf(store.revision), [second.metadata.uid]);
  assert.deepEqual(
    store.versionsOf("pods", a).map(({ object }) => object?.metadata.deletionTimestamp !== undefined),
    [false, true, false, false],
  );
  store.trimVersions(timeline.nowMs());
  assert.equal(store.versionsOf("pods", a).length, 1);
  assert.deepEqual(uidsAsOf(store.revision), [second.metadata.uid]);
});

test("the pods of an owner are found by its uid, and orphans by an empty one", () => {
  const { store } = makeStore();
  const owned = { ownerReferences: [{ kind: "StatefulSet", name: "s", uid: "u1", controller: true }] };
  store.create("pods", namespace, pod("a", { metadata: owned }));
  store.create("pods", namespace, pod("b"));
  const namesOf = (uid: string): string[] => [...store.ownedBy("pods", uid)].map(({ metadata }) => metadata.name);
  assert.deepEqual([namesOf("u1"), namesOf("")], [["a"], ["b"]]);
  store.patch("pods", a, { metadata: { ownerReferences: null } });
  assert.deepEqual([namesOf("u1"), namesOf("")], [[], ["b", "a"]]);
});
