import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualTimeline } from "../fake-cluster/timeline.ts";
import { createWorld } from "../fake-cluster/world.ts";
import { createDraw } from "./draw.ts";
import { newProcess, noFaults, SimulatedCluster } from "./simulated-cluster.ts";

test("a simulated process scales, and sends the options of a deletion, as over a real connection", async () => {
  const timeline = new VirtualTimeline();
  const world = createWorld({ timeline });
  const group = world.addGroup({ namespace: "db", group: "group", zones: ["a"], replicas: 2 });
  world.settle();
  const cluster = new SimulatedCluster({
    world,
    draw: createDraw(1),
    process: newProcess("scaler"),
    faults: () => noFaults,
    clock: { skewMs: 0, wallSkewMs: 0 },
    oldestRevision: () => world.store.revision,
    observer: {
      onDeleteSent() {},
      onPatchSent() {},
      onDeleteArrived() {},
      onPatched() {},
      onWritten() {},
      log() {},
    },
    onResume() {},
  });
  const played = async <T>(promise: Promise<T>): Promise<T> => {
    let isSettled = false;
    const settle = () => {
      isSettled = true;
    };
    promise.then(settle, settle);
    await timeline.run(() => isSettled);
    return await promise;
  };
  const [set = assert.fail()] = group.statefulSets;
  const scale = await played(cluster.get("statefulsets", set, { subresource: "scale" }));
  assert.deepEqual(
    [scale.spec, scale.status],
    [{ replicas: 2 }, { replicas: 2, selector: "name=group-a,rollout-group=group" }],
  );
  const { uid, resourceVersion } = scale.metadata;
  const down = { metadata: { uid, resourceVersion }, spec: { replicas: 1 } };
  const after = await played(cluster.patch("statefulsets", set, down, { subresource: "scale" }));
  assert.equal(after.spec?.replicas, 1);
  await assert.rejects(played(cluster.patch("statefulsets", set, down, { subresource: "scale" })), { code: 409 });
  world.settle();

  const pod = { namespace: "db", name: `${set.name}-0` };
  const { metadata } = await played(cluster.get("pods", pod));
  await played(cluster.delete("pods", pod, { uid: metadata.uid }, { gracePeriodSeconds: 0 }));
  assert.notEqual(world.store.find("pods", pod)?.metadata.uid, metadata.uid);
  world.settle();
  await played(cluster.delete("statefulsets", set, { uid }, { propagationPolicy: "Orphan" }));
  timeline.runUntil(timeline.nowMs() + 10_000);
  assert.equal(world.store.find("statefulsets", set), undefined);
  const orphan = world.store.get("pods", pod).metadata;
  assert.deepEqual([orphan.ownerReferences ?? [], orphan.deletionTimestamp], [[], undefined]);
});
