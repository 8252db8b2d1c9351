/** A cluster that is only read. It enforces the promise of shadow mode (rule R16) once more, whichever function breaks it. */
import { type Cluster, ClusterError } from "../../functions/shared/kubernetes/cluster.ts";
import { wrapCalls, wrapCluster } from "../../functions/shared/kubernetes/wrap-cluster.ts";

/** The same cluster, which can be read; a write rejects, and a watch throws, with a ClusterError of code 405, and is not sent. */
export function readOnly(cluster: Cluster): Cluster {
  const refusal = (verb: string, resource: string): ClusterError => {
    const message = `a replay writes nothing and follows nothing, and was about to ${verb} ${resource}`;
    return new ClusterError({ code: 405, reason: "MethodNotAllowed", message, verb, resource });
  };
  const readable = wrapCalls(cluster, ({ verb, writes, resource }, send) =>
    writes ? Promise.reject(refusal(verb, resource)) : send(),
  );
  return wrapCluster(readable, {
    watch(resource) {
      throw refusal("watch", resource);
    },
  });
}
