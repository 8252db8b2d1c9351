/** The times of last downscales, from the ledger to the StatefulSets: for those who read `grafana.com/last-downscale`. */

import { lastDownscale } from "../shared/annotations/scaling.ts";
import { valuesOf } from "../shared/base/settings.ts";
import { formatTime } from "../shared/clock/durations.ts";
import type { Context } from "../shared/contract/context.ts";
import { apiMessage, ClusterError } from "../shared/kubernetes/cluster.ts";
import { find } from "../shared/kubernetes/find.ts";
import { openTransaction } from "../shared/transaction/claims.ts";
import { asStatefulSet, type GroupKey } from "../shared/workloads/statefulsets.ts";
import { findUntold, type UntoldZone, writableInMs, writeAfterMs } from "./decide.ts";
import { changedAt, name, settings } from "./observe.ts";

/** Resolves to when the next one may be written, in milliseconds; undefined for none. Throws as `openTransaction` does. */
export async function writeTimes(context: Context, key: GroupKey): Promise<number | undefined> {
  if (!valuesOf(settings, context.settings).writesLastDownscale) return undefined;
  const transaction = await openTransaction(context, key);
  if (transaction === undefined) return undefined;
  // No event may bring this process back when it may write.
  if (transaction.tooNew !== undefined) return transaction.tooNew.requeueAfterMs;
  const { ledger, zones } = transaction.observed;
  const statefulSets = zones.map(({ workload }) => asStatefulSet(workload));
  const untold = findUntold(statefulSets, ledger.lastDownscales ?? {}, ledger.claims);
  const soonest = Math.min(...(await Promise.all(untold.map((one) => writeTime(context, key, one)))));
  return Number.isFinite(soonest) ? soonest : undefined;
}

/** Writes by uid and resourceVersion: if another client changes the StatefulSet meanwhile, it tries again a minute later. */
async function writeTime(context: Context, key: GroupKey, untold: UntoldZone): Promise<number> {
  const { cluster, reporter, cache } = context;
  const { namespace } = key;
  const { zone, downMs } = untold;
  const object = await find(cluster, "statefulsets", { namespace, name: zone });
  if (object === undefined) return Number.POSITIVE_INFINITY;
  const inMs = writableInMs(untold, changedAt(object) ?? 0, cluster.serverTimeMs());
  if (inMs > 0) return inMs;
  const { uid, resourceVersion } = object.metadata;
  const annotations = { [lastDownscale.key]: formatTime(downMs) };
  try {
    const body = { metadata: { uid, resourceVersion, annotations } };
    cache.learn(await cluster.patch("statefulsets", { namespace, name: zone }, body));
    return Number.POSITIVE_INFINITY;
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    if (error.code !== 409) {
      const message = `when ${zone} was last made smaller could not be written to its annotation: ${apiMessage(error)}`;
      reporter.problem(key, name, message, error);
    }
    return writeAfterMs;
  }
}
