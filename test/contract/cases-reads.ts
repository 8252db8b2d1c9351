/** Lists (rules R5, R8), clocks, and aborted calls. */

import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { rejection } from "../support/rejection.ts";
import {
  type Case,
  createLease,
  createPod,
  createStatefulSet,
  type Fixture,
  isReady,
  readyPod,
  revisionOf,
  settledStatefulSet,
} from "./fixture.ts";

const lists: readonly Case[] = [
  {
    name: "R5: a list without a revision shows every write that was answered before it",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      for (const name of ["a", "b", "c"]) {
        const { metadata } = await createLease(fixture, name);
        const { items } = await cluster.list("leases", { namespace });
        const listed = items.find((item) => item.metadata.name === name);
        assert.equal(listed?.metadata.resourceVersion, metadata.resourceVersion);
      }
    },
  },
  {
    name: "R5: a list not older than a pod's revision shows that revision or a later one",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      await createPod(fixture, "pod");
      await readyPod(fixture, "pod");
      for (let round = 0; round < 5; round++) {
        const patched = await cluster.patch(
          "pods",
          { namespace, name: "pod" },
          { metadata: { annotations: { round: String(round) } } },
        );
        const notOlderThan = patched.metadata.resourceVersion;
        const { items, resourceVersion } = await cluster.list("pods", { namespace, notOlderThan });
        const [pod] = items;
        assert.ok(pod !== undefined && revisionOf(pod) >= revisionOf(patched));
        assert.ok(BigInt(resourceVersion) >= BigInt(notOlderThan));
      }
    },
  },
  {
    name: "R5: a list not older than a future revision is 504 Timeout, within 8 s",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      await createPod(fixture, "pod");
      const startMs = performance.now();
      const error = await rejection(cluster.list("pods", { namespace, notOlderThan: "99999999999" }));
      assert.deepEqual([error.code, error.reason], [504, "Timeout"]);
      assert.match(error.message, /Too large resource version/);
      assert.ok(performance.now() - startMs < 8_000);
    },
  },
  {
    name: 'R5: a list not older than "0" is refused by us',
    async run({ cluster, namespace }) {
      const error = await rejection(cluster.list("pods", { namespace, notOlderThan: "0" }));
      assert.deepEqual([error.code, error.reason], [400, "BadRequest"]);
    },
  },
  {
    name: "R8: a list's own revision is not below that of any item",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      for (const name of ["a", "b", "c"]) await createPod(fixture, name);
      const { items, resourceVersion } = await cluster.list("pods", { namespace });
      assert.equal(items.length, 3);
      for (const item of items) assert.ok(BigInt(resourceVersion) >= revisionOf(item));
    },
  },
  {
    name: "R8: revisions of pods compare as integers: each write of any pod has a larger one than all before",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      let last = 0n;
      const grows = (object: { metadata: { resourceVersion: string } }) => {
        assert.ok(revisionOf(object) > last, `${object.metadata.resourceVersion} after ${last}`);
        last = revisionOf(object);
      };
      for (const name of ["a", "b", "c"]) grows(await createPod(fixture, name));
      for (const name of ["b", "a", "c", "a"]) {
        const annotations = { at: String(last) };
        grows(await cluster.patch("pods", { namespace, name }, { metadata: { annotations } }));
      }
    },
  },
  {
    name: "a list covers one namespace, or all",
    async run(fixture) {
      const { cluster, namespace, otherNamespace } = fixture;
      const mine = await createLease(fixture, "lease");
      const other = await cluster.create("leases", otherNamespace, { metadata: { name: "lease" } });
      const uids = async (query: { namespace?: string }) =>
        (await cluster.list("leases", query)).items.map(({ metadata }) => metadata.uid);
      assert.deepEqual(await uids({ namespace }), [mine.metadata.uid]);
      const all = await uids({});
      assert.ok(all.includes(mine.metadata.uid) && all.includes(other.metadata.uid));
    },
  },
  {
    name: "a list of nothing has no items, but a revision",
    async run({ cluster, namespace }) {
      const { items, resourceVersion } = await cluster.list("statefulsets", { namespace });
      assert.deepEqual(items, []);
      assert.match(resourceVersion, /^[1-9]\d*$/);
    },
  },
  {
    name: "label selectors: equality, inequality, sets, presence and absence",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      await createPod(fixture, "one", { labels: { app: "x", zone: "a" } });
      await createPod(fixture, "two", { labels: { app: "x", zone: "b" } });
      await createPod(fixture, "three", { labels: { app: "y", empty: "" } });
      const expectations: Readonly<Record<string, readonly string[]>> = {
        "app=x": ["one", "two"],
        "app==x,zone=b": ["two"],
        "zone!=a": ["three", "two"],
        "zone in (a, b)": ["one", "two"],
        "zone notin (a)": ["three", "two"],
        zone: ["one", "two"],
        "!zone": ["three"],
        "empty=": ["three"],
        "app=none": [],
      };
      for (const [labelSelector, names] of Object.entries(expectations)) {
        const { items } = await cluster.list("pods", { namespace, labelSelector });
        assert.deepEqual(items.map(({ metadata }) => metadata.name).toSorted(), names, labelSelector);
      }
    },
  },
  {
    name: "a selector that does not parse is 400",
    async run({ cluster, namespace }) {
      const error = await rejection(cluster.list("pods", { namespace, labelSelector: "a=b=c" }));
      assert.deepEqual([error.code, error.reason], [400, "BadRequest"]);
    },
  },
  {
    name: "a deleted pod is in no list that is not older than its removal",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      const { metadata } = await createPod(fixture, "pod");
      await readyPod(fixture, "pod");
      await cluster.delete("pods", { namespace, name: "pod" }, { uid: metadata.uid });
      for (;;) {
        const { items } = await cluster.list("pods", { namespace });
        if (items.length === 0) break;
        await delay(20);
      }
      assert.equal((await rejection(cluster.get("pods", { namespace, name: "pod" }))).code, 404);
    },
  },
  {
    name: "a list and a get show the same object",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      await createStatefulSet(fixture, { replicas: 1 });
      const got = await settledStatefulSet(fixture);
      const { items } = await cluster.list("statefulsets", { namespace });
      assert.deepEqual(
        [items[0]?.metadata.resourceVersion, items[0]?.status],
        [got.metadata.resourceVersion, got.status],
      );
      assert.deepEqual(items[0]?.spec, got.spec);
    },
  },
];

