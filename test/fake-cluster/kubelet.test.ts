import assert from "node:assert/strict";
import { test } from "node:test";
import { conditionOf, isReady, type StoredPod } from "./objects.ts";
import { VirtualTimeline } from "./timeline.ts";
import { createWorld, type World, type WorldOptions } from "./world.ts";

const namespace = "test";
const key = { namespace, name: "p" };

function makeWorld(options: Partial<WorldOptions> = {}): World {
  return createWorld({ timeline: new VirtualTimeline(), readyAfterMs: 1000, goneAfterMs: 500, ...options });
}

function advance(world: World, ms: number): void {
  (world.timeline as VirtualTimeline).runUntil(world.timeline.nowMs() + ms);
}

function addPod(
  world: World,
  more: { image?: string; nodeName?: string; annotations?: Record<string, string> } = {},
): StoredPod {
  const { image = "app:1", nodeName = "node-1", annotations } = more;
  const metadata = { name: "p", ...(annotations === undefined ? undefined : { annotations }) };
  return world.store.create("pods", namespace, { metadata, spec: { nodeName, containers: [{ name: "app", image }] } });
}

function now(world: World): StoredPod {
  return world.store.get("pods", key);
}

test("a pod is Ready some time after its creation, and gone some time after its deletion", () => {
  const world = makeWorld();
  addPod(world);
  advance(world, 999);
  assert.deepEqual([now(world).status.phase, isReady(now(world))], ["Pending", false]);
  advance(world, 1);
  assert.deepEqual([now(world).status.phase, isReady(now(world))], ["Running", true]);
  assert.equal(now(world).status.containerStatuses?.[0]?.ready, true);
  world.store.delete("pods", key);
  advance(world, 499);
  assert.ok(isReady(now(world)), "a terminating pod stays Ready until it goes");
  advance(world, 1);
  assert.equal(world.store.find("pods", key), undefined);
});

test("times may depend on the pod, by a function or by its annotations", () => {
  const world = makeWorld({ readyAfterMs: (pod) => (pod.spec.nodeName === "node-9" ? 50 : 1000) });
  addPod(world, { nodeName: "node-9", annotations: { "test.sluice.dev/gone-after-ms": "7" } });
  advance(world, 50);
  assert.ok(isReady(now(world)));
  world.store.delete("pods", key);
  advance(world, 7);
  assert.equal(world.store.find("pods", key), undefined);
});

test("a pod whose image has the tag broken never becomes Ready", () => {
  const world = makeWorld();
  addPod(world, { image: "app:broken" });
  advance(world, 60_000);
  const [container] = now(world).status.containerStatuses ?? [];
  assert.deepEqual([container?.ready, container?.state?.waiting?.reason], [false, "CrashLoopBackOff"]);
  assert.deepEqual([now(world).status.phase, conditionOf(now(world), "Ready")?.status], ["Running", "False"]);
});

test("a pod whose image cannot be pulled is Pending", () => {
  const world = makeWorld();
  addPod(world, { image: "app:broken", annotations: { "test.sluice.dev/waiting-reason": "ImagePullBackOff" } });
  advance(world, 60_000);
  assert.equal(now(world).status.phase, "Pending");
});

test("a pod can be broken, healed and made to fail", () => {
  const world = makeWorld();
  addPod(world);
  advance(world, 1000);
  const since = conditionOf(now(world), "Ready")?.lastTransitionTime;
  advance(world, 5000);
  world.kubelet.breakPod(key);
  assert.equal(isReady(now(world)), false);
  assert.equal(now(world).status.containerStatuses?.[0]?.state?.waiting?.reason, "CrashLoopBackOff");
  world.kubelet.healPod(key);
  assert.ok(isReady(now(world)));
  assert.notEqual(conditionOf(now(world), "Ready")?.lastTransitionTime, since);
  world.kubelet.failPod(key);
  assert.deepEqual([now(world).status.phase, isReady(now(world))], ["Failed", false]);
});

test("a pod that has ended never runs again, even if it is healed or broken", () => {
  for (const act of ["healPod", "breakPod"] as const) {
    const world = makeWorld();
    addPod(world);
    advance(world, 1000);
    world.kubelet.failPod(key);
    const { status } = now(world);
    world.kubelet[act](key);
    advance(world, 60_000);
    assert.deepEqual(now(world).status, status);
  }
});

test("a pod that is broken before it starts does not become Ready", () => {
  const world = makeWorld();
  addPod(world);
  world.kubelet.breakPod(key);
  advance(world, 60_000);
  assert.equal(isReady(now(world)), false);
});

test("a pod with a broken image that is healed before it starts stays Ready", () => {
  const world = makeWorld({ readyAfterMs: 7000 });
  addPod(world, { image: "app:broken" });
  advance(world, 1000);
  world.kubelet.healPod(key);
  advance(world, 60_000);
  assert.ok(isReady(now(world)));
});

test("a condition keeps its time, in whole seconds, while its status stays the same", () => {
  const world = makeWorld({ readyAfterMs: 1700 });
  addPod(world);
  advance(world, 1700);
  assert.equal(conditionOf(now(world), "Ready")?.lastTransitionTime, "2026-01-01T00:00:01Z");
  advance(world, 5000);
  world.kubelet.healPod(key);
  assert.equal(conditionOf(now(world), "Ready")?.lastTransitionTime, "2026-01-01T00:00:01Z");
});

