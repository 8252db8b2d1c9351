/** What is done: one zone is made smaller, and a claim for that is undone. */

import type { Context } from "../shared/contract/context.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import { PodHttpError } from "../shared/http/pod-http.ts";
import { claimsBy, isWithin, type KnownClaim } from "../shared/ledger/claim.ts";
import type { Act } from "../shared/reconcile/act.ts";
import type { OwnClaimEnd } from "../shared/reconcile/reconcile-claims.ts";
import type { EventPolicy } from "../shared/reconcile/record.ts";
import { endOfScaleDown, noteRefusal, readAgain, resize, sizeChanged } from "../shared/scaling/resize.ts";
import { type ClaimEnd, openTransaction, renewClaim, writeClaims } from "../shared/transaction/claims.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import { asStatefulSet, type StatefulSet } from "../shared/workloads/statefulsets.ts";
import type { Lowering } from "./decide.ts";
import { hasAcceptedStay, send } from "./notify-pods.ts";
import { listOwn, name, readWanted, sizeOf } from "./observe.ts";

export const eventPolicy: EventPolicy = {
  taking: "lowering",
  reasons: {
    begins: eventReasons.downscaling,
    waits: eventReasons.downscaleWaiting,
    ends: eventReasons.downscaled,
  },
  quietGuards: new Set(["zone-scaling-down", "zones-down", "delay-running", "min-time-between-zones"]),
};

/** A pod that cannot be told that it stays holds its group no longer than this: each sweep tells it again. In milliseconds. */
const undoForMs = 600_000;
const undoing = "undoing";

/** Lowers the size by uid and resourceVersion, as a GET after the claim was written has them (rules R9, R18 and R21). */
export function actOn({ statefulSet, target, claim }: Lowering): Act {
  const { name: zone, uid } = statefulSet;
  const carryOut = async (context: Context, notAfterMs: number) => {
    const now = await checkAgain(context, { statefulSet, target, claim });
    await resize(context, now, target, notAfterMs);
  };
  return {
    name: "lower",
    object: zone,
    subjectUid: uid,
    workload: statefulSet,
    claims: [claim],
    carryOut,
    refused: (context, key, error) => noteRefusal(context, key, { statefulSet, target, claim }, error),
  };
}

/** The StatefulSet, where all is as it was decided on. Throws ClusterError. */
async function checkAgain(context: Context, { statefulSet, target, claim }: Lowering): Promise<StatefulSet> {
  const { cluster } = context;
  const [{ now, members }, pods] = await Promise.all([readAgain(context, statefulSet), listOwn(cluster, statefulSet)]);
  const end = now.start + target;
  const isNotified = [...pods.values()].every((pod) => pod.ordinal < end || claim.uids?.[pod.name] === pod.uid);
  const wanted = isNotified ? await readWanted(cluster, now, members) : undefined;
  if (typeof wanted === "number" && wanted <= target) return now;
  throw sizeChanged(statefulSet);
}

/** A claim that no process carries out is undone first. Throws as `openTransaction` does. */
export async function endOf(context: Context, observed: GroupObservation, claim: KnownClaim): Promise<OwnClaimEnd> {
  const end = await endOfScaleDown(context, observed.key, claim);
  if (end.kind !== "abandoned") return { kind: end.kind === "stands" ? "stands" : "over" };
  await undo(context, observed, claim, end);
  return { kind: "undone" };
}

/**
 * Rule R20: tells the members that are to stay that they do, and then removes the claim. The members that are to leave stay
 * prepared, and the next reconcile claims them again.
 */
async function undo(
  context: Context,
  observed: GroupObservation,
  claim: KnownClaim,
  { where, undoes }: Extract<ClaimEnd, { kind: "abandoned" }>,
): Promise<void> {
  const { cluster, pods: http } = context;
  const { statefulSet, pods } = where;
  const endpoint = statefulSet?.scaling?.delay?.endpoint;
  const members = observed.zones.map((zone) => asStatefulSet(zone.workload));
  const wanted = sizeOf(statefulSet && (await readWanted(cluster, statefulSet, members)));
  const end = wanted === undefined ? Number.POSITIVE_INFINITY : (statefulSet?.start ?? 0) + wanted;
  const stay = [...pods.values()].filter(({ ordinal }) => ordinal < end && isWithin(undoes, ordinal));
  if (stay.length === 0 || statefulSet === undefined || endpoint === undefined || http === undefined) {
    await writeClaims(context, observed, { out: [claim], into: [] });
    return;
  }
  const sinceMs = claim.sinceMs ?? claim.stampMs;
  // After this write no review joins the claim (rule R19): else a pod might leave that was just told to stay.
  const undone = renewClaim(claim, cluster.serverTimeMs(), undoing);
  const deadlineMs = await writeClaims(context, observed, { out: [claim], into: [undone] });
  const areNotified = await Promise.all(
    stay.map((pod) =>
      send(http, { statefulSet, endpoint }, pod, "stay", deadlineMs).then(hasAcceptedStay, (error: unknown) => {
        if (error instanceof PodHttpError) return false;
        throw error;
      }),
    ),
  );
  const isLong = cluster.serverTimeMs() - sinceMs >= undoForMs;
  const transaction = await openTransaction(context, observed.key);
  const own =
    transaction &&
    claimsBy(transaction.observed.ledger.claims, "scale-down", name).find(({ line }) => line === undone.line);
  if (transaction !== undefined && own !== undefined && (isLong || areNotified.every(Boolean)))
    await writeClaims(context, transaction.observed, { out: [own], into: [] });
}
