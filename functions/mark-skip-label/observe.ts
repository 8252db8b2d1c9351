/** The observation of an owner: itself, its namespace, and its pods if they may have to be let go. */

import type { SkipLabel } from "../shared/annotations/skip-labels.ts";
import type { Malformed } from "../shared/annotations/table.ts";
import { valuesOf } from "../shared/base/settings.ts";
import type { Context } from "../shared/contract/context.ts";
import type { ObjectRef } from "../shared/contract/keys.ts";
import { isKnown, type OtherObject, type Resource, resources } from "../shared/kubernetes/cluster.ts";
import { find, isNamespaceEnding as readNamespaceEnding } from "../shared/kubernetes/find.ts";
import { ownerResources } from "../shared/reconcile/owner-kinds.ts";
import { isLetGo, needsMembers, type OwnerSnapshot, type ReleasedOwner } from "./decide.ts";
import { seeMarkers } from "./markers.ts";
import { findMembers } from "./members.ts";
import { listOwners, parseOwner, settings } from "./owners.ts";

export const name = "mark-skip-label";

/** A label that was refused is tried again after this, in milliseconds. */
export const labelRefusedForMs = 5_000;

/** How soon objects are reconciled again whose changes do not trigger this function, in milliseconds. */
const unwatchedRequeueMs = 15_000;

/** An owner as it was read, and what a decision makes of it. */
export interface OwnerObservation {
  readonly snapshot: OwnerSnapshot;
  /** Undefined where it is gone. */
  readonly object: OtherObject | undefined;
  readonly malformed: readonly Malformed[];
  /** How soon to reconcile again where the verdict does not say, in milliseconds. */
  readonly requeueAfterMs: number | undefined;
}

/** The owners of a namespace, or of all. Throws ClusterError. */
export async function listKeys(context: Context, namespace: string | undefined): Promise<readonly ObjectRef[]> {
  return listOwners(context.cluster, await ownerResources(context, name), namespace);
}

/** Everything by fresh reads, because an event is only a hint. Throws ClusterError. */
export async function observe(context: Context, key: ObjectRef): Promise<OwnerObservation> {
  const { cluster } = context;
  const { skipLabelWaitMs, skipLabelFinalizer, skipLabelKeys } = valuesOf(settings, context.settings);
  const [object, isNamespaceEnding] = await Promise.all([
    find(cluster, key.resource, key),
    readNamespaceEnding(cluster, key.namespace),
  ]);
  const asked =
    object && parseOwner(key.resource, object, `${kindOf(key.resource, object)} ${key.name}`, skipLabelKeys);
  const around = { isNamespaceEnding, keepsFinalizers: skipLabelFinalizer === "keep", waitMs: skipLabelWaitMs };
  if (object === undefined || asked === undefined) {
    const snapshot = { ...around, nowMs: cluster.serverTimeMs(), owner: undefined, members: [] };
    return { snapshot, object: undefined, malformed: [], requeueAfterMs: undefined };
  }
  const { owner, malformed } = asked;
  const members = needsMembers(owner, isNamespaceEnding)
    ? await findMembers(cluster, {
        namespace: key.namespace,
        uid: object.metadata.uid,
        resources: await ownerResources(context, name),
        label: labelOf(owner, isNamespaceEnding),
        refusalOf: (uid) => refusalOf(context, key, uid),
      })
    : [];
  const checked = owner.deletedMs === undefined ? members : await seeMarkers(context, key, members, skipLabelWaitMs);
  const snapshot = { ...around, nowMs: cluster.serverTimeMs(), owner, members: checked };
  const requeueAfterMs = key.resource === "rabbitmqclusters" || !owner.hasOurFinalizer ? undefined : unwatchedRequeueMs;
  return { snapshot, object, malformed, requeueAfterMs };
}

/** The label that counts now: the one that pods get, or the one that they got. */
function labelOf(owner: ReleasedOwner, isNamespaceEnding: boolean): SkipLabel | undefined {
  if (isLetGo(owner, isNamespaceEnding)) return owner.label;
  const key = owner.status?.label;
  return key === undefined ? undefined : { key, value: undefined };
}

function refusalOf({ memoryOf, cluster }: Context, key: ObjectRef, uid: string): string | undefined {
  const refused = memoryOf(key).refusals.get(uid);
  const isRecent = refused !== undefined && cluster.serverTimeMs() - refused.stampMs < labelRefusedForMs;
  return isRecent ? refused.message : undefined;
}

export function kindOf(resource: Resource, { kind = resource }: OtherObject): string {
  return isKnown(resource) ? resources[resource].kind : kind;
}
