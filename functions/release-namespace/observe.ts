/** What is read of a namespace: whether it is being deleted, and then what in it has a finalizer of ours. */

import type { Context } from "../shared/contract/context.ts";
import type { ObjectRef } from "../shared/contract/keys.ts";
import {
  isKnown,
  type OtherObject,
  type PvcObject,
  type Resource,
  type StatefulSetObject,
} from "../shared/kubernetes/cluster.ts";
import { find, listIfServed } from "../shared/kubernetes/find.ts";
import { ownerResources } from "../shared/reconcile/owner-kinds.ts";
import { outlivesNamespace } from "../shared/suspension/outlives-namespace.ts";
import { parsePvc } from "../shared/volumes/pvc.ts";
import { parseSuspendableSet, type SuspendableSet } from "../shared/volumes/suspendable-set.ts";
import { type KeptObject, type NamespaceSnapshot, ourFinalizers } from "./decide.ts";

export const name = "release-namespace";

/** The namespaces that are being deleted. Throws ClusterError. */
export async function listKeys({ cluster, namespaces }: Context): Promise<readonly ObjectRef[]> {
  const found =
    namespaces === undefined
      ? (await cluster.list("namespaces", {})).items
      : (await Promise.all(namespaces.map((one) => find(cluster, "namespaces", { namespace: "", name: one })))).filter(
          (one) => one !== undefined,
        );
  return found
    .filter(({ metadata }) => metadata.deletionTimestamp !== undefined)
    .map((one): ObjectRef => ({ resource: "namespaces", namespace: "", name: one.metadata.name }));
}

/** All of it by reads of now. Throws ClusterError. */
export async function observe(context: Context, key: ObjectRef): Promise<NamespaceSnapshot> {
  const { cluster, namespaces } = context;
  const isServed = namespaces === undefined || namespaces.includes(key.name);
  const object = isServed ? await find(cluster, "namespaces", { namespace: "", name: key.name }) : undefined;
  const endingSinceMs = Date.parse(object?.metadata.deletionTimestamp ?? "");
  if (Number.isNaN(endingSinceMs)) return { nowMs: cluster.serverTimeMs(), endingSinceMs: undefined, kept: [] };
  const types: readonly Resource[] = ["persistentvolumeclaims", ...(await ownerResources(context, name))];
  const lists = await Promise.all(
    types.map(async (resource) => ({ resource, items: await listIfServed(cluster, resource, key.name) })),
  );
  const sets = lists
    .filter(({ resource }) => resource === "statefulsets")
    .flatMap(({ items }) => items.map((one) => parseSuspendableSet(one as StatefulSetObject)));
  const kept = lists.flatMap(({ resource, items }) => keptIn(resource, items, sets));
  return { nowMs: cluster.serverTimeMs(), endingSinceMs, kept };
}

function keptIn(
  resource: Resource,
  items: readonly OtherObject[],
  sets: readonly SuspendableSet[],
): readonly KeptObject[] {
  return items
    .filter(({ metadata }) => metadata.finalizers?.some((one) => ourFinalizers.includes(one)))
    .map((object): KeptObject => {
      const { name: itsName, finalizers = [] } = object.metadata;
      const pvc = resource === "persistentvolumeclaims" ? parsePvc(object as PvcObject) : undefined;
      const isKept = pvc !== undefined && outlivesNamespace(pvc, sets);
      const kind = isKnown(resource) ? resource : (object.kind ?? resource);
      return { resource, object, pvc, shown: `${kind} ${itsName}`, finalizers, isKept };
    });
}
