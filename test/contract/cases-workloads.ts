/** What the StatefulSet controller does, as far as rollouts and downscales rely on it. */
import assert from "node:assert/strict";
import {
  type Case,
  changeTemplate,
  createPod,
  createStatefulSet,
  eventually,
  type Fixture,
  isReady,
  podsOf,
  readStatefulSet,
  readyPod,
  settledStatefulSet,
} from "./fixture.ts";

const hashLabel = "controller-revision-hash";

function hashes(pods: readonly { metadata: { labels?: Readonly<Record<string, string>> } }[]) {
  return pods.map(({ metadata }) => metadata.labels?.[hashLabel]);
}

function names(pods: readonly { metadata: { name: string } }[]): string[] {
  return pods.map(({ metadata }) => metadata.name);
}

async function deletePod({ cluster, namespace }: Fixture, pod: { metadata: { name: string; uid: string } }) {
  const { name, uid } = pod.metadata;
  await cluster.delete("pods", { namespace, name }, { uid });
}

function scale({ cluster, namespace }: Fixture, replicas: number) {
  return cluster.patch("statefulsets", { namespace, name: "set" }, { spec: { replicas } });
}

const revisions: readonly Case[] = [
  {
    name: "a StatefulSet's pods are named by ordinal, controlled by its uid, and carry its update revision",
    async run(fixture) {
      await createStatefulSet(fixture, { replicas: 3 });
      const set = await settledStatefulSet(fixture);
      const pods = await podsOf(fixture);
      assert.deepEqual(names(pods), ["set-0", "set-1", "set-2"]);
      for (const { metadata } of pods) {
        const owner = metadata.ownerReferences?.find(({ controller }) => controller === true);
        assert.deepEqual([owner?.kind, owner?.name, owner?.uid], ["StatefulSet", "set", set.metadata.uid]);
      }
      const { updateRevision, currentRevision } = set.status;
      assert.match(updateRevision ?? "", /^set-[a-z0-9]+$/);
      assert.equal(currentRevision, updateRevision);
      assert.deepEqual(hashes(pods), [updateRevision, updateRevision, updateRevision]);
    },
  },
  {
    name: "OnDelete: a new template gives a new update revision and touches no pod",
    async run(fixture) {
      await createStatefulSet(fixture);
      const before = await settledStatefulSet(fixture);
      const podsBefore = await podsOf(fixture);
      const after = await changeTemplate(fixture, "app:2");
      assert.equal(after.metadata.generation, (before.metadata.generation ?? 0) + 1);
      assert.notEqual(after.status.updateRevision, before.status.updateRevision);
      assert.equal(after.status.currentRevision, before.status.currentRevision);
      assert.equal(after.status.updatedReplicas ?? 0, 0);
      await fixture.cluster.sleep(200);
      const pods = await podsOf(fixture);
      assert.deepEqual(
        pods.map(({ metadata }) => metadata.uid),
        podsBefore.map(({ metadata }) => metadata.uid),
      );
    },
  },
  {
    name: "OnDelete: a deleted pod comes back under its name, with a new uid and the new revision",
    async run(fixture) {
      await createStatefulSet(fixture);
      await settledStatefulSet(fixture);
      const { status } = await changeTemplate(fixture, "app:2");
      const [first] = await podsOf(fixture);
      assert.ok(first);
      await deletePod(fixture, first);
      const next = await readyPod(fixture, "set-0", first.metadata.uid);
      assert.equal(next.metadata.labels?.[hashLabel], status.updateRevision);
      assert.deepEqual(hashes(await podsOf(fixture)), [status.updateRevision, status.currentRevision]);
    },
  },
  {
    name: "OnDelete: the current revision stays when every pod is new, until a client writes the status",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      await createStatefulSet(fixture);
      const before = await settledStatefulSet(fixture);
      await changeTemplate(fixture, "app:2");
      for (const pod of await podsOf(fixture)) {
        await deletePod(fixture, pod);
        await readyPod(fixture, pod.metadata.name, pod.metadata.uid);
      }
      const rolled = await eventually(
        "a status with all pods updated",
        () => readStatefulSet(fixture),
        ({ status }) => status.updatedReplicas === 2 && status.readyReplicas === 2,
      );
      assert.equal(rolled.status.currentRevision, before.status.currentRevision);
      const { updateRevision } = rolled.status;
      const body = { status: { currentRevision: updateRevision } };
      await cluster.patch("statefulsets", { namespace, name: "set" }, body, { subresource: "status" });
      await cluster.sleep(300);
      const after = await readStatefulSet(fixture);
      assert.equal(after.status.currentRevision, updateRevision);
      assert.equal(after.status.currentReplicas, 2);
      assert.deepEqual(after.spec, rolled.spec);
    },
  },
  {
    name: "OnDelete: a template that is changed back has its former update revision again",
    async run(fixture) {
      await createStatefulSet(fixture);
      const first = await settledStatefulSet(fixture);
      const second = await changeTemplate(fixture, "app:2");
      assert.notEqual(second.status.updateRevision, first.status.updateRevision);
      const third = await changeTemplate(fixture, "app:1");
      assert.equal(third.status.updateRevision, first.status.updateRevision);
      assert.deepEqual(hashes(await podsOf(fixture)), [third.status.updateRevision, third.status.updateRevision]);
    },
  },
  {
    name: "an annotation on a StatefulSet changes neither its generation nor its revisions",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      await createStatefulSet(fixture, { replicas: 1 });
      const before = await settledStatefulSet(fixture);
      const key = { namespace, name: "set" };
      await cluster.patch("statefulsets", key, { metadata: { annotations: { a: "1" } } });
      await cluster.sleep(100);
      const after = await readStatefulSet(fixture);
      assert.equal(after.metadata.generation, before.metadata.generation);
      assert.equal(after.status.updateRevision, before.status.updateRevision);
      assert.notEqual(after.metadata.resourceVersion, before.metadata.resourceVersion);
    },
  },
  {
    name: "the observed generation is behind until the controller has seen a change, and then equal",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      await createStatefulSet(fixture, { replicas: 1 });
      const { status } = await settledStatefulSet(fixture);
      const changed = await cluster.patch("statefulsets", { namespace, name: "set" }, { spec: { replicas: 2 } });
      assert.equal(changed.metadata.generation, (status.observedGeneration ?? 0) + 1);
      assert.equal(changed.status?.observedGeneration, status.observedGeneration);
      await settledStatefulSet(fixture);
    },
  },
];

