/** A cluster that is only looked at: what shadow mode promises (rule R16) is held here once more, whoever breaks it. */
import { type Cluster, ClusterError } from "../../functions/shared/kubernetes/cluster.ts";

/** The same cluster, whose reads go on; every write rejects with a ClusterError of code 405, and is not sent. */
export function readOnly(cluster: Cluster): Cluster {
  const refuse = async (verb: string, resource: string): Promise<never> => {
    const message = `a replay writes nothing, and was about to ${verb} ${resource}`;
    throw new ClusterError({ code: 405, reason: "MethodNotAllowed", message, verb, resource });
  };
  return {
    get: (resource, key, options) => cluster.get(resource, key, options),
    list: (resource, query, options) => cluster.list(resource, query, options),
    watch: (resource, query, options) => cluster.watch(resource, query, options),
    create: (resource) => refuse("create", resource),
    patch: (resource) => refuse("patch", resource),
    delete: (resource) => refuse("delete", resource),
    serverTimeMs: () => cluster.serverTimeMs(),
    monotonicMs: () => cluster.monotonicMs(),
    skippedMs: () => cluster.skippedMs?.() ?? 0,
    sleep: (ms, signal) => cluster.sleep(ms, signal),
  };
}
