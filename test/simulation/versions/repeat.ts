/** How a process of another version goes on: it tries again and again, and what the API server refuses is tried again. */
import { type Cluster, ClusterError } from "../../../functions/shared/kubernetes/cluster.ts";
import type { Draw } from "../draw.ts";

/** Goes on until the process is dead: then the call that it waits for never ends. Rejects with what is no ClusterError. */
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
