/** What is read of a FoundationDBCluster: itself, and after it its volume claims and pods by their labels. */
import { parseVolumeUser } from "../shared/group/suspension/members.ts";
import {
  type Cluster,
  hasCode,
  type Metadata,
  type ObjectKey,
  type OtherObject,
} from "../shared/kubernetes/cluster.ts";
import { valuesOf } from "../shared/objects/settings.ts";
import { clusterName, heldGroups, processGroupId } from "../shared/objects/vocabulary/foundationdb.ts";
import { suspendDuration } from "../shared/objects/vocabulary/suspension.ts";
import { read } from "../shared/objects/vocabulary.ts";
import { parseVolumeClaim } from "../shared/objects/volumes/volume-claim.ts";
import type { Context } from "../shared/pass/definition.ts";
import { volumeHoldSetting } from "../shared/pass/suspension/settings.ts";
import type { ObjectRef } from "../shared/views/keys.ts";
import type { RemovalsSnapshot } from "./decide.ts";
import { type GroupClaim, type GroupPod, parseFoundationCluster } from "./foundation-cluster.ts";

export const name = "hold-process-groups";
export const settings = { volumeHold: volumeHoldSetting };
export const resource = "foundationdbclusters";

/** A cluster as it was read, and what a decision makes of it. */
export interface Observed {
  readonly snapshot: RemovalsSnapshot;
  /** Undefined where it is gone. */
  readonly object: OtherObject | undefined;
}

/** True for a cluster that asks that volumes are kept, or of which something is held. */
function isOfConcern({ metadata: { annotations = {} } }: OtherObject): boolean {
  return [suspendDuration, heldGroups].some(({ key }) => annotations[key] !== undefined);
}

/** The clusters of a namespace, or of all, that are of concern; none where the operator is not installed. Throws ClusterError. */
export async function listKeys({ cluster }: Context, namespace: string | undefined): Promise<readonly ObjectRef[]> {
  const items = await listOrNone(cluster, namespace);
  return items
    .filter(isOfConcern)
    .map(({ metadata }): ObjectRef => ({ resource, namespace: metadata.namespace ?? "", name: metadata.name }));
}

async function listOrNone(cluster: Pick<Cluster, "list">, namespace: string | undefined) {
  try {
    const { items } = await cluster.list(resource, namespace === undefined ? {} : { namespace });
    return items;
  } catch (error) {
    if (hasCode(error, 404)) return [];
    throw error;
  }
}

/** All of it by reads of now, the cluster first: what is gone by the lists was gone after it was read. Throws ClusterError. */
export async function observe(context: Context, key: ObjectKey): Promise<Observed> {
  const { cluster } = context;
  const object = await getOrNone(cluster, key);
  const holds = valuesOf(settings, context.settings).volumeHold === "keep";
  if (object === undefined || !isOfConcern(object)) {
    const parsed = object === undefined ? undefined : parseFoundationCluster(object);
    return {
      snapshot: { nowMs: cluster.serverTimeMs(), cluster: parsed, claims: [], pods: [], holds },
      object: undefined,
    };
  }
  const query = { namespace: key.namespace, labelSelector: `${clusterName.key}=${key.name}` };
  const [claims, pods] = await Promise.all([
    cluster.list("persistentvolumeclaims", query),
    cluster.list("pods", query),
  ]);
  const snapshot: RemovalsSnapshot = {
    nowMs: cluster.serverTimeMs(),
    cluster: parseFoundationCluster(object),
    claims: claims.items.flatMap((one): GroupClaim[] => {
      const group = groupOf(one.metadata);
      const { annotations = {} } = one.metadata;
      return group === undefined ? [] : [{ ...parseVolumeClaim(one), group, annotations }];
    }),
    pods: pods.items.flatMap((one): GroupPod[] => {
      const group = groupOf(one.metadata);
      const createdMs = Date.parse(one.metadata.creationTimestamp ?? "");
      return group === undefined ? [] : [{ ...parseVolumeUser(one), group, createdMs }];
    }),
    holds,
  };
  return { snapshot, object };
}

function groupOf(metadata: Metadata): string | undefined {
  return read(processGroupId, metadata);
}

async function getOrNone(cluster: Pick<Cluster, "get">, key: ObjectKey): Promise<OtherObject | undefined> {
  try {
    return await cluster.get(resource, key);
  } catch (error) {
    if (hasCode(error, 404)) return undefined;
    throw error;
  }
}
