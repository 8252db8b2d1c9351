/** The times of last downscales, from the ledger to the StatefulSets: for those who read `grafana.com/last-downscale`. */

import { lastDownscale } from "../shared/annotations/scaling.ts";
import { valuesOf } from "../shared/base/settings.ts";
import { formatTime } from "../shared/clock/durations.ts";
import type { Context } from "../shared/contract/context.ts";
import { ClusterError, wordsOf } from "../shared/kubernetes/cluster.ts";
import { openTransaction } from "../shared/transaction/claims.ts";
import { asStatefulSet, type GroupKey } from "../shared/workloads/statefulsets.ts";
import { findUntold, type Timed, writableInMs, writeAfterMs } from "./decide.ts";
import { name, observeTime, settings } from "./observe.ts";

/** Resolves to when the next one may be written, in milliseconds; undefined for none. Throws as a look at the ledger does. */
export async function writeTimes(context: Context, key: GroupKey): Promise<number | undefined> {
  if (!valuesOf(settings, context.settings).writesLastDownscale) return undefined;
  const look = await openTransaction(context, key);
  if (look === undefined || look.young !== undefined) return undefined;
  const { ledger, zones } = look.observed;
  const statefulSets = zones.map(({ statefulSet }) => asStatefulSet(statefulSet));
  const waits = findUntold(statefulSets, ledger.lastDownscales ?? {}, ledger.claims).map(async (untold) => {
    const timed = await observeTime(context, key, untold);
    return timed === undefined ? Number.POSITIVE_INFINITY : writeTime(context, key, timed);
  });
  const soonest = Math.min(...(await Promise.all(waits)));
  return Number.isFinite(soonest) ? soonest : undefined;
}

/** Writes by uid and resourceVersion: if another client changes the StatefulSet meanwhile, it tries again a minute later. */
async function writeTime(context: Context, key: GroupKey, timed: Timed): Promise<number> {
  const { cluster, reporter, cache } = context;
  const inMs = writableInMs(timed, cluster.serverTimeMs());
  if (inMs > 0) return inMs;
  const { namespace, name: zone, uid, resourceVersion } = timed.statefulSet;
  const annotations = { [lastDownscale.key]: formatTime(timed.downMs) };
  try {
    const body = { metadata: { uid, resourceVersion, annotations } };
    cache.learn(await cluster.patch("statefulsets", { namespace, name: zone }, body));
    return Number.POSITIVE_INFINITY;
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    if (error.code !== 409) {
      const sentence = `when ${zone} was last made smaller could not be written to its annotation: ${wordsOf(error)}`;
      reporter.problem(key, name, sentence, error);
    }
    return writeAfterMs;
  }
}
