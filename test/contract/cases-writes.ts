/** Writes: creation, conditional patches (rule R3) and conditional deletions (rules R9, R13). */

import assert from "node:assert/strict";
import { rejection } from "../support/rejection.ts";
import {
  type Case,
  createLease,
  createPod,
  eventually,
  type Fixture,
  gonePod,
  isGone,
  readyPod,
  revisionOf,
} from "./fixture.ts";

const creation: readonly Case[] = [
  {
    name: "a created object is answered with uid, resourceVersion, namespace and a whole-second creation time",
    async run(fixture) {
      const { metadata } = await createLease(fixture, "lease", { a: "1" });
      assert.match(metadata.uid, /^[0-9a-f-]{36}$/);
      assert.match(metadata.resourceVersion, /^[1-9]\d*$/);
      assert.match(metadata.creationTimestamp ?? "", /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
      assert.equal(metadata.namespace, fixture.namespace);
      assert.deepEqual(metadata.annotations, { a: "1" });
    },
  },
  {
    name: "a name can be created once: the second time is 409 AlreadyExists and changes nothing",
    async run(fixture) {
      const first = await createLease(fixture, "lease", { a: "1" });
      const error = await rejection(createLease(fixture, "lease", { a: "2" }));
      assert.deepEqual([error.code, error.reason], [409, "AlreadyExists"]);
      assert.equal(error.message, 'leases.coordination.k8s.io "lease" already exists');
      const now = await lease(fixture);
      assert.equal(now.metadata.resourceVersion, first.metadata.resourceVersion);
    },
  },
  {
    name: "of many clients that create one name at once, one succeeds",
    async run(fixture) {
      const outcomes = await Promise.allSettled(Array.from({ length: 5 }, () => createLease(fixture, "lease")));
      assert.equal(outcomes.filter(({ status }) => status === "fulfilled").length, 1);
    },
  },
  {
    name: "an Event with a name that its sender chose is refused the second time: 409",
    async run({ cluster, namespace }) {
      const body = {
        metadata: { name: "pod-0.0123456789abcdef" },
        involvedObject: { kind: "Pod", namespace, name: "pod-0" },
        reason: "Waiting",
        message: "zone-a is rolled first",
        type: "Normal",
      };
      const event = await cluster.create("events", namespace, body);
      assert.deepEqual([event.reason, event.message], ["Waiting", "zone-a is rolled first"]);
      const error = await rejection(cluster.create("events", namespace, body));
      assert.deepEqual([error.code, error.reason], [409, "AlreadyExists"]);
    },
  },
  {
    name: "an object with another namespace is 400",
    async run({ cluster, namespace, otherNamespace }) {
      const body = { metadata: { name: "lease", namespace: otherNamespace } };
      const error = await rejection(cluster.create("leases", namespace, body));
      assert.deepEqual([error.code, error.reason], [400, "BadRequest"]);
    },
  },
  {
    name: "a missing object is 404 NotFound, with its name, for get, patch and delete",
    async run({ cluster, namespace }) {
      const key = { namespace, name: "nothing" };
      for (const error of [
        await rejection(cluster.get("statefulsets", key)),
        await rejection(cluster.patch("statefulsets", key, { metadata: { annotations: { a: "1" } } })),
        await rejection(cluster.delete("statefulsets", key, { uid: "0" })),
      ]) {
        assert.deepEqual([error.code, error.reason, error.resource], [404, "NotFound", "statefulsets"]);
        assert.equal(error.message, 'statefulsets.apps "nothing" not found');
      }
    },
  },
];

const patches: readonly Case[] = [
  {
    name: "R3: a patch with the right uid and resourceVersion is carried out, and the resourceVersion grows",
    async run(fixture) {
      const before = await createLease(fixture, "lease", { a: "1" });
      const after = await patchLease(fixture, before.metadata, { b: "2" });
      assert.deepEqual(after.metadata.annotations, { a: "1", b: "2" });
      assert.ok(revisionOf(after) > revisionOf(before));
      assert.equal(after.metadata.uid, before.metadata.uid);
    },
  },
  {
    name: "R3: a patch with an old resourceVersion is 409 Conflict and changes nothing",
    async run(fixture) {
      const before = await createLease(fixture, "lease");
      const now = await patchLease(fixture, before.metadata, { a: "1" });
      const error = await rejection(patchLease(fixture, before.metadata, { a: "2" }));
      assert.deepEqual([error.code, error.reason], [409, "Conflict"]);
      assert.deepEqual((await lease(fixture)).metadata.resourceVersion, now.metadata.resourceVersion);
    },
  },
  {
    name: "R3: a patch with another uid is refused (409 or 422) and changes nothing",
    async run(fixture) {
      const { metadata } = await createLease(fixture, "lease");
      const uid = "00000000-0000-4000-8000-000000000000";
      const error = await rejection(patchLease(fixture, { ...metadata, uid }, { a: "1" }));
      assert.ok(error.code === 409 || error.code === 422, `${error.code}`);
      assert.equal((await lease(fixture)).metadata.resourceVersion, metadata.resourceVersion);
    },
  },
  {
    name: "annotations of more than 256 KiB, keys and values together, are 422, and the error does not name the uid",
    async run(fixture) {
      const { metadata } = await createLease(fixture, "lease", { a: "1" });
      const most = 256 * 1024;
      const full = await patchLease(fixture, metadata, { b: "x".repeat(most - "a1b".length) });
      const error = await rejection(patchLease(fixture, full.metadata, { c: "" }));
      assert.deepEqual([error.code, error.reason], [422, "Invalid"]);
      const text = `metadata.annotations: Too long: may not be more than ${most} bytes`;
      assert.equal(error.message, `Lease.coordination.k8s.io "lease" is invalid: ${text}`);
      const uid = "00000000-0000-4000-8000-000000000000";
      const other = await rejection(patchLease(fixture, { ...full.metadata, uid }, { b: "y" }));
      assert.match(other.message, /metadata\.uid: /);
      const wide = await rejection(createLease(fixture, "wide", { a: "ä".repeat(most / 2) }));
      assert.equal(wide.code, 422);
    },
  },
  {
    name: "R3: a patch does not bring a deleted object back: 404",
    async run(fixture) {
      const { metadata } = await createLease(fixture, "lease");
      await fixture.cluster.delete("leases", key(fixture), { uid: metadata.uid });
      assert.equal((await rejection(patchLease(fixture, metadata, { a: "1" }))).code, 404);
      assert.equal((await rejection(lease(fixture))).code, 404);
    },
  },
  {
    name: "R3: a patch meant for a deleted object does not reach its namesake: 409",
    async run(fixture) {
      const { metadata } = await createLease(fixture, "lease");
      await fixture.cluster.delete("leases", key(fixture), { uid: metadata.uid });
      const namesake = await createLease(fixture, "lease");
      const error = await rejection(patchLease(fixture, metadata, { a: "1" }));
      assert.deepEqual([error.code, error.reason], [409, "Conflict"]);
      assert.equal((await lease(fixture)).metadata.resourceVersion, namesake.metadata.resourceVersion);
    },
  },
  {
    name: "R3: of many conditional patches from one revision, one succeeds and the others are 409",
    async run(fixture) {
      const { metadata } = await createLease(fixture, "lease");
      const outcomes = await Promise.allSettled(
        Array.from({ length: 6 }, (_, index) => patchLease(fixture, metadata, { by: String(index) })),
      );
      const codes = outcomes.map((outcome) => (outcome.status === "fulfilled" ? 200 : outcome.reason.code));
      assert.deepEqual(codes.toSorted(), [200, 409, 409, 409, 409, 409]);
    },
  },
  {
    name: "R3: a conditional patch that changes nothing is 409 as well when the revision is old",
    async run(fixture) {
      const before = await createLease(fixture, "lease");
      await patchLease(fixture, before.metadata, { a: "1" });
      assert.equal((await rejection(patchLease(fixture, before.metadata, { a: "1" }))).code, 409);
    },
  },
  {
    name: "an annotation set to null goes, and the others stay",
    async run(fixture) {
      const { metadata } = await createLease(fixture, "lease", { a: "1", b: "2" });
      const after = await patchLease(fixture, metadata, { a: null });
      assert.deepEqual(after.metadata.annotations, { b: "2" });
    },
  },
  {
    name: "an object without its last annotation has no annotations at all",
    async run(fixture) {
      const { metadata } = await createLease(fixture, "lease", { a: "1" });
      const after = await patchLease(fixture, metadata, { a: null });
      assert.equal(after.metadata.annotations, undefined);
    },
  },
  {
    name: "a patch that changes nothing keeps the resourceVersion",
    async run(fixture) {
      const { metadata } = await createLease(fixture, "lease", { a: "1" });
      for (const annotations of [{ a: "1" }, { absent: null }, {}]) {
        const after = await patchLease(fixture, metadata, annotations);
        assert.equal(after.metadata.resourceVersion, metadata.resourceVersion);
      }
    },
  },
  {
    name: "a patch does not change fields that it does not name, known to us or not",
    async run(fixture) {
      const { metadata } = await createLease(fixture, "lease");
      const after = await patchLease(fixture, metadata, { a: "1" });
      assert.deepEqual("spec" in after && after.spec, { holderIdentity: "holder", leaseDurationSeconds: 15 });
    },
  },
  {
    name: "a patch without preconditions applies to any version",
    async run(fixture) {
      await createLease(fixture, "lease", { a: "1" });
      const after = await fixture.cluster.patch("leases", key(fixture), { metadata: { labels: { l: "x" } } });
      assert.deepEqual([after.metadata.labels, after.metadata.annotations], [{ l: "x" }, { a: "1" }]);
    },
  },
];

/** A pod that terminates for long enough that a busy machine sees it. */
const slowly = { annotations: { "test.sluice.dev/gone-after-ms": "3000" } };

const deletions: readonly Case[] = [
  {
    name: "R9: a deletion by uid deletes",
    async run(fixture) {
      const { metadata } = await createLease(fixture, "lease");
      await fixture.cluster.delete("leases", key(fixture), { uid: metadata.uid });
      assert.equal((await rejection(lease(fixture))).code, 404);
    },
  },
  {
    name: "R9: a deletion with another uid is 409 Conflict and deletes nothing",
    async run(fixture) {
      const { metadata } = await createLease(fixture, "lease");
      const uid = "00000000-0000-4000-8000-000000000000";
      const error = await rejection(fixture.cluster.delete("leases", key(fixture), { uid }));
      assert.deepEqual([error.code, error.reason], [409, "Conflict"]);
      assert.equal((await lease(fixture)).metadata.resourceVersion, metadata.resourceVersion);
    },
  },
  {
    name: "R9: a repeated deletion is 404, and 409 once a namesake exists",
    async run(fixture) {
      const { metadata } = await createLease(fixture, "lease");
      await fixture.cluster.delete("leases", key(fixture), { uid: metadata.uid });
      const again = () => rejection(fixture.cluster.delete("leases", key(fixture), { uid: metadata.uid }));
      assert.equal((await again()).code, 404);
      await createLease(fixture, "lease");
      assert.equal((await again()).code, 409);
    },
  },
  {
    name: "R13: a deletion by uid and resourceVersion is 409 when the object has changed since",
    async run(fixture) {
      const { metadata } = await createLease(fixture, "lease");
      const { uid, resourceVersion } = metadata;
      const now = await patchLease(fixture, metadata, { a: "1" });
      const error = await rejection(fixture.cluster.delete("leases", key(fixture), { uid, resourceVersion }));
      assert.deepEqual([error.code, error.reason], [409, "Conflict"]);
      await fixture.cluster.delete("leases", key(fixture), { uid, resourceVersion: now.metadata.resourceVersion });
      assert.equal((await rejection(lease(fixture))).code, 404);
    },
  },
  {
    name: "R9: many deletions of one pod all succeed or are 404, and it goes once",
    async run(fixture) {
      const { uid } = (await createPod(fixture, "pod")).metadata;
      await readyPod(fixture, "pod");
      const podKey = { namespace: fixture.namespace, name: "pod" };
      const deletions = Array.from({ length: 4 }, () => fixture.cluster.delete("pods", podKey, { uid }));
      for (const outcome of await Promise.allSettled(deletions)) {
        if (outcome.status === "rejected") assert.ok(isGone(outcome.reason), String(outcome.reason));
      }
      await gonePod(fixture, "pod");
    },
  },
  {
    name: "R9: a deleted pod terminates for a while, with a deletionTimestamp and the same uid",
    async run(fixture) {
      await createPod(fixture, "pod", slowly);
      const { metadata } = await readyPod(fixture, "pod");
      const podKey = { namespace: fixture.namespace, name: "pod" };
      await fixture.cluster.delete("pods", podKey, { uid: metadata.uid });
      const { metadata: now } = await fixture.cluster.get("pods", podKey);
      assert.equal(now.uid, metadata.uid);
      // The end of the grace period, and not the moment of the deletion.
      const dueMs = Date.parse(now.deletionTimestamp ?? "") - fixture.cluster.serverTimeMs();
      assert.ok(dueMs > 25_000 && dueMs < 32_000, `${now.deletionTimestamp} is ${dueMs} ms ahead`);
      assert.ok(revisionOf({ metadata: now }) > revisionOf({ metadata }));
      await gonePod(fixture, "pod");
    },
  },
  {
    name: "R9: deleting a terminating pod succeeds and changes nothing",
    async run(fixture) {
      await createPod(fixture, "pod", slowly);
      const { uid } = (await readyPod(fixture, "pod")).metadata;
      const podKey = { namespace: fixture.namespace, name: "pod" };
      await fixture.cluster.delete("pods", podKey, { uid });
      const { metadata } = await fixture.cluster.get("pods", podKey);
      await fixture.cluster.delete("pods", podKey, { uid });
      const again = await fixture.cluster.get("pods", podKey);
      assert.equal(again.metadata.deletionTimestamp, metadata.deletionTimestamp);
      assert.equal(again.metadata.resourceVersion, metadata.resourceVersion);
    },
  },
  {
    name: "R13: a pod whose status has changed is not deleted by its old resourceVersion: 409",
    async run(fixture) {
      const { uid, resourceVersion } = (await createPod(fixture, "pod")).metadata;
      await readyPod(fixture, "pod");
      const podKey = { namespace: fixture.namespace, name: "pod" };
      const error = await rejection(fixture.cluster.delete("pods", podKey, { uid, resourceVersion }));
      assert.deepEqual([error.code, error.reason], [409, "Conflict"]);
      assert.equal((await fixture.cluster.get("pods", podKey)).metadata.deletionTimestamp, undefined);
    },
  },
  {
    name: "a patch still reaches a terminating pod",
    async run(fixture) {
      await createPod(fixture, "pod", slowly);
      const { uid } = (await readyPod(fixture, "pod")).metadata;
      const podKey = { namespace: fixture.namespace, name: "pod" };
      await fixture.cluster.delete("pods", podKey, { uid });
      const after = await fixture.cluster.patch("pods", podKey, { metadata: { annotations: { a: "1" } } });
      assert.deepEqual([after.metadata.annotations, after.metadata.uid], [{ ...slowly.annotations, a: "1" }, uid]);
    },
  },
  {
    name: "a finalizer keeps a deleted object until it is removed",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      const finalizers = ["sluice.dev/contract"];
      const { metadata } = await cluster.create("leases", namespace, { metadata: { name: "lease", finalizers } });
      await cluster.delete("leases", key(fixture), { uid: metadata.uid });
      assert.notEqual((await lease(fixture)).metadata.deletionTimestamp, undefined);
      await cluster.patch("leases", key(fixture), { metadata: { finalizers: null } });
      await eventually(
        "the end of the lease",
        () => lease(fixture).then(() => false, isGone),
        (gone) => gone,
      );
    },
  },
];

export const writeCases: readonly Case[] = [...creation, ...patches, ...deletions];

function key({ namespace }: Fixture) {
  return { namespace, name: "lease" };
}

function lease(fixture: Fixture) {
  return fixture.cluster.get("leases", key(fixture));
}

function patchLease(
  fixture: Fixture,
  condition: { readonly uid: string; readonly resourceVersion: string },
  annotations: Readonly<Record<string, string | null>>,
) {
  const { uid, resourceVersion } = condition;
  return fixture.cluster.patch("leases", key(fixture), { metadata: { uid, resourceVersion, annotations } });
}
