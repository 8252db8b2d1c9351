/** What happens to objects of any type when their owner goes: the work of the garbage collector. */
import assert from "node:assert/strict";
import type { ConfigMapObject } from "../../functions/shared/kubernetes/cluster.ts";
import { type Case, eventually, type Fixture, isGone } from "./fixture.ts";

type Policy = "Background" | "Foreground" | "Orphan";

const leaving: readonly Case[] = [
  {
    name: "Background: an owner is gone at once, and its dependents, and theirs, soon after",
    async run(fixture) {
      const owner = await make(fixture, "owner");
      const middle = await make(fixture, "middle", [owner]);
      await make(fixture, "leaf", [middle]);
      await make(fixture, "foreign");
      await remove(fixture, owner, "Background");
      assert.equal(await isThere(fixture, "owner"), false);
      await gone(fixture, "middle");
      await gone(fixture, "leaf");
      assert.equal(await isThere(fixture, "foreign"), true);
    },
  },
  {
    name: "Foreground: a deleted owner stays until the dependents that block its deletion are gone",
    async run(fixture) {
      const owner = await make(fixture, "owner");
      await make(fixture, "held", [owner], { finalizers: ["sluice.dev/contract"], blockOwnerDeletion: true });
      await remove(fixture, owner, "Foreground");
      const kept = await eventually(
        "a deleted dependent",
        () => read(fixture, "held"),
        ({ metadata }) => metadata.deletionTimestamp !== undefined,
      );
      await fixture.cluster.sleep(300);
      const { metadata } = await read(fixture, "owner");
      assert.notEqual(metadata.deletionTimestamp, undefined);
      assert.deepEqual((metadata as { finalizers?: readonly string[] }).finalizers, ["foregroundDeletion"]);
      await free(fixture, kept);
      await gone(fixture, "held");
      await gone(fixture, "owner");
    },
  },
  {
    name: "Foreground: an owner does not wait for dependents that do not block its deletion",
    async run(fixture) {
      const owner = await make(fixture, "owner");
      const kept = await make(fixture, "held", [owner], { finalizers: ["sluice.dev/contract"] });
      await remove(fixture, owner, "Foreground");
      await gone(fixture, "owner");
      await eventually(
        "a deleted dependent",
        () => read(fixture, "held"),
        ({ metadata }) => metadata.deletionTimestamp !== undefined,
      );
      await free(fixture, kept);
      await gone(fixture, "held");
    },
  },
  {
    name: "Orphan: the dependents stay, without an owner",
    async run(fixture) {
      const owner = await make(fixture, "owner");
      const child = await make(fixture, "child", [owner]);
      await remove(fixture, owner, "Orphan");
      await gone(fixture, "owner");
      await fixture.cluster.sleep(300);
      const { metadata } = await read(fixture, "child");
      assert.deepEqual([metadata.uid, metadata.ownerReferences ?? []], [child.metadata.uid, []]);
      assert.equal(metadata.deletionTimestamp, undefined);
    },
  },
  {
    name: "an object with two owners stays while one of them does, and goes with the last",
    async run(fixture) {
      const [first, second] = [await make(fixture, "first"), await make(fixture, "second")];
      await make(fixture, "child", [first, second]);
      await remove(fixture, first, "Background");
      const { metadata } = await eventually(
        "one owner",
        () => read(fixture, "child"),
        (child) => child.metadata.ownerReferences?.length === 1,
      );
      assert.equal(metadata.ownerReferences?.[0]?.uid, second.metadata.uid);
      await remove(fixture, second, "Background");
      await gone(fixture, "child");
    },
  },
];

const missing: readonly Case[] = [
  {
    name: "an object whose owner does not exist, or has another uid, is deleted",
    async run(fixture) {
      const owner = await make(fixture, "owner");
      const uid = "00000000-0000-4000-8000-000000000000";
      await make(fixture, "of-another-uid", [{ metadata: { ...owner.metadata, uid } }]);
      await make(fixture, "of-missing", [{ metadata: { ...owner.metadata, name: "missing", uid } }]);
      await make(fixture, "of-the-owner", [owner]);
      await gone(fixture, "of-another-uid");
      await gone(fixture, "of-missing");
      assert.equal(await isThere(fixture, "of-the-owner"), true);
    },
  },
  {
    name: "an object that gets an owner goes with it, and one that has lost its owner before does not",
    async run(fixture) {
      const { cluster, namespace } = fixture;
      const owner = await make(fixture, "owner");
      await make(fixture, "late");
      await make(fixture, "freed", [owner]);
      const patch = async (name: string, ownerReferences: readonly object[] | null) => {
        await cluster.patch("configmaps", { namespace, name }, { metadata: { ownerReferences } });
      };
      await patch("late", [referenceTo(owner)]);
      await patch("freed", null);
      await remove(fixture, owner, "Background");
      await gone(fixture, "late");
      await cluster.sleep(300);
      assert.equal(await isThere(fixture, "freed"), true);
    },
  },
];

export const ownerCases: readonly Case[] = [...leaving, ...missing];

type Named = Pick<ConfigMapObject, "metadata">;

function referenceTo({ metadata }: Named, blockOwnerDeletion?: boolean): object {
  const { name, uid } = metadata;
  const blocks = blockOwnerDeletion === undefined ? {} : { blockOwnerDeletion };
  return { apiVersion: "v1", kind: "ConfigMap", name, uid, ...blocks };
}

async function make(
  { cluster, namespace }: Fixture,
  name: string,
  owners: readonly Named[] = [],
  options: { readonly finalizers?: readonly string[]; readonly blockOwnerDeletion?: boolean } = {},
): Promise<ConfigMapObject> {
  const { finalizers = [], blockOwnerDeletion } = options;
  const ownerReferences = owners.map((owner) => referenceTo(owner, blockOwnerDeletion));
  return await cluster.create("configmaps", namespace, { metadata: { name, finalizers, ownerReferences } });
}

function read({ cluster, namespace }: Fixture, name: string): Promise<ConfigMapObject> {
  return cluster.get("configmaps", { namespace, name });
}

function isThere(fixture: Fixture, name: string): Promise<boolean> {
  return read(fixture, name).then(
    () => true,
    (error) => !isGone(error),
  );
}

async function gone(fixture: Fixture, name: string): Promise<void> {
  await eventually(
    `the end of ${name}`,
    () => isThere(fixture, name),
    (there) => !there,
  );
}

async function remove({ cluster, namespace }: Fixture, { metadata }: Named, propagationPolicy: Policy): Promise<void> {
  const { name, uid } = metadata;
  await cluster.delete("configmaps", { namespace, name }, { uid }, { propagationPolicy });
}

/** Removes the finalizer that kept an object. */
async function free({ cluster, namespace }: Fixture, { metadata }: Named): Promise<void> {
  await cluster.patch("configmaps", { namespace, name: metadata.name }, { metadata: { finalizers: null } });
}