const scaling: readonly Case[] = [
  {
    name: "a downscale takes the highest ordinals",
    async run(fixture) {
      await createStatefulSet(fixture, { replicas: 4 });
      await settledStatefulSet(fixture);
      const before = await podsOf(fixture);
      await scale(fixture, 2);
      const after = await eventually(
        "two pods",
        () => podsOf(fixture),
        (pods) => pods.length === 2,
      );
      assert.deepEqual(
        after.map(({ metadata }) => metadata.uid),
        before.slice(0, 2).map(({ metadata }) => metadata.uid),
      );
    },
  },
  {
    name: "an upscale adds the next ordinals, of the update revision",
    async run(fixture) {
      await createStatefulSet(fixture, { replicas: 1 });
      await settledStatefulSet(fixture);
      const { status } = await changeTemplate(fixture, "app:2");
      await scale(fixture, 3);
      await settledStatefulSet(fixture);
      const pods = await podsOf(fixture);
      assert.deepEqual(names(pods), ["set-0", "set-1", "set-2"]);
      assert.deepEqual(hashes(pods), [status.currentRevision, status.updateRevision, status.updateRevision]);
    },
  },
  {
    name: "ordinals.start moves the ordinals, and a downscale still takes the highest",
    async run(fixture) {
      await createStatefulSet(fixture, { replicas: 2, start: 5 });
      await settledStatefulSet(fixture);
      assert.deepEqual(names(await podsOf(fixture)), ["set-5", "set-6"]);
      await scale(fixture, 1);
      const pods = await eventually(
        "one pod",
        () => podsOf(fixture),
        (found) => found.length === 1,
      );
      assert.deepEqual(names(pods), ["set-5"]);
    },
  },
  {
    name: "a StatefulSet without replicas settles without pods",
    async run(fixture) {
      await createStatefulSet(fixture, { replicas: 0 });
      const { status } = await settledStatefulSet(fixture);
      assert.equal(status.replicas, 0);
      assert.deepEqual(await podsOf(fixture), []);
      assert.notEqual(status.updateRevision, undefined);
    },
  },
];

