/** Calls for which a missing object is an answer and no error. */

import {
  type CallOptions,
  type Cluster,
  type DeleteCallOptions,
  hasCode,
  type ObjectKey,
  type ObjectTypes,
  type Preconditions,
  type Resource,
} from "./cluster.ts";

/** An object by a GET; undefined where the API server answers 404. Throws ClusterError. */
export async function find<R extends Resource>(
  cluster: Pick<Cluster, "get">,
  resource: R,
  key: ObjectKey,
  options?: CallOptions,
): Promise<ObjectTypes[R] | undefined> {
  return unlessMissing(cluster.get(resource, key, options), undefined);
}

/** True for a namespace that is being deleted. Throws ClusterError. */
export async function isNamespaceEnding(cluster: Pick<Cluster, "get">, namespace: string): Promise<boolean> {
  const object = await find(cluster, "namespaces", { namespace: "", name: namespace });
  return object?.metadata.deletionTimestamp !== undefined;
}

/**
 * The objects of a type in a namespace, or in all where none is given, by a consistent LIST. A type whose CRD is not installed
 * has no objects. Throws ClusterError.
 */
export async function listIfServed<R extends Resource>(
  cluster: Pick<Cluster, "list">,
  resource: R,
  namespace: string | undefined,
): Promise<readonly ObjectTypes[R][]> {
  const list = cluster.list(resource, namespace === undefined ? {} : { namespace });
  return (await unlessMissing(list, { items: [] })).items;
}

/** Deletes an object under its preconditions, and succeeds if it is gone already. Throws ClusterError. */
export async function deleteIfThere(
  cluster: Pick<Cluster, "delete">,
  resource: Resource,
  key: ObjectKey,
  preconditions: Preconditions,
  options?: DeleteCallOptions,
): Promise<void> {
  await unlessMissing(cluster.delete(resource, key, preconditions, options), undefined);
}

async function unlessMissing<Answer, Missing>(call: Promise<Answer>, missing: Missing): Promise<Answer | Missing> {
  try {
    return await call;
  } catch (error) {
    if (hasCode(error, 404)) return missing;
    throw error;
  }
}
