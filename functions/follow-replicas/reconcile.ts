/** One pass over a group: claims that are over go, and sizes follow. */

import type { Context } from "../shared/contract/context.ts";
import type { ReconcileResult } from "../shared/contract/definition.ts";
import { askedBy, skipUnconcerned } from "../shared/reconcile/concern.ts";
import { type GroupReconciler, reconcileGroup } from "../shared/reconcile/perform.ts";
import { isFollowing, readScales, type Scales } from "../shared/scaling/follower-sizes.ts";
import { madeBy, openTransaction } from "../shared/transaction/claims.ts";
import { Conflict, forgetLedger, knownLedger, waitForLedger } from "../shared/transaction/ledger-copy.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import type { GroupKey } from "../shared/workloads/statefulsets.ts";
import { actOn, endClaims, telling, writeBack } from "./act.ts";
import { decide, type FollowerResize, type FollowSnapshot } from "./decide.ts";
import { ask, name, snapshotOf } from "./observe.ts";

const isOwn = madeBy(name);

/** Throws ClusterError where trying again later can help. */
export async function run(
  context: Context,
  key: GroupKey,
  wake: { readonly sweep: boolean },
): Promise<ReconcileResult> {
  const idle = await skipUnconcerned(context, key, wake, { asks: askedBy(isFollowing), isOwn });
  if (idle !== undefined) return idle;
  try {
    await endOwn(context, key, wake.sweep);
  } catch (error) {
    forgetLedger(context.memoryOf(key));
    // What is the matter with a ledger that cannot be used is said by the pass itself.
    if (error instanceof Conflict) context.reporter.conflict(key, name);
    else if (waitForLedger(error) === undefined) throw error;
  }
  return reconcileGroup(context, gateOf(), key, wake);
}

async function endOwn(context: Context, key: GroupKey, sweep: boolean): Promise<void> {
  if (context.mode === "shadow") return;
  if (sweep) forgetLedger(context.memoryOf(key));
  const known = knownLedger(context, context.memoryOf(key));
  if (known !== undefined && !known.claims.some(isOwn)) return;
  const look = await openTransaction(context, key);
  if (look !== undefined && look.young === undefined) await endClaims(context, look.observed);
}

/** What is mirrored is read once in a pass, however often that decides; the act reads it again. */
function gateOf(): GroupReconciler<FollowSnapshot, FollowerResize> {
  let reading: Promise<Scales> | undefined;
  return {
    name,
    telling,
    decide,
    ask,
    actOn,
    async observe(observed, context) {
      reading ??= readAndWriteBack(context, observed);
      return snapshotOf(context, observed, await reading);
    },
  };
}

async function readAndWriteBack(context: Context, { key, zones }: GroupObservation): Promise<Scales> {
  const members = zones.map(({ statefulSet }) => statefulSet);
  const scales = await readScales(context.cluster, members);
  if (context.mode === "act") await writeBack(context, key, members, scales);
  return scales;
}
