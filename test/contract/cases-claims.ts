/** The volume claims of a StatefulSet's pods: who owns them, and how long they stay. */
import assert from "node:assert/strict";
import type { PvcObject } from "../../functions/shared/kubernetes/cluster.ts";
import {
  type Case,
  eventually,
  type Fixture,
  isGone,
  podsOf,
  readStatefulSet,
  readyPod,
  settledStatefulSet,
} from "./fixture.ts";

type Policy = { readonly whenDeleted: "Retain" | "Delete"; readonly whenScaled: "Retain" | "Delete" };

const retained: readonly Case[] = [
  {
    name: "each pod of a StatefulSet has a claim of its own, which has no owner if the policy retains it",
    async run(fixture) {
      await withClaims(fixture, { replicas: 2 });
      const claims = await claimsOf(fixture);
      assert.deepEqual(
        claims.map(({ metadata }) => metadata.name),
        ["data-set-0", "data-set-1"],
      );
      for (const { metadata } of claims) {
        assert.deepEqual([metadata.labels, metadata.ownerReferences ?? []], [{ app: "set" }, []]);
        assert.deepEqual(finalizersOf(metadata), ["kubernetes.io/pvc-protection"]);
      }
      // A list of pods keeps only the claim's name of each volume.
      const pod = await fixture.cluster.get("pods", { namespace: fixture.namespace, name: "set-0" });
      const { volumes } = (pod as unknown as { spec: { volumes: readonly { name: string }[] } }).spec;
      const volume = volumes.find(({ name }) => name === "data");
      assert.deepEqual(volume, { name: "data", persistentVolumeClaim: { claimName: "data-set-0" } });
    },
  },
  {
    name: "a pod that is deleted comes back to the same claim",
    async run(fixture) {
      await withClaims(fixture, { replicas: 1 });
      const [claim] = await claimsOf(fixture);
      const [pod] = await podsOf(fixture);
      assert.ok(claim && pod);
      const key = { namespace: fixture.namespace, name: "set-0" };
      await fixture.cluster.delete("pods", key, { uid: pod.metadata.uid });
      await readyPod(fixture, "set-0", pod.metadata.uid);
      assert.deepEqual(uids(await claimsOf(fixture)), [claim.metadata.uid]);
    },
  },
  {
    name: "Retain: the claims stay when the StatefulSet is scaled, when it grows again, and when it is deleted",
    async run(fixture) {
      await withClaims(fixture, { replicas: 2 });
      const before = uids(await claimsOf(fixture));
      await scale(fixture, 1);
      await podCount(fixture, 1);
      await fixture.cluster.sleep(300);
      assert.deepEqual(uids(await claimsOf(fixture)), before);
      await scale(fixture, 2);
      await settledStatefulSet(fixture);
      assert.deepEqual(uids(await claimsOf(fixture)), before);
      await removeSet(fixture);
      await podCount(fixture, 0);
      await fixture.cluster.sleep(300);
      assert.deepEqual(uids(await claimsOf(fixture)), before);
    },
  },
];

const collected: readonly Case[] = [
  {
    name: "whenScaled Delete: the pod owns its claim as soon as it is scaled away, and the claim goes after it; the others stay",
    async run(fixture) {
      const set = await withClaims(fixture, { replicas: 2, policy: { whenDeleted: "Retain", whenScaled: "Delete" } });
      const [first, second] = await claimsOf(fixture);
      assert.deepEqual([first?.metadata.ownerReferences ?? [], second?.metadata.ownerReferences ?? []], [[], []]);
      await scale(fixture, 1);
      await claimCount(fixture, 1);
      assert.deepEqual(uids(await claimsOf(fixture)), [first?.metadata.uid]);
      assert.equal((await podsOf(fixture)).length, 1);
      await removeSet(fixture, set);
      await podCount(fixture, 0);
      await fixture.cluster.sleep(300);
      assert.deepEqual(uids(await claimsOf(fixture)), [first?.metadata.uid]);
    },
  },
  {
    name: "whenDeleted Delete: the StatefulSet controls its claims, which stay when it is scaled, and go with it",
    async run(fixture) {
      const set = await withClaims(fixture, { replicas: 2, policy: { whenDeleted: "Delete", whenScaled: "Retain" } });
      for (const { metadata } of await claimsOf(fixture)) {
        const [owner, ...others] = metadata.ownerReferences ?? [];
        assert.deepEqual([owner?.kind, owner?.uid, owner?.controller], ["StatefulSet", set.metadata.uid, true]);
        assert.deepEqual(others, []);
      }
      const before = uids(await claimsOf(fixture));
      await scale(fixture, 1);
      await podCount(fixture, 1);
      await fixture.cluster.sleep(300);
      assert.deepEqual(uids(await claimsOf(fixture)), before);
      await removeSet(fixture, set);
      await claimCount(fixture, 0);
    },
  },
  {
    name: "whenDeleted Delete: a StatefulSet that is deleted with Orphan leaves its claims, and they lose their owner",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      const policy = { whenDeleted: "Delete", whenScaled: "Delete" } as const;
      const { metadata } = await withClaims(fixture, { replicas: 1, policy });
      const before = uids(await claimsOf(fixture));
      const key = { namespace, name: "set" };
      await cluster.delete("statefulsets", key, { uid: metadata.uid }, { propagationPolicy: "Orphan" });
      const claims = await eventually(
        "a claim without owner",
        () => claimsOf(fixture),
        ([claim]) => claim !== undefined && (claim.metadata.ownerReferences ?? []).length === 0,
      );
      await cluster.sleep(300);
      assert.deepEqual([uids(claims), uids(await claimsOf(fixture))], [before, before]);
      assert.equal(claims[0]?.metadata.deletionTimestamp, undefined);
    },
  },
  {
    name: "a changed retention policy changes the owners of existing claims",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      const set = await withClaims(fixture, { replicas: 1 });
      const patch = async (policy: Policy) => {
        const spec = { persistentVolumeClaimRetentionPolicy: policy };
        await cluster.patch("statefulsets", { namespace, name: "set" }, { spec });
      };
      const owners = async () => (await claimsOf(fixture)).flatMap(({ metadata }) => metadata.ownerReferences ?? []);
      await patch({ whenDeleted: "Delete", whenScaled: "Retain" });
      const [owner] = await eventually("an owner", owners, (found) => found.length === 1);
      assert.equal(owner?.uid, set.metadata.uid);
      await patch({ whenDeleted: "Retain", whenScaled: "Retain" });
      await eventually("no owner", owners, (found) => found.length === 0);
    },
  },
];

