/** How a claim of this function ends: its pods are gone, or no process takes them any more. */

import type { Context } from "../shared/contract/context.ts";
import type { KnownClaim } from "../shared/ledger/claim.ts";
import { undoAfterMs } from "../shared/ledger/claim-kinds.ts";
import type { OwnClaimEnd } from "../shared/reconcile/reconcile-claims.ts";
import { endOfScaleDown, type ScaleDownEnd } from "../shared/scaling/resize.ts";
import { removalEnded } from "../shared/suspension/looks.ts";
import { isWithdrawn, timesAfter } from "../shared/transaction/claims.ts";
import { isLongKnown } from "../shared/transaction/ledger-age.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import { parseVolumeUser, type VolumeUser } from "../shared/volumes/members.ts";
import { isOwnerGroup } from "../shared/workloads/group-key.ts";
import type { GroupKey } from "../shared/workloads/statefulsets.ts";

/** A claim without an act is over as well, because no pod was told. Throws what a transaction throws. */
export async function endOf(context: Context, observed: GroupObservation, claim: KnownClaim): Promise<OwnClaimEnd> {
  const end = await endOfLeaving(context, observed.key, claim);
  if (end === "stands") return { kind: "stands" };
  const times = end === "settled" ? timesAfter(observed, [claim]) : {};
  // Of what was given up some pods may have gone: the next ones wait all the same.
  const ended = end === "withdrawn" ? {} : removalEnded(observed.ledger, context.cluster.serverTimeMs());
  return { kind: "over", times: { ...times, ...ended } };
}

/** Of a StatefulSet by its size and by its pods; of another owner by the pods that the claim names. Throws ClusterError. */
async function endOfLeaving(context: Context, key: GroupKey, claim: KnownClaim): Promise<ScaleDownEnd["kind"]> {
  if (!isOwnerGroup(key.group)) return (await endOfScaleDown(context, key, claim)).kind;
  const isKnown = isLongKnown(context, key, claim);
  // A LIST after the ledger was read (rule R21).
  const { items } = await context.cluster.list("pods", { namespace: key.namespace });
  const end = endOfLettingGo(claim, items.map(parseVolumeUser), context.cluster.serverTimeMs());
  if (end === "leaving") return "stands";
  if (isWithdrawn(context, key, claim)) return "withdrawn";
  return end === "abandoned" && !isKnown ? "stands" : end;
}

/**
 * What has become of pods that were let go under a claim, by the uids that it names: all are gone; or some stand, though no
 * process sends a deletion any more (rule R20). One that is on its way out, whichever client deleted it, keeps its zone for as
 * long as that takes.
 */
export function endOfLettingGo(
  { uids = {}, stampMs }: Pick<KnownClaim, "uids" | "stampMs">,
  pods: readonly VolumeUser[],
  nowMs: number,
): "leaving" | "stands" | "settled" | "abandoned" {
  const named = new Set(Object.values(uids));
  const there = pods.filter(({ uid }) => named.has(uid));
  if (there.length === 0) return "settled";
  if (there.some(({ isTerminating }) => isTerminating)) return "leaving";
  return nowMs - stampMs < undoAfterMs ? "stands" : "abandoned";
}