const clocks: readonly Case[] = [
  {
    name: "the server's time is within a second of the stamp of a new object",
    async run(fixture) {
      for (let reply = 0; reply < 5; reply++) await fixture.cluster.list("leases", { namespace: fixture.namespace });
      const { metadata } = await createLease(fixture, "lease");
      const apartMs = fixture.cluster.serverTimeMs() - Date.parse(metadata.creationTimestamp ?? "");
      assert.ok(Math.abs(apartMs) < 2_000, `${apartMs} ms`);
    },
  },
  {
    name: "the monotonic clock goes on while sleeping, and sleep ends with its signal",
    async run({ cluster }) {
      const startMs = cluster.monotonicMs();
      await cluster.sleep(20);
      assert.ok(cluster.monotonicMs() - startMs >= 15);
      const controller = new AbortController();
      const sleeping = cluster.sleep(60_000, controller.signal);
      controller.abort();
      await sleeping;
      await cluster.sleep(60_000, AbortSignal.abort());
      assert.ok(cluster.monotonicMs() - startMs < 5_000);
    },
  },
  {
    name: "an aborted call rejects with code 0",
    async run({ cluster, namespace }) {
      const error = await rejection(cluster.list("pods", { namespace }, { signal: AbortSignal.abort() }));
      assert.equal(error.code, 0);
      const controller = new AbortController();
      const key = { namespace, name: "nothing" };
      const refused = rejection(cluster.get("pods", key, { signal: controller.signal }));
      controller.abort();
      assert.equal((await refused).code, 0);
    },
  },
  {
    name: "R9: a call is not sent after its deadline: code 0, and nothing was done",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      const { metadata } = await createLease(fixture, "lease");
      const key = { namespace, name: "lease" };
      const late = { notAfterMs: cluster.monotonicMs() - 1 };
      assert.equal((await rejection(cluster.delete("leases", key, { uid: metadata.uid }, late))).code, 0);
      const body = { metadata: { annotations: { a: "1" } } };
      assert.equal((await rejection(cluster.patch("leases", key, body, late))).code, 0);
      assert.equal((await cluster.get("leases", key)).metadata.resourceVersion, metadata.resourceVersion);
      await cluster.delete("leases", key, { uid: metadata.uid }, { notAfterMs: cluster.monotonicMs() + 10_000 });
    },
  },
];