test("a pod that never becomes Ready has been not Ready since its start, whatever it waits for", () => {
  for (const reason of ["CrashLoopBackOff", "ContainerCreating", "Unready"]) {
    const world = makeWorld({ readyAfterMs: 7000 });
    advance(world, 1000);
    addPod(world, { image: "app:broken", annotations: { "test.sluice.dev/waiting-reason": reason } });
    advance(world, 20_000);
    const since = () => [now(world).status.startTime, conditionOf(now(world), "Ready")?.lastTransitionTime];
    assert.deepEqual(since(), ["2026-01-01T00:00:01Z", "2026-01-01T00:00:01Z"]);
    world.kubelet.breakPod(key, "ImagePullBackOff");
    assert.deepEqual(since(), ["2026-01-01T00:00:01Z", "2026-01-01T00:00:01Z"]);
    world.kubelet.healPod(key);
    assert.deepEqual(since(), ["2026-01-01T00:00:01Z", "2026-01-01T00:00:21Z"]);
    assert.ok(isReady(now(world)));
  }
});

test("a pod whose readiness probe fails runs", () => {
  const world = makeWorld();
  addPod(world, { image: "app:broken", annotations: { "test.sluice.dev/waiting-reason": "Unready" } });
  advance(world, 60_000);
  const [container] = now(world).status.containerStatuses ?? [];
  assert.deepEqual([now(world).status.phase, container?.ready, isReady(now(world))], ["Running", false, false]);
  assert.ok(container?.state?.running);
});

test("the pods of a lost node are not Ready and do not go until it is back", () => {
  const world = makeWorld();
  addPod(world);
  advance(world, 1000);
  world.kubelet.loseNode("node-1");
  assert.equal(isReady(now(world)), false);
  world.store.delete("pods", key);
  advance(world, 60_000);
  assert.ok(now(world));
  world.kubelet.recoverNode("node-1");
  advance(world, 500);
  assert.equal(world.store.find("pods", key), undefined);

  addPod(world);
  world.kubelet.loseNode("node-1");
  advance(world, 60_000);
  assert.equal(now(world).status.phase, "Pending");
  world.kubelet.recoverNode("node-1");
  advance(world, 1000);
  assert.ok(isReady(now(world)));
});

test("a finalizer keeps a terminated pod", () => {
  const world = makeWorld();
  addPod(world);
  world.store.patch("pods", key, { metadata: { finalizers: ["x.dev/y"] } });
  world.store.delete("pods", key);
  advance(world, 60_000);
  assert.equal(now(world).metadata.deletionGracePeriodSeconds, 0);
  world.store.patch("pods", key, { metadata: { finalizers: null } });
  assert.equal(world.store.find("pods", key), undefined);
});

test("a pod that names no node gets one of its zone", () => {
  const world = makeWorld();
  const nodeSelector = { "topology.kubernetes.io/zone": "zone-b" };
  world.store.create("pods", namespace, { metadata: { name: "p" }, spec: { nodeSelector, containers: [] } });
  advance(world, 1000);
  assert.match(now(world).spec.nodeName ?? "", /^zone-b-[012]$/);
  assert.ok(isReady(now(world)));
});

test("a group is one StatefulSet for each zone, with the labels and annotations of rollout-operator", () => {
  const world = makeWorld();
  const group = world.addGroup({
    namespace,
    group: "db",
    zones: ["zone-a", "zone-b"],
    replicas: 2,
    maxUnavailable: 2,
    paused: ["zone-b"],
  });
  world.settle();
  assert.deepEqual(group.statefulSets, [
    { namespace, name: "db-zone-a" },
    { namespace, name: "db-zone-b" },
  ]);
  const [first, second] = world.store.list("statefulsets").items.map(({ metadata }) => metadata);
  assert.deepEqual(
    [first?.labels, first?.annotations],
    [{ "rollout-group": "db" }, { "rollout-max-unavailable": "2" }],
  );
  assert.equal(second?.annotations?.["grafana.com/rollout-paused"], "true");
  assert.equal(world.store.list("pods", { labelSelector: "rollout-group=db" }).items.filter(isReady).length, 4);
  world.pause({ namespace, name: "db-zone-b" }, false);
  const { annotations } = world.store.get("statefulsets", { namespace, name: "db-zone-b" }).metadata;
  assert.equal(annotations?.["grafana.com/rollout-paused"], undefined);
});

test("two worlds with the same seed are the same, step by step", () => {
  const stories = [1, 1, 2].map((seed) => {
    const world = makeWorld({ seed });
    const story: string[] = [];
    world.store.onChange("pods", ({ final, atMs }) =>
      story.push(`${atMs} ${final.metadata.name} ${final.metadata.uid}`),
    );
    world.addGroup({ namespace, group: "db", zones: ["a", "b"], replicas: 2 });
    world.settle();
    return story.join("\n");
  });
  assert.equal(stories[0], stories[1]);
  assert.notEqual(stories[0], stories[2]);
});

test("a world that cannot settle is an error", () => {
  const world = makeWorld();
  world.addGroup({ namespace, group: "db", zones: ["a"], replicas: 1, image: "app:broken" });
  assert.throws(() => world.settle(60_000), /does not settle/);
});
