/** Which group of an owner a pod belongs to that no StatefulSet controls. */

import { SharedReads } from "../shared/cache/shared-reads.ts";
import type { Context } from "../shared/contract/context.ts";
import type { Cluster } from "../shared/kubernetes/cluster.ts";
import { groupKeyOfLease, listLedgerLeases } from "../shared/ledger/lease.ts";
import { isOwnerGroup } from "../shared/workloads/group-key.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import { type GroupKey, groupPathOf } from "../shared/workloads/statefulsets.ts";

/** A read for one pod serves the next ones for a second, because a drain is about many pods without such a group. */
interface OwnerReads {
  readonly keys: SharedReads<readonly GroupKey[]>;
  /** The uids of the pods of a group. */
  readonly members: SharedReads<ReadonlySet<string>>;
}

const reads = new WeakMap<Cluster, OwnerReads>();

/**
 * The group of an owner that counts a pod, if it has a ledger; undefined for any other pod. It costs one LIST of Leases a
 * second, and the view of each such group of the namespace, which only exists if volumes of such owners are suspended. Throws
 * ClusterError.
 */
export async function findOwnerGroup({ cluster, cache }: Context, pod: Pod): Promise<GroupKey | undefined> {
  const known = reads.get(cluster) ?? { keys: new SharedReads(cluster), members: new SharedReads(cluster) };
  reads.set(cluster, known);
  // Without a ledger, no function has claimed anything of a group.
  const keys = await known.keys.read(pod.namespace, async () => {
    const leases = await listLedgerLeases(cluster, pod.namespace);
    return leases.flatMap((lease) => groupKeyOfLease(lease) ?? []).filter(({ group }) => isOwnerGroup(group));
  });
  const need = { settledThrough: undefined, permitSinceMs: undefined, consistent: false };
  for (const key of keys) {
    const uids = await known.members.read(groupPathOf(key), async () => {
      const view = await cache.read(key, need);
      return new Set(view.workloads.flatMap((zone) => [...view.podsOf(zone)].map(({ uid }) => uid)));
    });
    if (uids.has(pod.uid)) return key;
  }
  return undefined;
}
