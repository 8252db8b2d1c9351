/** The shipped function, with those of its times scaled down that have no setting. */
import { join } from "node:path";
import { Server } from "../support/server.ts";
import { environmentWith, shortenedTimes } from "./changed-sources.ts";
import { type FencingCluster, namespace } from "./cluster.ts";

const program = join(import.meta.dirname, "../../triggers/main.ts");

/** Starts it beside a cluster. More settings may be given. */
export function startScaledServer(
  { controlPlane: { kubeconfig } }: FencingCluster,
  more: Readonly<Record<string, string>> = {},
): Promise<Server> {
  const own = { FUNCTION: "fence-node", FENCE_NAMESPACE: namespace };
  const settings = { ...own, ...environmentWith(shortenedTimes), ...more };
  return Server.start({ kubeconfig, namespace, settings, program });
}
