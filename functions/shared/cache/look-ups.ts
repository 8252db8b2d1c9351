/** Reads that any client can cause by posting a review: of a pod that memory does not have, and there may be no such pod. */
import type { Cluster } from "../kubernetes/cluster.ts";

/** How such reads are made. Each rejects with ClusterError, or with {@link TooManyLookUps} where nothing was asked. */
export type LookUps = Pick<Cluster, "get" | "list">;

/** There are more reads than the API server is to be asked for: a client that is refused may ask again. */
export class TooManyLookUps extends Error {
  constructor() {
    super("many reviews name pods that are not in memory, and this one had no turn: try again");
    this.name = "TooManyLookUps";
  }
}
