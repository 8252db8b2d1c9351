/** The scale of a StatefulSet, and the options of a deletion, which the functions that scale and fence rely on. */
import assert from "node:assert/strict";
import type { ScaleObject } from "../../functions/shared/kubernetes/cluster.ts";
import { rejection } from "../support/rejection.ts";
import {
  type Case,
  createPod,
  createStatefulSet,
  eventually,
  type Fixture,
  gonePod,
  isGone,
  podsOf,
  readStatefulSet,
  readyPod,
  revisionOf,
  settledStatefulSet,
  statefulSetAtRest,
} from "./fixture.ts";

const scales: readonly Case[] = [
  {
    name: "a scale has the wanted and the existing replicas, with the object's own uid and resourceVersion",
    async run(fixture) {
      await createStatefulSet(fixture, { replicas: 2 });
      await settledStatefulSet(fixture);
      // The status may be written once more between the two reads.
      const [set, scale] = await eventually(
        "a scale of the same revision",
        async () => [await readStatefulSet(fixture), await getScale(fixture)] as const,
        ([set, scale]) => set.metadata.resourceVersion === scale.metadata.resourceVersion,
      );
      const { name, namespace, uid, resourceVersion, creationTimestamp } = set.metadata;
      assert.deepEqual(scale, {
        kind: "Scale",
        apiVersion: "autoscaling/v1",
        metadata: { name, namespace, uid, resourceVersion, creationTimestamp },
        spec: { replicas: 2 },
        status: { replicas: 2, selector: "app=set" },
      });
    },
  },
  {
    name: "the scale of a missing object is 404, and so is the scale of a type that has none",
    async run(fixture) {
      const missing = await rejection(getScale(fixture));
      assert.deepEqual([missing.code, missing.reason], [404, "NotFound"]);
      assert.equal(missing.message, 'statefulsets.apps "set" not found');
      assert.equal((await rejection(patchScale(fixture, { spec: { replicas: 1 } }))).code, 404);
      await createPod(fixture, "pod");
      const { cluster, namespace } = fixture;
      const none = await rejection(cluster.get("pods", { namespace, name: "pod" }, { subresource: "scale" }));
      assert.deepEqual([none.code, none.reason], [404, "NotFound"]);
    },
  },
  {
    name: "a patch of a scale changes the replicas and the generation, and the controller carries it out",
    async run(fixture) {
      await createStatefulSet(fixture, { replicas: 3 });
      const before = await settledStatefulSet(fixture);
      const { resourceVersion } = before.metadata;
      const scale = await patchScale(fixture, { metadata: { resourceVersion }, spec: { replicas: 1 } });
      assert.deepEqual([scale.spec, scale.metadata.uid], [{ replicas: 1 }, before.metadata.uid]);
      assert.ok(revisionOf(scale) > revisionOf(before));
      const after = await readStatefulSet(fixture);
      assert.deepEqual([after.spec.replicas, after.metadata.generation], [1, 2]);
      await gonePod(fixture, "set-1");
      await settledStatefulSet(fixture);
      assert.deepEqual(
        (await podsOf(fixture)).map(({ metadata }) => metadata.name),
        ["set-0"],
      );
      assert.equal((await getScale(fixture)).status?.replicas, 1);
    },
  },
  {
    name: "a patch of a scale to zero leaves the number out",
    async run(fixture) {
      await createStatefulSet(fixture, { replicas: 1 });
      const scale = await patchScale(fixture, { spec: { replicas: 0 } });
      assert.deepEqual(scale.spec, {});
      assert.equal((await readStatefulSet(fixture)).spec.replicas, 0);
      await gonePod(fixture, "set-0");
    },
  },
  {
    name: "a patch of a scale with an old resourceVersion is 409 Conflict and changes nothing",
    async run(fixture) {
      await createStatefulSet(fixture, { replicas: 1 });
      const { resourceVersion } = (await settledStatefulSet(fixture)).metadata;
      const { cluster, namespace } = fixture;
      await cluster.patch("statefulsets", { namespace, name: "set" }, { metadata: { annotations: { a: "1" } } });
      const error = await rejection(patchScale(fixture, { metadata: { resourceVersion }, spec: { replicas: 0 } }));
      assert.deepEqual([error.code, error.reason], [409, "Conflict"]);
      const message = "the object has been modified; please apply your changes to the latest version and try again";
      assert.equal(error.message, `Operation cannot be fulfilled on statefulsets.apps "set": ${message}`);
      assert.equal((await readStatefulSet(fixture)).spec.replicas, 1);
    },
  },
  {
    name: "a patch of a scale with another uid is 409 Conflict and changes nothing",
    async run(fixture) {
      const { metadata } = await statefulSetAtRest(fixture);
      const uid = "00000000-0000-4000-8000-000000000000";
      const error = await rejection(patchScale(fixture, { metadata: { uid }, spec: { replicas: 1 } }));
      assert.deepEqual([error.code, error.reason], [409, "Conflict"]);
      const message = `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${metadata.uid}`;
      assert.equal(error.message, `Operation cannot be fulfilled on statefulsets/scale.apps "set": ${message}`);
      assert.equal((await readStatefulSet(fixture)).metadata.resourceVersion, metadata.resourceVersion);
    },
  },
  {
    name: "a patch of a scale changes only the replicas, whatever else it contains",
    async run(fixture) {
      const { metadata } = await statefulSetAtRest(fixture);
      const { uid, generation } = metadata;
      const body = { metadata: { uid, labels: { a: "1" } }, spec: { replicas: 0 }, status: { replicas: 7 } };
      assert.equal((await patchScale(fixture, body)).status?.replicas, 0);
      const after = await readStatefulSet(fixture);
      // The revision may still grow, because the API server notes who has written which field.
      assert.deepEqual([after.metadata.generation, after.metadata.labels], [generation, undefined]);
    },
  },
  {
    name: "a negative number of replicas is 422, another name is 400",
    async run(fixture) {
      await createStatefulSet(fixture, { replicas: 1 });
      const negative = await rejection(patchScale(fixture, { spec: { replicas: -1 } }));
      assert.deepEqual([negative.code, negative.reason], [422, "Invalid"]);
      const message = "spec.replicas: Invalid value: -1: must be greater than or equal to 0";
      assert.equal(negative.message, `Scale.autoscaling "set" is invalid: ${message}`);
      const other = await rejection(patchScale(fixture, { metadata: { name: "other" }, spec: { replicas: 2 } }));
      assert.deepEqual([other.code, other.reason], [400, "BadRequest"]);
    },
  },
  {
    name: "of many conditional patches of one scale, one succeeds and the others are 409",
    async run(fixture) {
      const { resourceVersion } = (await statefulSetAtRest(fixture)).metadata;
      const patches = [2, 3, 4, 5].map((replicas) =>
        patchScale(fixture, { metadata: { resourceVersion }, spec: { replicas } }),
      );
      const outcomes = await Promise.allSettled(patches);
      assert.equal(outcomes.filter(({ status }) => status === "fulfilled").length, 1);
      const codes = outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason.code] : []));
      assert.deepEqual(codes, [409, 409, 409]);
    },
  },
];

