/** Evictions of pods without a place in a zone: each is told why, and the ledger stays readable whatever the pods' names. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createListReader } from "../../../../functions/shared/cache/listing.ts";
import type { Cluster } from "../../../../functions/shared/kubernetes/cluster.ts";
import { type Harness, namespace } from "../../shared/reconcile/harness.ts";
import { podObject } from "../advance-zone-rollout/given.ts";
import { governedGroup, Replica, reserved } from "./group-commit/reviews.ts";

function addPod(harness: Harness, name: string, ownerReferences: readonly object[]): void {
  const metadata = { name, labels: { "rollout-group": "group" }, ownerReferences };
  harness.world.store.create("pods", namespace, { metadata, spec: { containers: [] } });
}

/** A process whose API server has a ready pod of any name, which `group-a` controls. Its controller would soon remove it. */
function besidePod(harness: Harness, name: string): Replica {
  const { uid } = harness.world.store.get("statefulsets", { namespace, name: "group-a" }).metadata;
  const ownerReferences = [{ kind: "StatefulSet", name: "group-a", uid, controller: true }];
  const odd = podObject(name, { metadata: { labels: { "rollout-group": "group" }, ownerReferences } });
  return new Replica(harness, (inner) => {
    const get = async (...given: Parameters<Cluster["get"]>) =>
      given[0] === "pods" && given[1].name === name ? odd : inner.get(...given);
    const cluster = { ...inner, get: get as Cluster["get"] };
    return { cluster, cache: createListReader(cluster, undefined) };
  });
}

test("no-ordinal: a pod whose name is not STATEFULSET-ORDINAL gets a 400 that says so, and the ledger stays readable", async () => {
  const harness = await governedGroup();
  const names = [`group-a-${"9".repeat(30)}`, "group-a-2147483648", "group-a-x", "group-a-07", "other-1", "group-a"];
  for (const name of names) {
    const replica = besidePod(harness, name);
    const answer = await replica.answer(replica.review(name));
    assert.ok(!answer.allowed, name);
    assert.deepEqual([answer.guard, answer.code, answer.reason], ["no-ordinal", 400, "BadRequest"], name);
    assert.match(answer.message, new RegExp(`^pod ${name} is not named STATEFULSET-ORDINAL, as the pods of group-a`));
  }
  assert.deepEqual(reserved(harness), []);
  const replica = new Replica(harness);
  assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["allowed"]);
});

test("no-statefulset: the refusal names the kind of what controls the pod", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  const owned = (kind: string) => [{ apiVersion: "v1", kind, name: "o", uid: "uid-of-o", controller: true }];
  for (const [name, owners, text] of [
    ["by-rs", owned("ReplicaSet"), "which a ReplicaSet controls, and no StatefulSet,"],
    ["by-etcd", owned("EtcdCluster"), "which an EtcdCluster controls, and no StatefulSet,"],
    ["by-sts", owned("StatefulSet"), "whose StatefulSet is gone,"],
    ["by-none-0", [], "which nothing controls,"],
    ["by-long", owned("K".repeat(10_000)), `which a ${"K".repeat(63)} controls, and no StatefulSet,`],
  ] as const) {
    addPod(harness, name, owners);
    await harness.goOn(0);
    const answer = await replica.answer(replica.review(name));
    assert.ok(!answer.allowed, name);
    assert.equal(answer.message.startsWith(`the budget budget selects pod ${name}, ${text} so that`), true, name);
  }
});

test("out-of-scope: Sluice's own pods are recognised by their labels and ReplicaSet, and no StatefulSet's pod is one", async () => {
  const harness = await governedGroup({ maxUnavailable: 0 });
  // The owners of these pods do not exist, so the pods would soon be gone as well.
  harness.world.garbageCollector.stop();
  const ours = { "app.kubernetes.io/name": "sluice", "app.kubernetes.io/component": "admission" };
  const labels = { "rollout-group": "group", ...ours };
  const owned = (kind: string, name: string) => [
    { apiVersion: "apps/v1", kind, name, uid: "uid-of-o", controller: true },
  ];
  const replica = new Replica(harness);
  for (const [name, owners, marks, guard] of [
    ["sluice-7c9f6d5b8-22224", owned("ReplicaSet", "sluice-7c9f6d5b8"), labels, "out-of-scope"],
    ["sluice-admission-7c9f6d5b8-22224", owned("ReplicaSet", "sluice-admission-7c9f6d5b8"), labels, "out-of-scope"],
    ["sluice-a-22224", owned("StatefulSet", "sluice-a"), labels, "no-statefulset"],
    ["sluice-b-22224", owned("ReplicaSet", "other-b"), labels, "no-statefulset"],
    ["sluice-c-22224", owned("ReplicaSet", "sluice-c"), { "rollout-group": "group" }, "no-statefulset"],
    ["sluice-d-22224", [], labels, "no-statefulset"],
  ] as const) {
    const metadata = { name, labels: marks, ownerReferences: owners };
    harness.world.store.create("pods", namespace, { metadata, spec: { containers: [] } });
    await harness.goOn(0);
    assert.deepEqual(await replica.guards(replica.review(name)), [guard], name);
  }
  assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["never-possible"]);
});
