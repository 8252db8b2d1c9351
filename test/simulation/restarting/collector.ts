/** Processes of the shipped function that removes Secrets with files that nothing names any more. */
import { gcRestartConfig } from "../../../functions/gc-restart-config/function.ts";
import { createMemory } from "../../../functions/shared/contract/memory.ts";
import { type ReconcileReport, silentReporter } from "../../../functions/shared/contract/reporter.ts";
import { ClusterError } from "../../../functions/shared/kubernetes/cluster.ts";
import { protocol } from "../../../functions/shared/ledger/protocol.ts";
import type { Role } from "../roles.ts";
import type { SeedRun } from "../seed.ts";

/** How often a sweep comes, in milliseconds. */
export const sweepMs = 120_000;

export function collector({ draw, namespace, group, wrappers }: SeedRun): Role {
  return {
    ...{ name: "config-collector", watches: "itself", count: 2, inPeace: "new", diesAfterWrite: true },
    open({ cluster, cache, onVerdict }) {
      const key = { namespace, group };
      const context = {
        cluster: wrappers.cluster?.(cluster) ?? cluster,
        cache,
        protocol: wrappers.protocol?.(protocol) ?? protocol,
        reporter: { ...silentReporter, verdict: (report: ReconcileReport) => onVerdict(key, report) },
        mode: "act",
        namespaces: undefined,
        memoryOf: createMemory(),
      } as const;
      const collect = async () => {
        for (;;) {
          await cluster.sleep(sweepMs * draw.between(0.5, 1.5));
          try {
            await gcRestartConfig.reconcile(context, key, { sweep: true });
          } catch (error) {
            if (!(error instanceof ClusterError)) throw error;
          }
        }
      };
      void collect();
      return undefined;
    },
  };
}
