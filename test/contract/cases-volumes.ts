/** Volumes: which claim gets which volume, and what happens to one when the other goes. */
import assert from "node:assert/strict";
import type { PvcObject, VolumeObject } from "../../functions/shared/kubernetes/cluster.ts";
import { type Case, eventually, type Fixture, isGone } from "./fixture.ts";

const claims = "persistentvolumeclaims";
const volumes = "persistentvolumes";

export const volumeCases: readonly Case[] = [
  {
    name: "a claim is bound to the smallest sufficient volume of its class, and each names the other",
    async run(fixture) {
      for (const storage of ["1Gi", "20Gi", "8Gi"]) await createVolume(fixture, storage.toLowerCase(), { storage });
      await createVolume(fixture, "other", { storage: "5Gi", storageClassName: "other" });
      await createClaim(fixture, "claim", { storage: "5Gi" });
      const claim = await claimIn(fixture, "claim", "Bound");
      assert.equal(claim.spec?.volumeName, nameOf(fixture, "8gi"));
      const { spec } = await volumeIn(fixture, "8gi", "Bound");
      const { namespace, name, uid } = spec?.claimRef ?? {};
      assert.deepEqual([namespace, name, uid], [fixture.namespace, "claim", claim.metadata.uid]);
      for (const other of ["1gi", "20gi", "other"]) await volumeIn(fixture, other, "Available");
    },
  },
  {
    name: "a claim without a suitable volume is Pending until one comes, which may name the claim",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      await createVolume(fixture, "small", { storage: "1Gi" });
      const kept = { kind: "PersistentVolumeClaim", apiVersion: "v1", namespace, name: "later" };
      await createVolume(fixture, "kept", { storage: "9Gi", claimRef: kept });
      await createClaim(fixture, "claim", { storage: "5Gi" });
      await cluster.sleep(500);
      assert.equal((await claimIn(fixture, "claim", "Pending")).spec?.volumeName, undefined);
      await createClaim(fixture, "later", { storage: "5Gi" });
      assert.equal((await claimIn(fixture, "later", "Bound")).spec?.volumeName, nameOf(fixture, "kept"));
      await postVolume(fixture, "big", { storage: "5Gi" });
      assert.equal((await claimIn(fixture, "claim", "Bound")).spec?.volumeName, nameOf(fixture, "big"));
    },
  },
  {
    name: "a volume whose claim is gone is Released, and no claim of the same name gets it",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      const made = await createVolume(fixture, "volume", { storage: "1Gi" });
      await createClaim(fixture, "claim", { storage: "1Gi" });
      const { metadata } = await claimIn(fixture, "claim", "Bound");
      await cluster.delete(claims, { namespace, name: "claim" }, { uid: metadata.uid });
      const released = await volumeIn(fixture, "volume", "Released");
      assert.deepEqual([released.metadata.uid, released.spec?.claimRef?.uid], [made.metadata.uid, metadata.uid]);
      await createClaim(fixture, "claim", { storage: "1Gi" });
      await cluster.sleep(500);
      await claimIn(fixture, "claim", "Pending");
      await volumeIn(fixture, "volume", "Released");
    },
  },
  {
    name: "a deleted volume stays while a claim is bound to it, and goes without one",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      const used = await createVolume(fixture, "used", { storage: "1Gi" });
      await createClaim(fixture, "claim", { storage: "1Gi" });
      const claim = await claimIn(fixture, "claim", "Bound");
      await volumeIn(fixture, "used", "Bound");
      const free = await createVolume(fixture, "free", { storage: "1Gi" });
      for (const { metadata } of [used, free]) await cluster.delete(volumes, key(metadata.name), { uid: metadata.uid });
      await gone(fixture, "free");
      const { metadata } = await volumeIn(fixture, "used", "Bound");
      assert.notEqual(metadata.deletionTimestamp, undefined);
      await claimIn(fixture, "claim", "Bound");
      await cluster.delete(claims, { namespace, name: "claim" }, { uid: claim.metadata.uid });
      await gone(fixture, "used");
    },
  },
];

/** Volumes belong to the whole cluster, so each case has names and a storage class of its own. */
function nameOf({ namespace }: Fixture, name: string): string {
  return `${namespace}-${name}`;
}

function key(name: string): { readonly namespace: ""; readonly name: string } {
  return { namespace: "", name };
}

interface VolumeChoices {
  readonly storage: string;
  readonly storageClassName?: string;
  readonly claimRef?: object;
}

async function postVolume(fixture: Fixture, name: string, { storage, ...more }: VolumeChoices): Promise<void> {
  const { cluster, namespace } = fixture;
  const common = { accessModes: ["ReadWriteOnce"], storageClassName: namespace, hostPath: { path: "/nowhere" } };
  const spec = { capacity: { storage }, ...common, ...more };
  await cluster.create(volumes, "", { metadata: { name: nameOf(fixture, name) }, spec });
}

/** A volume that its controller has processed, and that no claim is bound to yet. */
async function createVolume(fixture: Fixture, name: string, choices: VolumeChoices): Promise<VolumeObject> {
  await postVolume(fixture, name, choices);
  return await volumeIn(fixture, name, "Available");
}

async function createClaim({ cluster, namespace }: Fixture, name: string, requests: object): Promise<void> {
  const spec = { accessModes: ["ReadWriteOnce"], storageClassName: namespace, resources: { requests } };
  await cluster.create(claims, namespace, { metadata: { name }, spec });
}

function claimIn({ cluster, namespace }: Fixture, name: string, phase: string): Promise<PvcObject> {
  return eventually(
    `claim ${name} ${phase}`,
    () => cluster.get(claims, { namespace, name }),
    ({ status }) => status?.phase === phase,
  );
}

function volumeIn(fixture: Fixture, name: string, phase: string): Promise<VolumeObject> {
  return eventually(
    `volume ${name} ${phase}`,
    () => fixture.cluster.get(volumes, key(nameOf(fixture, name))),
    ({ status }) => status?.phase === phase,
  );
}

async function gone(fixture: Fixture, name: string): Promise<void> {
  await eventually(
    `the end of volume ${name}`,
    () => fixture.cluster.get(volumes, key(nameOf(fixture, name))).then(() => false, isGone),
    (isOver) => isOver,
  );
}
