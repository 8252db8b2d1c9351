/** Namespaces: how they end, and what ends with them. */
import assert from "node:assert/strict";
import type { NamespaceObject } from "../../functions/shared/kubernetes/cluster.ts";
import { rejection } from "../support/rejection.ts";
import {
  type Case,
  createLease,
  createPod,
  createStatefulSet,
  eventually,
  type Fixture,
  isGone,
  settledStatefulSet,
} from "./fixture.ts";

/** The namespace controller reconciles again after half of the pods' remaining grace period. */
const slowMs = 45_000;
const finalizers = ["sluice.dev/contract"];

export const namespaceCases: readonly Case[] = [
  {
    name: "a new namespace is Active, and is labelled with its name",
    async run(fixture) {
      const { metadata, status } = (await ownNamespace(fixture)).made;
      assert.equal(metadata.labels?.["kubernetes.io/metadata.name"], metadata.name);
      assert.deepEqual([status?.phase, metadata.namespace], ["Active", undefined]);
    },
  },
  {
    name: "a deleted namespace takes its objects with it, and is gone when they are",
    async run(fixture) {
      const { own, made } = await ownNamespace(fixture);
      await createLease(own, "lease");
      await createLease(fixture, "lease");
      await createStatefulSet(own, { replicas: 1 });
      await settledStatefulSet(own);
      await remove(own, made);
      await gone(own);
      const { cluster, namespace } = own;
      assert.equal((await rejection(cluster.get("leases", { namespace, name: "lease" }))).code, 404);
      assert.deepEqual((await cluster.list("pods", { namespace })).items, []);
      assert.deepEqual((await cluster.list("statefulsets", { namespace })).items, []);
      // Objects of other namespaces stay.
      await cluster.get("leases", { namespace: fixture.namespace, name: "lease" });
    },
  },
  {
    name: "while a namespace terminates nothing can be created in it (403), but existing objects can be changed",
    async run(fixture) {
      const { own, made } = await ownNamespace(fixture);
      const { cluster, namespace } = own;
      const key = { namespace, name: "held" };
      await cluster.create("configmaps", namespace, { metadata: { name: "held", finalizers } });
      await remove(own, made);
      await eventually(
        "the deletion of what is in it",
        () => cluster.get("configmaps", key),
        ({ metadata }) => metadata.deletionTimestamp !== undefined,
      );
      const { metadata, status } = await read(own);
      assert.deepEqual([metadata.deletionTimestamp !== undefined, status?.phase], [true, "Terminating"]);

      const itself = { namespace: "", name: namespace };
      await cluster.patch("namespaces", itself, { metadata: { annotations: { a: "1" } } });
      assert.equal((await read(own)).metadata.uid, made.metadata.uid);
      const error = await rejection(createLease(own, "lease"));
      assert.deepEqual([error.code, error.reason], [403, "Forbidden"]);
      const why = `unable to create new content in namespace ${namespace} because it is being terminated`;
      assert.equal(error.message, `leases.coordination.k8s.io "lease" is forbidden: ${why}`);

      await cluster.patch("configmaps", key, { metadata: { annotations: { a: "1" } } });
      await cluster.patch("configmaps", key, { metadata: { finalizers: null } });
      await gone(own);
    },
  },
  {
    name: "the pods of a deleted namespace go first, five seconds later, and nothing else goes before them",
    async run(fixture) {
      const { own, made } = await ownNamespace(fixture);
      const { cluster, namespace } = own;
      await createLease(own, "lease");
      const kept = { namespace, name: "held" };
      await createPod(own, kept.name);
      await cluster.patch("pods", kept, { metadata: { finalizers } });
      const removedMs = performance.now();
      await remove(own, made);
      await eventually(
        "the deletion of the pod",
        () => cluster.get("pods", kept),
        ({ metadata }) => metadata.deletionTimestamp !== undefined,
      );
      assert.ok(performance.now() - removedMs > 4_000);
      await cluster.sleep(1_000);
      // The lease has no finalizer, so it would be gone.
      await cluster.get("leases", { namespace, name: "lease" });
      await cluster.patch("pods", kept, { metadata: { finalizers: null } });
      await gone(own);
    },
  },
  {
    name: "a finalizer keeps a namespace that is empty, and still nothing is created in it",
    async run(fixture) {
      const { own, made } = await ownNamespace(fixture, finalizers);
      const { cluster, namespace } = own;
      await createLease(own, "lease");
      await remove(own, made);
      await eventually(
        "an empty namespace",
        async () => (await cluster.list("leases", { namespace })).items,
        (items) => items.length === 0,
      );
      await cluster.sleep(300);
      assert.equal((await read(own)).status?.phase, "Terminating");
      assert.equal((await rejection(createLease(own, "lease"))).code, 403);
      await cluster.patch("namespaces", { namespace: "", name: namespace }, { metadata: { finalizers: null } });
      await gone(own);
    },
  },
];

/** A namespace that the case may delete, in place of the fixture's. */
async function ownNamespace(
  fixture: Fixture,
  finalizers: readonly string[] = [],
): Promise<{ own: Fixture; made: NamespaceObject }> {
  const name = `${fixture.namespace}-own`;
  const made = await fixture.cluster.create("namespaces", "", { metadata: { name, finalizers } });
  return { own: { ...fixture, namespace: name }, made };
}

function read({ cluster, namespace }: Fixture): Promise<NamespaceObject> {
  return cluster.get("namespaces", { namespace: "", name: namespace });
}

async function remove({ cluster }: Fixture, { metadata: { name, uid } }: NamespaceObject): Promise<void> {
  await cluster.delete("namespaces", { namespace: "", name }, { uid });
}

async function gone(fixture: Fixture): Promise<void> {
  await eventually(
    "the end of the namespace",
    () => read(fixture).then(() => false, isGone),
    (isOver) => isOver,
    slowMs,
  );
}