const health: readonly Case[] = [
  {
    name: "minReadySeconds: pods are ready at once, and available only later",
    async run(fixture) {
      await createStatefulSet(fixture, { replicas: 2, minReadySeconds: 3 });
      const ready = await settledStatefulSet(fixture);
      assert.equal(ready.status.availableReplicas ?? 0, 0);
      const available = await eventually(
        "available replicas",
        () => readStatefulSet(fixture),
        ({ status }) => status.availableReplicas === 2,
      );
      assert.equal(available.status.readyReplicas, 2);
    },
  },
  {
    name: "a broken pod does not count as a ready replica until it heals",
    async run(fixture) {
      await createStatefulSet(fixture);
      await settledStatefulSet(fixture);
      await fixture.breakPod("set-1", "CrashLoopBackOff");
      const broken = await eventually(
        "one ready replica",
        () => readStatefulSet(fixture),
        ({ status }) => status.readyReplicas === 1,
      );
      assert.equal(broken.status.replicas, 2);
      await fixture.healPod("set-1");
      await settledStatefulSet(fixture);
    },
  },
  {
    name: "Parallel: all pods are created at once, ready or not",
    async run(fixture) {
      await createStatefulSet(fixture, { replicas: 3, image: "app:broken" });
      const pods = await eventually(
        "three pods",
        () => podsOf(fixture),
        (found) => found.length === 3,
      );
      assert.ok(!pods.some(isReady));
    },
  },
  {
    name: "OrderedReady: the next pod is created when the one before is Ready",
    async run(fixture) {
      await createStatefulSet(fixture, { replicas: 3, podManagementPolicy: "OrderedReady" });
      await settledStatefulSet(fixture);
      const pods = await podsOf(fixture);
      const created = pods.map(({ metadata }) => BigInt(metadata.resourceVersion));
      assert.equal(pods.length, 3);
      assert.deepEqual(
        created,
        created.toSorted((a, b) => (a < b ? -1 : 1)),
      );
    },
  },
  {
    name: "OrderedReady: a pod that does not become Ready keeps the next one from being created",
    async run(fixture) {
      await createStatefulSet(fixture, { replicas: 2, podManagementPolicy: "OrderedReady", image: "app:broken" });
      await eventually(
        "the first pod",
        () => podsOf(fixture),
        (pods) => pods[0]?.status?.containerStatuses !== undefined,
      );
      await fixture.cluster.sleep(300);
      assert.deepEqual(names(await podsOf(fixture)), ["set-0"]);
      await fixture.healPod("set-0");
      await eventually(
        "the second pod",
        () => podsOf(fixture),
        (pods) => pods.length === 2,
      );
    },
  },
  {
    name: "a broken, outdated pod is replaced by a new one only when a client deletes it",
    async run(fixture) {
      await createStatefulSet(fixture, { image: "app:broken" });
      await eventually(
        "two broken pods",
        () => podsOf(fixture),
        (pods) => pods.length === 2 && pods.every((pod) => pod.status?.containerStatuses !== undefined),
      );
      await changeTemplate(fixture, "app:2");
      await fixture.cluster.sleep(200);
      const [first, second] = await podsOf(fixture);
      assert.ok(first && second && !isReady(first));
      await deletePod(fixture, first);
      await readyPod(fixture, "set-0", first.metadata.uid);
      const after = await podsOf(fixture);
      assert.equal(after[1]?.metadata.uid, second.metadata.uid);
    },
  },
  {
    name: "while a pod terminates its name is not given to another",
    async run(fixture) {
      await createStatefulSet(fixture, { replicas: 1 });
      await settledStatefulSet(fixture);
      const [pod] = await podsOf(fixture);
      assert.ok(pod);
      await deletePod(fixture, pod);
      // The pod may be gone before the first list.
      const seen = new Set([pod.metadata.uid]);
      await eventually(
        "the next pod",
        async () => {
          const { items } = await fixture.cluster.list("pods", { namespace: fixture.namespace });
          assert.ok(items.length <= 1);
          for (const { metadata } of items) seen.add(metadata.uid);
          return seen.size;
        },
        (uids) => uids === 2,
      );
    },
  },
  {
    name: "a pod that only shares the labels does not belong to the StatefulSet, which leaves it alone",
    async run(fixture) {
      await createStatefulSet(fixture, { replicas: 1 });
      await settledStatefulSet(fixture);
      await createPod(fixture, "unowned", { labels: { app: "set" } });
      await readyPod(fixture, "unowned");
      const { status } = await readStatefulSet(fixture);
      assert.equal(status.replicas, 1);
      const pods = await podsOf(fixture);
      assert.deepEqual(names(pods), ["set-0", "unowned"]);
      assert.equal(pods[1]?.metadata.ownerReferences, undefined);
    },
  },
];

export const workloadCases: readonly Case[] = [...revisions, ...scaling, ...health];
