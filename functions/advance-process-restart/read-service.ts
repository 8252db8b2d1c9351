/** Reads the governing Service of a StatefulSet. */

import type { Cluster } from "../shared/kubernetes/cluster.ts";
import { find } from "../shared/kubernetes/find.ts";
import type { StatefulSet } from "../shared/workloads/statefulsets.ts";
import type { Publication } from "./decide-service.ts";

/** By a GET. Throws ClusterError. */
export async function readPublication(
  cluster: Pick<Cluster, "get">,
  { namespace, serviceName }: Pick<StatefulSet, "namespace" | "serviceName">,
): Promise<Publication> {
  if (serviceName === "") return "missing";
  const service = await find(cluster, "services", { namespace, name: serviceName });
  if (service === undefined) return "missing";
  return service.spec?.publishNotReadyAddresses === true ? "all" : "ready-alone";
}
