/** One pass over a group: claims that are over go, and sizes follow. */

import type { Context } from "../shared/contract/context.ts";
import type { ReconcileResult } from "../shared/contract/definition.ts";
import { askedBy } from "../shared/reconcile/concern.ts";
import { type ClaimingFunction, reconcileClaims } from "../shared/reconcile/reconcile-claims.ts";
import { isFollowing, readScales, type Scales } from "../shared/scaling/follower-sizes.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import { asStatefulSet, type GroupKey } from "../shared/workloads/statefulsets.ts";
import { actOn, endOf, telling, writeBack } from "./act.ts";
import { decide, type FollowerResize, type FollowSnapshot } from "./decide.ts";
import { ask, name, snapshotOf } from "./observe.ts";

const asks = askedBy(isFollowing);

/** Throws ClusterError where trying again later can help. */
export function reconcile(
  context: Context,
  key: GroupKey,
  wake: { readonly sweep: boolean },
): Promise<ReconcileResult> {
  return reconcileClaims(context, following(), key, wake);
}

/** What is mirrored is read once in a pass, however often that decides; the act reads it again. */
function following(): ClaimingFunction<FollowSnapshot, FollowerResize> {
  let reading: Promise<Scales> | undefined;
  return {
    name,
    claimKind: "scale-down",
    telling,
    asks,
    endOf,
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
  const members = zones.map(({ statefulSet }) => asStatefulSet(statefulSet));
  const scales = await readScales(context.cluster, members);
  if (context.mode === "act") await writeBack(context, key, members, scales);
  return scales;
}
