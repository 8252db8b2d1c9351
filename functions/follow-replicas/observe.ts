/** The observation of a group whose StatefulSets follow or mirror: the wanted sizes, claims, and recent refusals. */

import type { Context } from "../shared/contract/context.ts";
import { ofStatefulSets } from "../shared/groups/zones.ts";
import { openQuestions, withAnswers } from "../shared/health/ask-pods.ts";
import { claimsBy } from "../shared/ledger/claim.ts";
import { followerSizes, type Scales } from "../shared/scaling/follower-sizes.ts";
import { refusedSizes } from "../shared/scaling/resize.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import { decide, type FollowSnapshot, leaversBy } from "./decide.ts";

export const name = "follow-replicas";

export function snapshotOf(context: Context, observed: GroupObservation, scales: Scales): FollowSnapshot {
  const { key, departed, strayClaims, nowMs, ledger } = observed;
  const zones = ofStatefulSets(observed.zones);
  const members = zones.map(({ workload }) => workload);
  return {
    group: key.group,
    nowMs,
    zones,
    departed,
    strayClaims,
    followers: followerSizes(members, scales, nowMs),
    claims: claimsBy(ledger.claims, "scale-down", name),
    times: {
      ledger: ledger.lastDownscales ?? {},
      isMalformed: ledger.hasMalformedTimes === true,
      ledgerSinceMs: Number.isNaN(ledger.createdMs) ? nowMs : ledger.createdMs,
    },
    refused: refusedSizes(context, key),
    questions: openQuestions(context, observed),
  };
}

/** Rule R22: Sluice asks the pods that would leave, if their StatefulSets have a question. */
export function ask(
  context: Context,
  { key }: GroupObservation,
  snapshot: FollowSnapshot,
): Promise<FollowSnapshot> | undefined {
  if (snapshot.questions === undefined) return undefined;
  return withAnswers(context, name, key, snapshot, (then) => {
    const verdict = decide(then);
    const targets = verdict.kind === "wait" ? [] : verdict.targets;
    return targets.flatMap((one) => leaversBy(then, one).map((pod) => ({ statefulSet: one.statefulSet, pod })));
  });
}
