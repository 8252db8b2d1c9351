/**
 * Pods that are already down: the eviction of one costs its group nothing, if the pod has not changed since it was read. So a
 * GET reads the pod, and the answer pins its resourceVersion (as rule R13 does for a repair).
 */

import type { Context } from "../shared/contract/context.ts";
import { ClusterError } from "../shared/kubernetes/cluster.ts";
import { refuseNewLedger } from "../shared/transaction/ledger-age.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import { findPod } from "./decide-alone.ts";
import type { Eviction } from "./group-commit/sort-decisions.ts";

/**
 * The resourceVersions of pods that a GET shows to be unready, by uid, if an answer can pin them. Empty if the ledger is new,
 * or was written since the read, because a function may have claimed such a pod. A pod that cannot be read is left out.
 */
export async function findDown(
  context: Context,
  observed: GroupObservation,
  evictions: readonly Eviction[],
): Promise<ReadonlyMap<string, string>> {
  const { key, ledger, zones } = observed;
  const suspects = evictions.filter((eviction) => {
    const pod = eviction.pinsRevision === true ? findPod(zones, eviction)?.pod : undefined;
    return pod !== undefined && pod.readySinceMs === undefined && !pod.terminating && !pod.finished;
  });
  if (suspects.length === 0 || refuseNewLedger(context, observed) !== undefined) return new Map();
  try {
    const found = await Promise.all(suspects.map(({ name, uid }) => readDown(context, key.namespace, name, uid)));
    const now = await context.protocol.readLedger(context.cluster, key);
    if (now?.uid !== ledger.uid || now.resourceVersion !== ledger.resourceVersion) return new Map();
    return new Map(found.flat());
  } catch (error) {
    // The pods are then decided like any other.
    if (error instanceof ClusterError) return new Map();
    throw error;
  }
}

async function readDown(
  { cluster }: Context,
  namespace: string,
  name: string,
  uid: string,
): Promise<readonly (readonly [string, string])[]> {
  const { metadata, status } = await cluster.get("pods", { namespace, name });
  const ready = status?.conditions?.find(({ type }) => type === "Ready");
  const isDown = metadata.uid === uid && metadata.deletionTimestamp === undefined && ready?.status !== "True";
  return isDown ? [[uid, metadata.resourceVersion]] : [];
}
