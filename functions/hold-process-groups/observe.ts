/** The observation of a FoundationDBCluster: the cluster, and then its volume claims and pods by the labels that it names. */

import { heldGroups, protectVolumes } from "../shared/annotations/foundationdb.ts";
import { protectedVolume, suspendDuration } from "../shared/annotations/suspension.ts";
import { valuesOf } from "../shared/base/settings.ts";
import type { Context } from "../shared/contract/context.ts";
import { type KeyLookUp, type ObjectRef, pathOf } from "../shared/contract/keys.ts";
import type {
  Cluster,
  Metadata,
  ObjectKey,
  ObjectList,
  OtherObject,
  PodObject,
  PvcObject,
} from "../shared/kubernetes/cluster.ts";
import { find, isNamespaceEnding, listIfServed } from "../shared/kubernetes/find.ts";
import { volumeHoldSetting } from "../shared/suspension/settings.ts";
import {
  belongs,
  clusterOf,
  type Marks,
  parseMarks,
  processGroupOf,
  selectorOf,
  usualMarks,
} from "../shared/volumes/foundationdb-marks.ts";
import type { RemovalsSnapshot } from "./decide.ts";
import { parseFoundationCluster, parseGroupPod, parseProcessGroupPvc } from "./foundation-cluster.ts";

export const name = "hold-process-groups";
export const settings = { volumeHold: volumeHoldSetting };
export const resource = "foundationdbclusters";

/** A cluster as it was read, with the input of its decision. */
export interface ClusterObservation {
  readonly snapshot: RemovalsSnapshot;
  /** Undefined where it is gone. */
  readonly object: OtherObject | undefined;
}

/** True for a cluster that asks to keep volumes, or of which Sluice blocks something. */
function isOfConcern({ metadata: { annotations = {} } }: OtherObject): boolean {
  return [suspendDuration, heldGroups, protectVolumes].some(({ key }) => annotations[key] !== undefined);
}

/**
 * The clusters of a namespace, or of all, that are of concern, also those that are gone, of which volume claims are protected;
 * none where the operator is not installed, and has never been. Throws ClusterError.
 */
export async function listKeys({ cluster }: Context, namespace: string | undefined): Promise<readonly ObjectRef[]> {
  const scope = namespace === undefined ? {} : { namespace };
  const [items, pvcs] = await Promise.all([
    listIfServed(cluster, resource, namespace),
    cluster.list("persistentvolumeclaims", { ...scope, labelSelector: protectedVolume.key }),
  ]);
  const asking = items.filter(isOfConcern).map(({ metadata }) => keyOf(metadata.namespace, metadata.name));
  const keys = [...asking, ...pvcs.items.flatMap(({ metadata }) => keysOfPvc(metadata))];
  return [...new Map(keys.map((key) => [pathOf(key), key])).values()];
}

function keyOf(namespace: string | undefined, called: string): ObjectRef {
  return { resource, namespace: namespace ?? "", name: called };
}

function keysOfPvc(metadata: Metadata): readonly ObjectRef[] {
  const called = clusterOf(metadata);
  return called === undefined ? [] : [keyOf(metadata.namespace, called)];
}

/** The cluster of a volume claim, by its owner or its label, for which one GET is enough. */
export function clusterOfPvc(pvc: ObjectKey): KeyLookUp<ObjectRef> {
  return {
    name: `volume claims ${pvc.namespace}/${pvc.name}`,
    async find({ cluster }) {
      const object = await find(cluster, "persistentvolumeclaims", pvc);
      return object === undefined ? [] : keysOfPvc(object.metadata);
    },
  };
}

/**
 * Everything by fresh reads, the cluster first: an object that the lists lack was gone after the cluster was read. Throws
 * ClusterError.
 */
export async function observe(context: Context, key: ObjectKey): Promise<ClusterObservation> {
  const { cluster } = context;
  const object = await find(cluster, resource, key);
  const marks = object === undefined ? usualMarks(key.name) : parseMarks(object);
  const { pvcs, pods } = await listOwn(cluster, key.namespace, marks, object !== undefined && isOfConcern(object));
  const parsed = object && parseFoundationCluster(object);
  const ofGroups = pvcs.map((one) => {
    // A cluster that is gone no longer shows which label names the process group.
    const group = processGroupOf(one.metadata, marks) ?? (object === undefined ? one.metadata.name : "");
    return parseProcessGroupPvc(one, group);
  });
  const mayBeProtected = parsed?.protects.kind !== "absent" || ofGroups.some(({ isProtected }) => isProtected);
  const isEnding = mayBeProtected && ofGroups.length > 0 && (await isNamespaceEnding(cluster, key.namespace));
  const snapshot: RemovalsSnapshot = {
    nowMs: cluster.serverTimeMs(),
    cluster: parsed,
    pvcs: ofGroups.filter(({ group }) => group !== ""),
    unplaced: ofGroups.filter(({ group }) => group === ""),
    pods: pods.flatMap((one) => {
      const group = processGroupOf(one.metadata, marks);
      return group === undefined ? [] : [parseGroupPod(one, group)];
    }),
    keepsVolumes: valuesOf(settings, context.settings).volumeHold === "keep",
    isNamespaceEnding: isEnding,
  };
  return { snapshot, object };
}

/**
 * Volume claims are not asked for by the cluster's labels: they may have got others since they were made, and what is not found
 * would count as gone. Of a cluster that asks for nothing any more, or is gone, only what we have protected is of concern.
 */
async function listOwn(
  cluster: Pick<Cluster, "list">,
  namespace: string,
  marks: Marks,
  isAsking: boolean,
): Promise<{ readonly pvcs: readonly PvcObject[]; readonly pods: readonly PodObject[] }> {
  const selector = selectorOf(marks);
  const listPods = () =>
    cluster.list("pods", { namespace, ...(selector === undefined ? {} : { labelSelector: selector }) });
  const own = <T extends { readonly metadata: Metadata }>({ items }: ObjectList<T>): readonly T[] =>
    items.filter(({ metadata }) => belongs(metadata, marks));
  const [pvcs, known] = await Promise.all([
    cluster.list("persistentvolumeclaims", { namespace, ...(isAsking ? {} : { labelSelector: protectedVolume.key }) }),
    isAsking ? listPods() : undefined,
  ]);
  const ownPvcs = own(pvcs);
  const pods = known ?? (ownPvcs.length === 0 ? undefined : await listPods());
  return { pvcs: ownPvcs, pods: pods === undefined ? [] : own(pods) };
}
