/** Writes annotations of one object, under the uid and the revision of a read that permits it. */
import { type Cluster, hasCode, type ObjectKey, type ObjectTypes } from "../../functions/shared/kubernetes/cluster.ts";
import { find } from "../../functions/shared/kubernetes/find.ts";
import { maxConflicts } from "../../functions/shared/ledger/reservation.ts";

/** What commands annotate by it. */
export type Annotated = "nodes" | "pods" | "statefulsets";

/** Values by key; null takes one off. */
export type Annotations = Readonly<Record<string, string | null>>;

/** Returns what to write on the object as it is now, undefined for nothing, or throws why not. */
export type Permit<R extends Annotated> = (
  object: ObjectTypes[R] | undefined,
) => Annotations | undefined | Promise<Annotations | undefined>;

/** False if other clients write the object all the time, and nothing was written. Throws ClusterError, and what `permit` does. */
export async function annotate<R extends Annotated>(
  cluster: Cluster,
  resource: R,
  key: ObjectKey,
  permit: Permit<R>,
): Promise<boolean> {
  for (let conflicts = 0; conflicts < maxConflicts; conflicts++) {
    const object = await find(cluster, resource, key);
    const annotations = await permit(object);
    if (object === undefined || annotations === undefined) return true;
    const { uid, resourceVersion } = object.metadata;
    try {
      await cluster.patch(resource, key, { metadata: { uid, resourceVersion, annotations } });
      return true;
    } catch (error) {
      // The kubelet writes its Node and its pods as well, and the controller its StatefulSets.
      if (!hasCode(error, 404, 409)) throw error;
    }
  }
  return false;
}
