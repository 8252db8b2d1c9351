import type { Cluster } from "./cluster.ts";

/**
 * The time that this process has lived through for sure, in milliseconds: for what must have lasted a while. A wall clock that is
 * set forward does not make it longer.
 */
export function lastedMs(cluster: Pick<Cluster, "monotonicMs" | "skippedMs">): number {
  return cluster.monotonicMs() - (cluster.skippedMs?.() ?? 0);
}
