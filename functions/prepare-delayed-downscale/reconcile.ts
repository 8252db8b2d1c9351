/** One reconcile of a group: it removes claims that are over, tells pods, and decides whether a zone is made smaller. */

import type { Context } from "../shared/contract/context.ts";
import { leaversOf } from "../shared/groups/refuse-claim.ts";
import { ofStatefulSets } from "../shared/groups/zones.ts";
import { openQuestions, withAnswers } from "../shared/health/ask-pods.ts";
import { claimsBy } from "../shared/ledger/claim.ts";
import { askedBy } from "../shared/reconcile/concern.ts";
import type { ClaimingFunction } from "../shared/reconcile/reconcile-claims.ts";
import { refusedSizes } from "../shared/scaling/resize.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import { actOn, endOf, eventPolicy } from "./act.ts";
import { type Delayed, type DelaySnapshot, decide, type Lowering } from "./decide.ts";
import { notifyPods, type Round } from "./notify-pods.ts";
import { isDelayed, name } from "./observe.ts";

export const delayedDownscale: ClaimingFunction<DelaySnapshot, Lowering, Round> = {
  name,
  claimKind: "scale-down",
  eventPolicy,
  asks: askedBy(isDelayed),
  endOf,
  prepare: (context, observed, { sweep }) => notifyPods(context, observed, sweep),
  observe: (observed, context, round) => snapshotOf(context, observed, round),
  decide,
  ask,
  actOn,
};

/** What was found and told, over the StatefulSets and the ledger that are decided on. */
function snapshotOf(context: Context, observed: GroupObservation, round: Round | undefined): DelaySnapshot {
  const { delayed = [], askedAtMs = 0 } = round ?? {};
  const { key, departed, strayClaims, nowMs } = observed;
  const zones = ofStatefulSets(observed.zones);
  const now = new Map(zones.map(({ workload }) => [workload.uid, workload]));
  const asNow = delayed.flatMap((one): Delayed[] => {
    const statefulSet = now.get(one.statefulSet.uid);
    if (statefulSet === undefined) return [];
    const delayMs = statefulSet.scaling?.delay?.delayMs;
    if ("blocked" in one) return [{ ...one, statefulSet }];
    return delayMs === undefined ? [] : [{ ...one, statefulSet, delayMs }];
  });
  asNow.sort((one, other) => (one.statefulSet.name < other.statefulSet.name ? -1 : 1));
  return {
    group: key.group,
    nowMs,
    askedAtMs,
    zones,
    departed,
    strayClaims,
    delayed: asNow,
    claims: claimsBy(observed.ledger.claims, "scale-down", name),
    refused: refusedSizes(context, key),
    questions: openQuestions(context, observed),
    shadow: context.mode === "shadow",
  };
}

/** Rule R22: the pods that would leave, and whose StatefulSets ask, are asked. */
function ask(context: Context, { key }: GroupObservation, snapshot: DelaySnapshot): Promise<DelaySnapshot> | undefined {
  if (snapshot.questions === undefined) return undefined;
  return withAnswers(context, name, key, snapshot, (then) => {
    const verdict = decide(then);
    const targets = verdict.kind === "wait" ? [] : verdict.targets;
    return targets.flatMap(({ statefulSet, claim }) => {
      const own = then.zones.find((zone) => zone.workload.uid === statefulSet.uid);
      return own === undefined ? [] : leaversOf(own, claim).map((pod) => ({ statefulSet, pod }));
    });
  });
}
