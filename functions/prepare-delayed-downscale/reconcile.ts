/** One pass over a group: claims that are over go, pods are told, and then it is decided whether a zone is made smaller. */

import type { Context } from "../shared/contract/context.ts";
import type { ReconcileResult } from "../shared/contract/definition.ts";
import { leaversOf } from "../shared/groups/refuse-claim.ts";
import { openQuestions, withAnswers } from "../shared/health/ask-pods.ts";
import { askedBy, skipUnconcerned } from "../shared/reconcile/concern.ts";
import { type GroupReconciler, reconcileGroup } from "../shared/reconcile/perform.ts";
import { refusedSizes } from "../shared/scaling/resize.ts";
import { claimsBy, madeBy, openTransaction } from "../shared/transaction/claims.ts";
import { Conflict, forgetLedger, waitForLedger } from "../shared/transaction/ledger-copy.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import type { GroupKey } from "../shared/workloads/statefulsets.ts";
import { actOn, endClaims, telling } from "./act.ts";
import { type Delayed, type DelaySnapshot, decide, type Lowering } from "./decide.ts";
import { isDelayed, name } from "./observe.ts";
import { type Round, tellPods } from "./tell-pods.ts";

const contendedMs = 1_000;
const isOwn = madeBy(name);

/** Throws ClusterError where trying again later can help. */
export async function run(
  context: Context,
  key: GroupKey,
  wake: { readonly sweep: boolean },
): Promise<ReconcileResult> {
  const idle = await skipUnconcerned(context, key, wake, { asks: askedBy(isDelayed), isOwn });
  if (idle !== undefined) return idle;
  let round: Round | undefined;
  try {
    round = await lookAndTell(context, key, wake.sweep);
  } catch (error) {
    forgetLedger(context.memoryOf(key));
    // What is the matter with a ledger that cannot be used is said by the pass itself.
    if (error instanceof Conflict) context.reporter.conflict(key, name);
    else if (waitForLedger(error) === undefined) throw error;
  }
  const outcome = await reconcileGroup(context, gateOf(round), key, wake);
  const soonMs = round === undefined ? contendedMs : round.requeueAfterMs;
  return soonMs === undefined
    ? outcome
    : { ...outcome, requeueAfterMs: Math.min(soonMs, outcome.requeueAfterMs ?? soonMs) };
}

/** Reads the ledger anew, because another function may have claimed the pods that would be told to stay. */
async function lookAndTell(context: Context, key: GroupKey, sweep: boolean): Promise<Round | undefined> {
  forgetLedger(context.memoryOf(key));
  const look = await openTransaction(context, key);
  if (look === undefined) return undefined;
  const isWriting = context.mode === "act" && look.young === undefined;
  const observed = isWriting ? await endClaims(context, look.observed) : look.observed;
  return observed && tellPods(context, observed, sweep);
}

function gateOf(round: Round | undefined): GroupReconciler<DelaySnapshot, Lowering> {
  return {
    name,
    telling,
    decide,
    ask,
    actOn,
    observe: (observed, context) => snapshotOf(context, observed, round),
  };
}

/** What was found and told, over the StatefulSets and the ledger that are decided on. */
function snapshotOf(context: Context, observed: GroupObservation, round: Round | undefined): DelaySnapshot {
  const { delayed = [], askedAtMs = 0 } = round ?? {};
  const { key, zones, departed, strayClaims, nowMs, ledger } = observed;
  const now = new Map(zones.map(({ statefulSet }) => [statefulSet.uid, statefulSet]));
  const asNow = delayed.flatMap((one): Delayed[] => {
    const statefulSet = now.get(one.statefulSet.uid);
    if (statefulSet === undefined) return [];
    const delayMs = statefulSet.scaling?.delay?.delayMs;
    if ("held" in one) return [{ ...one, statefulSet }];
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
    claims: claimsBy({ ...observed, ledger }, "scale-down", name),
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
      const own = then.zones.find((zone) => zone.statefulSet.uid === statefulSet.uid);
      return own === undefined ? [] : leaversOf(own, claim).map((pod) => ({ statefulSet, pod }));
    });
  });
}