const protectedOnes: readonly Case[] = [
  {
    name: "a deleted claim stays while a pod uses it, and goes with the pod; a new pod gets a new claim",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      await withClaims(fixture, { replicas: 1 });
      const [claim] = await claimsOf(fixture);
      const [pod] = await podsOf(fixture);
      assert.ok(claim && pod);
      const key = { namespace, name: "data-set-0" };
      await cluster.delete("persistentvolumeclaims", key, { uid: claim.metadata.uid });
      await cluster.sleep(300);
      const { metadata } = await cluster.get("persistentvolumeclaims", key);
      assert.deepEqual([metadata.uid, metadata.deletionTimestamp !== undefined], [claim.metadata.uid, true]);
      assert.deepEqual(finalizersOf(metadata), ["kubernetes.io/pvc-protection"]);

      await cluster.delete("pods", { namespace, name: "set-0" }, { uid: pod.metadata.uid });
      await readyPod(fixture, "set-0", pod.metadata.uid);
      const [next] = await claimsOf(fixture);
      assert.ok(next);
      assert.notEqual(next.metadata.uid, claim.metadata.uid);
      assert.equal(next.metadata.deletionTimestamp, undefined);
    },
  },
  {
    name: "a claim that no pod uses is gone soon after its deletion, and a claim with another uid stays: 409",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      const spec = claimSpec();
      const { metadata } = await cluster.create("persistentvolumeclaims", namespace, { metadata: { name: "c" }, spec });
      assert.deepEqual(finalizersOf(metadata), ["kubernetes.io/pvc-protection"]);
      const key = { namespace, name: "c" };
      const uid = "00000000-0000-4000-8000-000000000000";
      const refused = await cluster.delete("persistentvolumeclaims", key, { uid }).catch((error) => error);
      assert.equal(refused.code, 409);
      await cluster.delete("persistentvolumeclaims", key, { uid: metadata.uid });
      await eventually(
        "the end of the claim",
        () => cluster.get("persistentvolumeclaims", key).then(() => false, isGone),
        (gone) => gone,
      );
    },
  },
];

export const claimCases: readonly Case[] = [...retained, ...collected, ...protectedOnes];

function claimSpec(): object {
  return { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } };
}

/** A settled StatefulSet with a claim for each pod. */
async function withClaims(fixture: Fixture, { replicas, policy }: { replicas: number; policy?: Policy }) {
  const { cluster, namespace } = fixture;
  const labels = { app: "set" };
  const containers = [{ name: "app", image: "app:1" }];
  await cluster.create("statefulsets", namespace, {
    metadata: { name: "set" },
    spec: {
      replicas,
      serviceName: "set",
      podManagementPolicy: "Parallel",
      updateStrategy: { type: "OnDelete" },
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { nodeName: "node-1", terminationGracePeriodSeconds: 30, containers } },
      volumeClaimTemplates: [{ metadata: { name: "data" }, spec: claimSpec() }],
      ...(policy === undefined ? {} : { persistentVolumeClaimRetentionPolicy: policy }),
    },
  });
  return await settledStatefulSet(fixture);
}

async function claimsOf({ cluster, namespace }: Fixture): Promise<PvcObject[]> {
  return (await cluster.list("persistentvolumeclaims", { namespace })).items;
}

function uids(claims: readonly PvcObject[]): string[] {
  return claims.map(({ metadata }) => metadata.uid);
}

function finalizersOf(metadata: object): readonly string[] | undefined {
  return (metadata as { readonly finalizers?: readonly string[] }).finalizers;
}

async function scale({ cluster, namespace }: Fixture, replicas: number): Promise<void> {
  await cluster.patch("statefulsets", { namespace, name: "set" }, { spec: { replicas } });
}

async function removeSet(fixture: Fixture, set?: { readonly metadata: { readonly uid: string } }): Promise<void> {
  const { uid } = (set ?? (await readStatefulSet(fixture))).metadata;
  const key = { namespace: fixture.namespace, name: "set" };
  await fixture.cluster.delete("statefulsets", key, { uid }, { propagationPolicy: "Background" });
}

async function podCount(fixture: Fixture, count: number): Promise<void> {
  await eventually(
    `${count} pods`,
    () => podsOf(fixture),
    (pods) => pods.length === count,
  );
}

async function claimCount(fixture: Fixture, count: number): Promise<void> {
  await eventually(
    `${count} claims`,
    () => claimsOf(fixture),
    (claims) => claims.length === count,
  );
}
