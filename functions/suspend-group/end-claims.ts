/** How a claim of this function ends: its pods are gone, or no process takes them any more. */

import type { Context } from "../shared/contract/context.ts";
import type { KnownClaim } from "../shared/ledger/claim.ts";
import { undoAfterMs } from "../shared/ledger/claim-kinds.ts";
import { endOfScaleDown, type ScaleDownEnd } from "../shared/scaling/resize.ts";
import { removalEnded } from "../shared/suspension/looks.ts";
import { claimsBy, openTransaction, timesAfter, writeClaims } from "../shared/transaction/claims.ts";
import { isLongKnown } from "../shared/transaction/ledger-copy.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import { forgetWithdrawn, isWithdrawn } from "../shared/transaction/withdrawn-claims.ts";
import { parseVolumeUser, type VolumeUser } from "../shared/volumes/members.ts";
import { areLeaving, namedOf } from "../shared/volumes/owner-zones.ts";
import { isOwnerGroup } from "../shared/workloads/group-key.ts";
import type { GroupKey } from "../shared/workloads/statefulsets.ts";
import { name } from "./observe.ts";

/** Takes out our claims that are over or that no process carries out: no pod was told. Throws as a look does. */
export async function endClaims(context: Context, observed: GroupObservation): Promise<void> {
  const { key } = observed;
  let now: GroupObservation | undefined = observed;
  for (const { id } of claimsBy(observed, "scale-down", name)) {
    const claim = now && claimsBy(now, "scale-down", name).find((one) => one.id === id);
    if (now === undefined || claim === undefined) continue;
    const end = await endOf(context, key, claim);
    if (end === "stands") continue;
    const times = end === "settled" ? timesAfter(now, [claim]) : {};
    // Of what was given up some pods may have gone: the next ones wait all the same.
    const ended = end === "withdrawn" ? {} : removalEnded(now.ledger, context.cluster.serverTimeMs());
    await writeClaims(context, now, { out: [claim], into: [], ...times, ...ended });
    forgetWithdrawn(context, key, claim);
    now = (await openTransaction(context, key))?.observed;
  }
}

/** Of a StatefulSet by its size and by its pods; of another owner by the pods that the claim names. Throws ClusterError. */
async function endOf(context: Context, key: GroupKey, claim: KnownClaim): Promise<ScaleDownEnd["kind"]> {
  if (!isOwnerGroup(key.group)) return (await endOfScaleDown(context, key, claim)).kind;
  const isKnown = isLongKnown(context, key, claim);
  // A LIST that is made after the ledger was read (rule R21).
  const { items } = await context.cluster.list("pods", { namespace: key.namespace });
  const pods = items.map(parseVolumeUser);
  if (isWithdrawn(context, key, claim) && !areLeaving(claim, pods)) return "withdrawn";
  const end = endOfLettingGo(claim, pods, context.cluster.serverTimeMs());
  return end === "abandoned" && !isKnown ? "stands" : end;
}

/**
 * What has become of pods that were let go under a claim, by the uids that it names: all are gone; or some stand, though no
 * process sends a deletion any more (rule R20). One that is on its way out keeps its zone for as long as that takes.
 */
export function endOfLettingGo(
  { uids = {}, stampMs }: Pick<KnownClaim, "uids" | "stampMs">,
  pods: readonly VolumeUser[],
  nowMs: number,
): "stands" | "settled" | "abandoned" {
  const there = namedOf(uids, pods);
  if (there.length === 0) return "settled";
  const isAwaited = areLeaving({ uids }, pods) || nowMs - stampMs < undoAfterMs;
  return isAwaited ? "stands" : "abandoned";
}
