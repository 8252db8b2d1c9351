/** A process of a test that observes the status as `show-status` does, and hands out what it decides by. */
import type { StatusContext } from "../../functions/shared/contract/definition.ts";
import type { GroupKey } from "../../functions/shared/workloads/statefulsets.ts";
import { createObserver } from "../../functions/show-status/observe.ts";
import type { StatusSnapshot } from "../../functions/show-status/snapshot.ts";

const answeredBy = { replica: "sluice-0", version: "0.1.0", mode: "act", namespaces: null } as const;

export interface ObservedCache extends Pick<StatusContext["cache"], "read"> {
  groups(): Promise<readonly GroupKey[]>;
}

/** Returns what observes the groups of the cache. It throws ClusterError where they cannot be listed. */
export function openObserver(cluster: StatusContext["cluster"], cache: ObservedCache): () => Promise<StatusSnapshot> {
  let keys: readonly GroupKey[] = [];
  const context = { cluster, cache, groups: () => keys, guards: {}, answeredBy, suspendsVolumes: true };
  const observer = createObserver(context);
  return async () => {
    keys = await cache.groups();
    return observer.observe();
  };
}
