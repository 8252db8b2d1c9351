/** Cases of nodes that take minutes in a real cluster, or that only the fake cluster has. The others are in `test/contract`. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualTimeline } from "./timeline.ts";
import { createWorld, type World } from "./world.ts";

const namespace = "test";
const pod = { namespace, name: "pod" };

function make(): { readonly world: World; play(ms: number): void; createPod(nodeName: string, more?: object): void } {
  const timeline = new VirtualTimeline();
  const world = createWorld({ timeline });
  return {
    world,
    play: (ms) => timeline.runUntil(timeline.nowMs() + ms),
    createPod: (nodeName, more = {}) => {
      const spec = { nodeName, containers: [{ name: "app", image: "app:1" }], ...more };
      world.store.create("pods", namespace, { metadata: { name: pod.name }, spec });
    },
  };
}

const taint = (world: World, key: string): void => {
  world.store.patch("nodes", { namespace: "", name: "n" }, { spec: { taints: [{ key, effect: "NoExecute" }] } });
};

test("a pod stays for forty seconds on a node whose object is gone, and for good if the node is back or never was an object", () => {
  for (const isBack of [false, true]) {
    const { world, play, createPod } = make();
    const { store } = world;
    store.create("nodes", "", { metadata: { name: "n" } });
    createPod("n");
    store.create("pods", namespace, { metadata: { name: "other" }, spec: { nodeName: "m", containers: [] } });
    play(5_000);
    store.delete("nodes", { namespace: "", name: "n" });
    play(39_000);
    assert.ok(store.find("pods", pod));
    if (isBack) store.create("nodes", "", { metadata: { name: "n" } });
    play(600_000);
    assert.equal(store.find("pods", pod) !== undefined, isBack);
    assert.ok(store.find("pods", { namespace, name: "other" }));
  }
});

test("a pod without tolerations tolerates an unreachable node for five minutes, and no other taint", () => {
  const { world, play, createPod } = make();
  const { store } = world;
  store.create("nodes", "", { metadata: { name: "n" } });
  createPod("n");
  taint(world, "node.kubernetes.io/unreachable");
  play(299_000);
  assert.equal(store.get("pods", pod).metadata.deletionTimestamp, undefined);
  play(2_000);
  assert.equal(store.find("pods", pod), undefined);

  createPod("n", {
    tolerations: [{ key: "node.kubernetes.io/unreachable", operator: "Exists", tolerationSeconds: 5 }],
  });
  play(4_000);
  assert.ok(store.find("pods", pod));
  play(2_000);
  assert.equal(store.find("pods", pod), undefined);

  taint(world, "other");
  createPod("n");
  play(1_000);
  assert.equal(store.find("pods", pod), undefined);
});

test("the scheduler uses no node that is cordoned or tainted", () => {
  const { world, play } = make();
  const { store } = world;
  store.create("nodes", "", { metadata: { name: "node-0" }, spec: { unschedulable: true } });
  store.create("nodes", "", { metadata: { name: "node-1" }, spec: { taints: [{ key: "a", effect: "NoSchedule" }] } });
  for (const name of ["a", "b", "c", "d"]) {
    store.create("pods", namespace, { metadata: { name }, spec: { containers: [{ name: "app", image: "app:1" }] } });
  }
  play(1_000);
  const nodes = store.list("pods").items.map(({ spec }) => spec.nodeName);
  assert.deepEqual(nodes, ["node-2", "node-2", "node-2", "node-2"]);
});
