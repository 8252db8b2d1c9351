/** The main loop of a process of another version. It tries again after errors of the API server. */
import { type Cluster, ClusterError } from "../../../functions/shared/kubernetes/cluster.ts";
import type { Draw } from "../draw.ts";

/** Runs until the process is dead, when the call that it waits for never ends. Rejects with any error but a ClusterError. */
export async function repeat(
  { cluster, draw }: { readonly cluster: Cluster; readonly draw: Draw },
  everyMs: number,
  tick: () => Promise<void>,
): Promise<void> {
  for (;;) {
    try {
      await tick();
    } catch (error) {
      if (!(error instanceof ClusterError)) throw error;
    }
    await cluster.sleep(everyMs * draw.between(0.2, 2));
  }
}
