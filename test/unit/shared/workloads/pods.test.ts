import assert from "node:assert/strict";
import { test } from "node:test";
import type { PodObject } from "../../../../functions/shared/kubernetes/cluster.ts";
import {
  availableInMs,
  isAvailable,
  ordinalOf,
  parsePod,
  stuckReasons,
} from "../../../../functions/shared/workloads/pods.ts";
import { parseStatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";
import {
  nowMs,
  pod,
  podObject,
  running,
  statefulSetObject,
  waitingFor,
} from "../../functions/advance-zone-rollout/given.ts";

const readySinceMs = Date.parse("2026-01-01T00:00:00Z");

test("a pod is ready when its condition and every container say so (R6)", () => {
  assert.equal(parsePod(podObject("a-0")).readySinceMs, readySinceMs);
  assert.equal(parsePod(podObject("a-0", { containers: [running, running] })).readySinceMs, readySinceMs);
  assert.equal(parsePod(podObject("a-0", { containers: [] })).readySinceMs, readySinceMs);
});

test("a pod is not ready if its condition is not True, or is missing", () => {
  assert.equal(parsePod(podObject("a-0", { ready: "False" })).readySinceMs, undefined);
  assert.equal(parsePod(podObject("a-0", { ready: "Unknown" })).readySinceMs, undefined);
  const { metadata } = podObject("a-0");
  assert.equal(parsePod({ metadata }).readySinceMs, undefined);
  assert.equal(parsePod({ metadata, status: { phase: "Running" } }).readySinceMs, undefined);
  const scheduled = { type: "PodScheduled", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" };
  assert.equal(parsePod({ metadata, status: { conditions: [scheduled] } }).readySinceMs, undefined);
});

test("a pod is not ready if a container status is not ready, whatever the condition says", () => {
  const lies = [
    { ...running, ready: false },
    { name: "app", state: { running: {} } },
    { name: "app", ready: true, state: { terminated: {} } },
    { name: "app", ready: true },
    { ...waitingFor("ContainerCreating"), ready: true },
  ];
  for (const lie of lies) {
    assert.equal(parsePod(podObject("a-0", { containers: [running, lie] })).readySinceMs, undefined);
  }
});

test("a terminating pod is not ready, even if its probe still passes", () => {
  const leaving = parsePod(podObject("a-0", { metadata: { deletionTimestamp: "2026-01-01T00:09:00Z" } }));
  assert.equal(leaving.terminating, true);
  assert.equal(leaving.readySinceMs, undefined);
});

for (const reason of stuckReasons) {
  test(`a container that waits for ${reason} makes the pod stuck, and so does an init container`, () => {
    assert.equal(parsePod(podObject("a-0", { containers: [running, waitingFor(reason)] })).stuck, reason);
    const initial = podObject("a-0", {
      containers: [waitingFor("PodInitializing")],
      initContainers: [waitingFor(reason)],
    });
    assert.equal(parsePod(initial).stuck, reason);
  });
}

test("only six reasons to wait need another revision", () => {
  assert.deepEqual([...stuckReasons].sort(), [
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
  ]);
  for (const reason of ["ContainerCreating", "PodInitializing", "crashloopbackoff", ""]) {
    assert.equal(parsePod(podObject("a-0", { containers: [waitingFor(reason)] })).stuck, undefined, reason);
  }
});

/** The kubelet's report: when the pod started, and since when it is not Ready. */
const never = (phase: string, startTime: string | undefined, since: string | undefined, status = "False") => {
  const condition = { type: "Ready", status, ...(since === undefined ? {} : { lastTransitionTime: since }) };
  return parsePod(podObject("a-0", { status: { phase, conditions: [condition], ...(startTime && { startTime }) } }))
    .neverReady;
};
const at = (second: number) => `2026-01-01T00:00:0${second}Z`;

test("a pod that has not been Ready since it started was never Ready, whether Pending or Running", () => {
  for (const phase of ["Pending", "Running"]) {
    assert.equal(never(phase, at(5), at(5)), true);
    assert.equal(never(phase, at(5), at(4)), true, "the kubelet records the time of the condition first");
    assert.equal(never(phase, at(5), at(5), "Unknown"), true);
  }
});

test("a pod that became unready after its start was once Ready, Pending or not, because a restarted node runs init containers again", () => {
  for (const phase of ["Pending", "Running"]) {
    assert.equal(never(phase, at(5), at(6)), false);
    assert.equal(never(phase, at(5), at(6), "Unknown"), false);
    assert.equal(never(phase, at(5), at(5), "True"), false);
  }
});

test("a Pending pod about which no kubelet has reported was never Ready, scheduled or not", () => {
  const { metadata } = podObject("a-0");
  const unheard = (status: PodObject["status"]) => parsePod({ metadata, ...(status && { status }) }).neverReady;
  assert.equal(unheard({ phase: "Pending" }), true);
  const conditions = [{ type: "PodScheduled", status: "False", lastTransitionTime: at(6) }];
  assert.equal(unheard({ phase: "Pending", conditions }), true);
  assert.equal(unheard({ phase: "Running", conditions, startTime: at(7) }), false);
  assert.equal(unheard({ conditions }), false);
  assert.equal(unheard(undefined), false);
});

test("a pod counts as once Ready if that is unclear: without a time, or in another phase", () => {
  for (const phase of ["Pending", "Running"]) {
    assert.equal(never(phase, undefined, at(5)), false);
    assert.equal(never(phase, at(5), undefined), false);
    assert.equal(never(phase, undefined, undefined), false);
    assert.equal(never(phase, at(5), at(3)), false, "the clock of its node was set back");
    assert.equal(never(phase, "soon", at(5)), false);
    assert.equal(never(phase, at(5), "then"), false);
  }
  for (const phase of ["Succeeded", "Failed", "Unknown", ""]) assert.equal(never(phase, at(5), at(5)), false);
});

test("a pod has its creation time, or an unknown one", () => {
  const created = (creationTimestamp: string) =>
    parsePod(podObject("a-0", { metadata: { creationTimestamp } })).createdMs;
  assert.equal(created("2026-01-01T00:00:00Z"), readySinceMs);
  assert.equal(created("yesterday"), Number.NaN);
  assert.equal(parsePod(podObject("a-0")).createdMs, Number.NaN);
});

test("a pod without the revision label has no revision", () => {
  assert.equal(parsePod(podObject("a-0")).revision, "old");
  assert.equal(parsePod(podObject("a-0", { metadata: { labels: { name: "a" } } })).revision, undefined);
});

test("a pod belongs to the uid of its controller, and to nothing else", () => {
  const owner = { kind: "StatefulSet", name: "a", uid: "uid-1" };
  const ownerUid = (...ownerReferences: object[]) =>
    parsePod(podObject("a-0", { metadata: { ownerReferences: ownerReferences as [] } })).ownerUid;
  assert.equal(ownerUid({ ...owner, controller: true }), "uid-1");
  assert.equal(ownerUid({ ...owner, uid: "uid-2" }, { ...owner, controller: true }), "uid-1");
  assert.equal(ownerUid(owner), undefined);
  assert.equal(ownerUid({ ...owner, controller: false }), undefined);
  assert.equal(ownerUid({ ...owner, kind: "ReplicaSet", controller: true }), undefined);
  assert.equal(ownerUid(), undefined);
  const labelled = podObject("a-0", { metadata: { labels: { name: "a" }, ownerReferences: [] } });
  assert.equal(parsePod(labelled).ownerUid, undefined);
});

test("the ordinal is the number at the end of the name, or -1", () => {
  assert.equal(ordinalOf("a-0"), 0);
  assert.equal(ordinalOf("zone-1-12"), 12);
  assert.equal(ordinalOf("a"), -1);
  assert.equal(ordinalOf("a-"), -1);
  assert.equal(ordinalOf("a-1x"), -1);
  assert.equal(ordinalOf("a1"), -1);
});

test("an ordinal is an int32, so that neither a larger number in a name nor a larger start counts", () => {
  assert.equal(ordinalOf("a-2147483647"), 2_147_483_647);
  assert.equal(ordinalOf("a-2147483648"), -1);
  assert.equal(ordinalOf(`a-${"9".repeat(30)}`), -1);
  const startOf = (start: number) => parseStatefulSet(statefulSetObject("a", { spec: { ordinals: { start } } })).start;
  assert.deepEqual([0, 7, 2 ** 31 - 1].map(startOf), [0, 7, 2 ** 31 - 1]);
  assert.deepEqual([1e30, 2 ** 31, -1, 1.5].map(startOf), [0, 0, 0, 0]);
});

test("a pod is available once it has been ready for minReadySeconds, to the millisecond", () => {
  const since = (ms: number) => pod("a-0", { readySinceMs: nowMs - ms });
  assert.equal(availableInMs(since(0), 0, nowMs), 0);
  assert.equal(availableInMs(since(9_999), 10, nowMs), 1);
  assert.equal(availableInMs(since(10_000), 10, nowMs), 0);
  assert.equal(isAvailable(since(9_999), 10, nowMs), false);
  assert.equal(isAvailable(since(10_000), 10, nowMs), true);
});

test("without minReadySeconds a ready pod is available, however the clocks differ", () => {
  assert.equal(isAvailable(pod("a-0", { readySinceMs: nowMs + 5_000 }), 0, nowMs), true);
});

test("time alone does not make a pod available that is unready, terminating, or ready since an unknown time", () => {
  assert.equal(availableInMs(pod("a-0", { readySinceMs: undefined }), 0, nowMs), undefined);
  assert.equal(availableInMs(pod("a-0", { terminating: true }), 0, nowMs), undefined);
  const timeless = parsePod(podObject("a-0", { readySince: "" }));
  assert.equal(availableInMs(timeless, 10, nowMs), undefined);
  assert.equal(isAvailable(timeless, 0, nowMs), true);
});

test("a pod has the address that its node gave it, and none before", () => {
  const { metadata } = podObject("a-0");
  assert.equal(parsePod({ metadata, status: { phase: "Running", podIP: "10.0.0.7" } }).address, "10.0.0.7");
  assert.equal("address" in parsePod({ metadata, status: { phase: "Pending" } }), false);
});