const pods: readonly Case[] = [
  {
    name: "R6: a Ready pod has a condition with a time in whole seconds, and ready containers",
    async run(fixture) {
      await createPod(fixture, "pod");
      const { metadata, status } = await readyPod(fixture, "pod");
      const ready = status?.conditions?.find(({ type }) => type === "Ready");
      assert.match(ready?.lastTransitionTime ?? "", /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
      assert.ok(Date.parse(ready?.lastTransitionTime ?? "") >= Date.parse(metadata.creationTimestamp ?? ""));
      assert.equal(status?.phase, "Running");
      const [container] = status?.containerStatuses ?? [];
      assert.deepEqual([container?.name, container?.ready], ["app", true]);
      assert.ok(container?.state?.running);
    },
  },
  {
    name: "R6: a pod that was just created is Pending and not Ready",
    async run(fixture) {
      const pod = await createPod(fixture, "pod");
      assert.equal(pod.status?.phase, "Pending");
      assert.equal(isReady(pod), false);
    },
  },
  {
    name: "a pod with a broken image is not Ready, and its container has a waiting reason",
    async run(fixture) {
      await createPod(fixture, "pod", { image: "app:broken" });
      const { status } = await podThat(fixture, (reason) => reason !== undefined);
      assert.equal(status?.containerStatuses?.[0]?.state?.waiting?.reason, "CrashLoopBackOff");
      assert.equal(status?.containerStatuses?.[0]?.ready, false);
      assert.equal(status?.conditions?.find(({ type }) => type === "Ready")?.status, "False");
    },
  },
  {
    name: "a broken pod is not Ready until it heals, with a larger revision and the same uid",
    async run(fixture) {
      await createPod(fixture, "pod");
      const before = await readyPod(fixture, "pod");
      await fixture.breakPod("pod", "ImagePullBackOff");
      const broken = await podThat(fixture, (reason) => reason === "ImagePullBackOff");
      assert.equal(isReady(broken), false);
      assert.equal(broken.metadata.uid, before.metadata.uid);
      assert.ok(revisionOf(broken) > revisionOf(before));
      await fixture.healPod("pod");
      const healed = await readyPod(fixture, "pod");
      assert.equal(healed.metadata.uid, before.metadata.uid);
    },
  },
  {
    name: "a status patch writes status and metadata, never the spec; a plain patch writes everything but the status",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      await createStatefulSet(fixture, { replicas: 1 });
      const before = await settledStatefulSet(fixture);
      const key = { namespace, name: "set" };
      const written = await cluster.patch(
        "statefulsets",
        key,
        { metadata: { labels: { by: "status" } }, spec: { replicas: 5 }, status: { currentRevision: "set-x" } },
        { subresource: "status" },
      );
      // The status subresource protects the spec from other writers, but surprisingly not the labels.
      assert.equal(written.metadata.labels?.by, "status");
      assert.equal(written.metadata.generation, before.metadata.generation);
      assert.deepEqual([written.spec, written.status?.currentRevision], [before.spec, "set-x"]);
      const plain = await cluster.patch("statefulsets", key, {
        metadata: { labels: { by: "plain" } },
        status: { observedGeneration: 77 },
      });
      assert.equal(plain.metadata.labels?.by, "plain");
      assert.equal(plain.status?.observedGeneration, before.status.observedGeneration);
    },
  },
];

export const readCases: readonly Case[] = [...lists, ...clocks, ...pods];

async function podThat({ cluster, namespace }: Fixture, satisfies: (reason: string | undefined) => boolean) {
  for (;;) {
    const pod = await cluster.get("pods", { namespace, name: "pod" });
    if (satisfies(pod.status?.containerStatuses?.[0]?.state?.waiting?.reason)) return pod;
    await delay(20);
  }
}
