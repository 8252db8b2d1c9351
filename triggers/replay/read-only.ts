/** A cluster that is only looked at: what shadow mode promises (rule R16) is held here once more, whoever breaks it. */
import { type Cluster, ClusterError } from "../../functions/shared/kubernetes/cluster.ts";

/** The same cluster, which can be read; a write rejects, and a watch throws, with a ClusterError of code 405, and is not sent. */
export function readOnly(cluster: Cluster): Cluster {
  const refusal = (verb: string, resource: string): ClusterError => {
    const message = `a replay writes nothing and follows nothing, and was about to ${verb} ${resource}`;
    return new ClusterError({ code: 405, reason: "MethodNotAllowed", message, verb, resource });
  };
  const refuse = (verb: string, resource: string): Promise<never> => Promise.reject(refusal(verb, resource));
  return {
    get: (resource, key, options) => cluster.get(resource, key, options),
    list: (resource, query, options) => cluster.list(resource, query, options),
    watch(resource) {
      throw refusal("watch", resource);
    },
    create: (resource) => refuse("create", resource),
    patch: (resource) => refuse("patch", resource),
    delete: (resource) => refuse("delete", resource),
    serverTimeMs: () => cluster.serverTimeMs(),
    monotonicMs: () => cluster.monotonicMs(),
    skippedMs: () => cluster.skippedMs?.() ?? 0,
    sleep: (ms, signal) => cluster.sleep(ms, signal),
  };
}
