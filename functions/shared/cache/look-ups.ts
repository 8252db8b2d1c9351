/** Reads that any client can cause: a review may name a pod that is not in memory, or that does not exist at all. */
import type { Cluster } from "../kubernetes/cluster.ts";

/** How such reads are made. Each rejects with ClusterError, or with {@link TooManyLookUps} where nothing was asked. */
export type LookUps = Pick<Cluster, "get" | "list">;

/** The rate limit of such reads is exhausted. The client may ask again later. */
export class TooManyLookUps extends Error {
  constructor() {
    super("many reviews name pods that are not in memory, and this one had no turn: try again");
    this.name = "TooManyLookUps";
  }
}