const deletions: readonly Case[] = [
  {
    name: "a pod that is deleted without a grace period is gone at once",
    async run(fixture) {
      await createPod(fixture, "pod");
      const { uid } = (await readyPod(fixture, "pod")).metadata;
      const key = { namespace: fixture.namespace, name: "pod" };
      await fixture.cluster.delete("pods", key, { uid }, { gracePeriodSeconds: 0 });
      assert.equal((await rejection(fixture.cluster.get("pods", key))).code, 404);
    },
  },
  {
    name: "a deletion sets a pod's grace period, and a later one may shorten but never lengthen it",
    async run(fixture) {
      await createPod(fixture, "pod", { annotations: { "test.sluice.dev/gone-after-ms": "60000" } });
      const { uid } = (await readyPod(fixture, "pod")).metadata;
      const key = { namespace: fixture.namespace, name: "pod" };
      const leftMs = async (gracePeriodSeconds: number) => {
        await fixture.cluster.delete("pods", key, { uid }, { gracePeriodSeconds });
        const { metadata } = await fixture.cluster.get("pods", key);
        return Date.parse(metadata.deletionTimestamp ?? "") - fixture.cluster.serverTimeMs();
      };
      const first = await leftMs(600);
      assert.ok(first > 590_000 && first < 602_000, `${first} ms`);
      const shorter = await leftMs(300);
      assert.ok(shorter > 290_000 && shorter < 302_000, `${shorter} ms`);
      const longer = await leftMs(900);
      assert.ok(longer > 290_000 && longer < 302_000, `${longer} ms`);
    },
  },
  {
    name: "a deletion without a grace period still has its preconditions: another uid is 409",
    async run(fixture) {
      await createPod(fixture, "pod");
      await readyPod(fixture, "pod");
      const key = { namespace: fixture.namespace, name: "pod" };
      const uid = "00000000-0000-4000-8000-000000000000";
      const error = await rejection(fixture.cluster.delete("pods", key, { uid }, { gracePeriodSeconds: 0 }));
      assert.deepEqual([error.code, error.reason], [409, "Conflict"]);
      assert.equal((await fixture.cluster.get("pods", key)).metadata.deletionTimestamp, undefined);
    },
  },
  {
    name: "an orphaning deletion of a StatefulSet leaves its pods, without their owner; one in the background takes them",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      const key = { namespace, name: "set" };
      const created = await createStatefulSet(fixture, { replicas: 1 });
      await settledStatefulSet(fixture);
      const [before] = await podsOf(fixture);
      await cluster.delete("statefulsets", key, { uid: created.metadata.uid }, { propagationPolicy: "Orphan" });
      await goneSet(fixture);
      const [after] = await podsOf(fixture);
      assert.equal(after?.metadata.uid, before?.metadata.uid);
      assert.deepEqual([after?.metadata.ownerReferences ?? [], after?.metadata.deletionTimestamp], [[], undefined]);

      const again = await createStatefulSet(fixture, { replicas: 1 });
      await settledStatefulSet(fixture);
      await cluster.delete("statefulsets", key, { uid: again.metadata.uid }, { propagationPolicy: "Background" });
      await goneSet(fixture);
      await gonePod(fixture, "set-0");
    },
  },
];

export const scaleCases: readonly Case[] = [...scales, ...deletions];

function getScale({ cluster, namespace }: Fixture): Promise<ScaleObject> {
  return cluster.get("statefulsets", { namespace, name: "set" }, { subresource: "scale" });
}

function patchScale({ cluster, namespace }: Fixture, body: object): Promise<ScaleObject> {
  return cluster.patch("statefulsets", { namespace, name: "set" }, body, { subresource: "scale" });
}

async function goneSet(fixture: Fixture): Promise<void> {
  await eventually(
    "the end of the StatefulSet",
    () => readStatefulSet(fixture).then(() => false, isGone),
    (gone) => gone,
  );
}
