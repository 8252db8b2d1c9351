/** What is read of a namespace: whether it is being deleted, and then what in it has a finalizer of ours. */

import { releaseFinalizer } from "../shared/annotations/skip-labels.ts";
import { volumeHold, volumeProtection } from "../shared/annotations/suspension.ts";
import { valuesOf } from "../shared/base/settings.ts";
import type { Context } from "../shared/contract/context.ts";
import type { ObjectRef } from "../shared/contract/keys.ts";
import { isNewEvent } from "../shared/events/recorder.ts";
import {
  isKnown,
  type OtherObject,
  type PvcObject,
  type Resource,
  type StatefulSetObject,
} from "../shared/kubernetes/cluster.ts";
import { find, listIfServed } from "../shared/kubernetes/find.ts";
import { ownerResources, skipLabelKindsSetting } from "../shared/kubernetes/owner-kinds.ts";
import { outlivesNamespace } from "../shared/suspension/outlives-namespace.ts";
import { type Pvc, parsePvc } from "../shared/volumes/pvc.ts";
import { parseSuspendableSet, type SuspendableSet } from "../shared/volumes/suspendable-set.ts";
import type { FinalizedObject, NamespaceSnapshot, Ours } from "./decide.ts";

export const name = "release-namespace";

export const settings = { skipLabelKinds: skipLabelKindsSetting };

export const ours: Ours = { atOnce: [volumeHold, volumeProtection], afterLabels: releaseFinalizer };

/** An object as it was read. */
export interface HeldObject extends FinalizedObject {
  readonly resource: Resource;
  readonly object: OtherObject;
  /** Undefined for an owner. */
  readonly pvc: Pvc | undefined;
}

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
export async function observe(context: Context, key: ObjectRef): Promise<NamespaceSnapshot<HeldObject>> {
  const { cluster, namespaces } = context;
  const isServed = namespaces === undefined || namespaces.includes(key.name);
  const object = isServed ? await find(cluster, "namespaces", { namespace: "", name: key.name }) : undefined;
  const endingSinceMs = Date.parse(object?.metadata.deletionTimestamp ?? "");
  if (Number.isNaN(endingSinceMs)) return { nowMs: cluster.serverTimeMs(), endingSinceMs: undefined, held: [] };
  const types: readonly Resource[] = ["persistentvolumeclaims", ...(await typesOf(context))];
  const lists = await Promise.all(
    types.map(async (resource) => ({ resource, items: await listIfServed(cluster, resource, key.name) })),
  );
  const sets = lists
    .filter(({ resource }) => resource === "statefulsets")
    .flatMap(({ items }) => items.map((one) => parseSuspendableSet(one as StatefulSetObject)));
  const held = lists.flatMap(({ resource, items }) => heldIn(resource, items, sets));
  return { nowMs: cluster.serverTimeMs(), endingSinceMs, held };
}

function heldIn(
  resource: Resource,
  items: readonly OtherObject[],
  sets: readonly SuspendableSet[],
): readonly HeldObject[] {
  const all = [...ours.atOnce, ours.afterLabels];
  return items
    .filter(({ metadata }) => metadata.finalizers?.some((one) => all.includes(one)))
    .map((object): HeldObject => {
      const { name: itsName, finalizers = [] } = object.metadata;
      const pvc = resource === "persistentvolumeclaims" ? parsePvc(object as PvcObject) : undefined;
      const isKept = pvc !== undefined && outlivesNamespace(pvc, sets);
      const kind = isKnown(resource) ? resource : (object.kind ?? resource);
      return { resource, object, pvc, shown: `${kind} ${itsName}`, finalizers, isKept };
    });
}

/** The types of owners. One that is listed and not served is said once. Throws ClusterError. */
function typesOf(context: Context): Promise<readonly Resource[]> {
  const { skipLabelKinds } = valuesOf(settings, context.settings);
  return ownerResources(context.cluster, skipLabelKinds, ({ message }) => {
    const key = { namespace: "", group: "" };
    if (isNewEvent(context, key, message)) context.reporter.problem(key, name, `SKIP_LABEL_KINDS: ${message}`);
  });
}
