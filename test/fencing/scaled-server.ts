/** The shipped function, with those of its times scaled down that have no setting. */
import { join } from "node:path";
import { Server } from "../support/server.ts";
import { environmentWith, shortenedTimes } from "./changed-sources.ts";
import { namespace } from "./cluster.ts";

const program = join(import.meta.dirname, "../../triggers/main.ts");

/** Starts it with a kubeconfig of a cluster. More settings may be given. */
export function startScaledServer(
  { kubeconfig }: { readonly kubeconfig: string },
  more: Readonly<Record<string, string>> = {},
): Promise<Server> {
  const own = { FUNCTION: "fence-node", FENCE_NAMESPACE: namespace };
  const settings = { ...own, ...environmentWith(shortenedTimes), ...more };
  return Server.start({ kubeconfig, namespace, settings, program });
}
