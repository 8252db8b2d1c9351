/**
 * The volume claims of a StatefulSet's pods, and their owners by the retention policy, as the StatefulSet controller of
 * kube-controller-manager 1.36 does it (pkg/controller/statefulset/stateful_pod_control.go, stateful_set_utils.go).
 */

import type { OwnerReference } from "../../functions/shared/kubernetes/cluster.ts";
import { internalError } from "./api-errors.ts";
import type { StoredPod, StoredStatefulSet } from "./objects.ts";
import { claimName, claimTemplatesOf, controllerReference, ordinalOf } from "./statefulset-revisions.ts";
import type { Store } from "./store.ts";

type Owner = { readonly apiVersion: string; readonly kind: string; readonly name: string; readonly uid: string };

/**
 * Creates the missing claims of an ordinal.
 *
 * @throws ApiStatusError if one is being deleted: its pod must wait until the name is free.
 */
export function makeClaims(store: Store, set: StoredStatefulSet, ordinal: number): void {
  const { namespace } = set.metadata;
  for (const template of claimTemplatesOf(set)) {
    const name = claimName(set, template, ordinal);
    const claim = store.find("persistentvolumeclaims", { namespace, name });
    if (claim?.metadata.deletionTimestamp !== undefined) {
      throw internalError("create", "persistentvolumeclaims", `pvc ${name} is being deleted`);
    }
    if (claim !== undefined) continue;
    const { labels, annotations } = template.metadata;
    store.create("persistentvolumeclaims", namespace, {
      metadata: {
        name,
        labels: { ...labels, ...set.spec.selector.matchLabels },
        ...(annotations === undefined ? undefined : { annotations }),
      },
      spec: template.spec,
    });
  }
}

/** True if a claim is about to go with an earlier pod of that name: no pod is created until it has gone. */
export function isClaimStale(store: Store, set: StoredStatefulSet, ordinal: number): boolean {
  if (set.spec.persistentVolumeClaimRetentionPolicy?.whenScaled !== "Delete") return false;
  const { namespace } = set.metadata;
  const pod = { apiVersion: "v1", kind: "Pod", name: `${set.metadata.name}-${ordinal}`, uid: "" };
  return claimTemplatesOf(set).some((template) => {
    const claim = store.find("persistentvolumeclaims", { namespace, name: claimName(set, template, ordinal) });
    return claim?.metadata.ownerReferences?.some((reference) => names(reference, pod)) ?? false;
  });
}

/** Gives the claims of a pod the owners that the set's retention policy wants. Owners from other clients stay. */
export function ownClaims(store: Store, set: StoredStatefulSet, pod: StoredPod): void {
  const { namespace, name, uid } = set.metadata;
  const owners: readonly Owner[] = [
    { apiVersion: "apps/v1", kind: "StatefulSet", name, uid },
    { apiVersion: "v1", kind: "Pod", name: pod.metadata.name, uid: pod.metadata.uid },
  ];
  const ordinal = ordinalOf(set, pod.metadata.name);
  for (const template of claimTemplatesOf(set)) {
    const key = { namespace, name: claimName(set, template, ordinal) };
    const claim = store.find("persistentvolumeclaims", key);
    const before = claim?.metadata.ownerReferences ?? [];
    const isStale = before.some((one) => owners.some((owner) => names(one, owner) && one.uid !== owner.uid));
    if (claim === undefined || isStale) continue;
    const others = before.filter((one) => !owners.some((owner) => names(one, owner)));
    const wanted = others.some(({ controller }) => controller) ? undefined : ownerOf(set, pod, ordinal);
    const isOwned = before.some(({ uid: owner, controller }) => owner === wanted?.uid && controller === true);
    if (before.length === others.length + (wanted === undefined ? 0 : 1) && (wanted === undefined || isOwned)) continue;
    const ownerReferences = wanted === undefined ? others : [...others, wanted];
    store.patch("persistentvolumeclaims", key, { metadata: { ownerReferences } });
  }
}

/** The owner with which a claim goes: the set, or a pod that is scaled away; undefined if there is none. */
function ownerOf(set: StoredStatefulSet, pod: StoredPod, ordinal: number): OwnerReference | undefined {
  const { whenDeleted, whenScaled } = set.spec.persistentVolumeClaimRetentionPolicy ?? {};
  const start = set.spec.ordinals?.start ?? 0;
  const isWanted = ordinal >= start && ordinal < start + set.spec.replicas;
  if (!isWanted && whenScaled === "Delete") {
    const { name, uid } = pod.metadata;
    return { apiVersion: "v1", kind: "Pod", name, uid, controller: true, ...{ blockOwnerDeletion: true } };
  }
  return whenDeleted === "Delete" ? (controllerReference(set) as OwnerReference) : undefined;
}

function names(reference: OwnerReference, owner: Owner): boolean {
  return reference.apiVersion === owner.apiVersion && reference.kind === owner.kind && reference.name === owner.name;
}
