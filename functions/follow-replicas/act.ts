/** The acts: sizes are changed, and a StatefulSet's size is written to the object that it mirrors. */

import type { Context } from "../shared/contract/context.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import { isNewEvent } from "../shared/events/recorder.ts";
import { apiMessage, ClusterError, groupOf } from "../shared/kubernetes/cluster.ts";
import type { KnownClaim } from "../shared/ledger/claim.ts";
import type { Act } from "../shared/reconcile/act.ts";
import { askedBy } from "../shared/reconcile/concern.ts";
import type { ClaimingFunction, OwnClaimEnd } from "../shared/reconcile/reconcile-claims.ts";
import type { EventPolicy } from "../shared/reconcile/record.ts";
import {
  type FollowerSize,
  followerSizes,
  isFollowing,
  type MirroredScale,
  readScales,
  type Scales,
} from "../shared/scaling/follower-sizes.ts";
import { endOfScaleDown, noteRefusal, readAgain, resize, sizeChanged } from "../shared/scaling/resize.ts";
import type { SizeBlocked } from "../shared/scaling/wanted-replicas.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import { asStatefulSet, type GroupKey, type StatefulSet } from "../shared/workloads/statefulsets.ts";
import { decide, type FollowerResize, type FollowSnapshot } from "./decide.ts";
import { ask, name, snapshotOf } from "./observe.ts";

const eventPolicy: EventPolicy = {
  taking: "resizing",
  reasons: { begins: eventReasons.following, waits: eventReasons.followWaiting, ends: eventReasons.followed },
  quietGuards: new Set(["zone-scaling-down", "zones-down", "leader-not-ready", "min-time-between-zones"]),
};

/** Changes the size under the uid and the resourceVersion of a GET after the claim was written (rules R9, R18 and R21). */
function actOn({ statefulSet, target, claim }: FollowerResize): Act {
  const { name: zone, uid } = statefulSet;
  return {
    name: target > statefulSet.replicas ? "raise" : "lower",
    object: zone,
    subjectUid: uid,
    workload: statefulSet,
    claims: claim === undefined ? [] : [claim],
    ...(target > statefulSet.replicas ? { takesNothing: true } : {}),
    async carryOut(context, notAfterMs) {
      const now = await checkAgain(context, statefulSet, target);
      await resize(context, now, target, notAfterMs);
    },
    refused: (context, key, error) => noteRefusal(context, key, { statefulSet, target, claim }, error),
  };
}

/** The StatefulSet, if it is as it was decided on, and still wants the same size. Throws ClusterError. */
async function checkAgain(context: Context, before: StatefulSet, target: number): Promise<StatefulSet> {
  const { cluster } = context;
  const { now, members } = await readAgain(context, before);
  const sizes = followerSizes(members, await readScales(cluster, [now]), cluster.serverTimeMs());
  // If it is made smaller step by step, the size in question is above the wanted one.
  const isStep = (wanted: number) => (target > now.replicas ? wanted === target : wanted <= target);
  const isWanted = sizes.some(({ statefulSet, wanted }) => {
    return statefulSet === now && typeof wanted === "number" && isStep(wanted);
  });
  if (isWanted) return now;
  throw sizeChanged(before);
}

/** A claim without an act is over as well, because no pod was told. Throws ClusterError. */
async function endOf(context: Context, { key }: GroupObservation, claim: KnownClaim): Promise<OwnClaimEnd> {
  const { kind } = await endOfScaleDown(context, key, claim);
  return { kind: kind === "stands" ? "stands" : "over" };
}

/** The objects that the members mirror. Outside shadow mode their sizes are also written back there. Throws ClusterError. */
async function readAndWriteBack(context: Context, { key, zones }: GroupObservation): Promise<Scales> {
  const members = zones.map(({ workload }) => asStatefulSet(workload));
  const scales = await readScales(context.cluster, members);
  if (context.mode === "act") await writeBack(context, key, members, scales);
  return scales;
}

/** Its controllers write the number of pods to the status, and would correct another number at once, without end. */
export const ownStatusGroup = "apps";

/**
 * Spec 3.3: the size that a StatefulSet has, to the status of what it mirrors, once it is the one that is wanted, or while it
 * goes there after delays. That it cannot be written holds up nothing.
 */
export async function writeBack(context: Context, key: GroupKey, members: readonly StatefulSet[], scales: Scales) {
  const sizes = followerSizes(members, scales, context.cluster.serverTimeMs());
  // The mirrored object does not get a size that this function is about to change.
  const isComing = ({ statefulSet: { replicas, scaling }, wanted }: FollowerSize) =>
    typeof wanted === "number" && wanted !== replicas && scaling?.delay === undefined;
  const coming = new Set(sizes.filter(isComing).map(({ statefulSet }) => statefulSet.uid));
  const settled = members.filter(({ uid }) => !coming.has(uid));
  const written = settled.map(async ({ uid, namespace, name: zone, replicas, scaling }) => {
    const { mirrored } = scaling ?? {};
    const scale = scales.get(uid);
    if (mirrored === undefined || !isDifferent(scale, replicas) || !mirrored.isWrittenBack) return;
    if (groupOf(scale.resource) === ownStatusGroup) return;
    const at = { namespace, name: mirrored.name };
    const what = `the status of ${mirrored.kind} ${mirrored.name}`;
    try {
      await context.cluster.patch(scale.resource, at, { status: { replicas } }, { subresource: "status" });
    } catch (error) {
      if (!(error instanceof ClusterError)) throw error;
      const message = `${what} does not say that ${zone} has ${replicas} replicas: ${apiMessage(error)}`;
      if (isNewEvent(context, key, `${uid} ${message}`)) context.reporter.problem(key, name, message, error);
    }
  });
  await Promise.all(written);
}

function isDifferent(scale: MirroredScale | SizeBlocked | undefined, replicas: number): scale is MirroredScale {
  return scale !== undefined && "resource" in scale && scale.written !== replicas;
}

const asks = askedBy(isFollowing);

/** A mirrored object is read once in a reconcile, however often that decides; the act reads it again. */
export function following(): ClaimingFunction<FollowSnapshot, FollowerResize> {
  let reading: Promise<Scales> | undefined;
  return {
    name,
    claimKind: "scale-down",
    eventPolicy,
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
