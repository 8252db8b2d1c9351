/** The order of one review: the request, the pod, the decision without a ledger or with one, and the answer. */

import { isFinal, tooLate } from "../shared/admission/answers.ts";
import type { AdmissionAnswer, AdmissionHandler, AdmissionRequest, Denied } from "../shared/admission/definition.ts";
import { recordRefusal, recordWait } from "../shared/admission/refusal-events.ts";
import { refuseBesideOperator } from "../shared/admission/stand-by.ts";
import { withinDeadline } from "../shared/clock/deadlines.ts";
import type { Context } from "../shared/contract/context.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import { withAnswers } from "../shared/health/ask-pods.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import type { GroupKey } from "../shared/workloads/statefulsets.ts";
import { decide, type EvictionSnapshot } from "./decide.ts";
import { type Alone, decideAlone, groupOfAnswer, whileNamed } from "./decide-alone.ts";
import { goersOf } from "./decide-asked.ts";
import { createWait } from "./eviction-wait.ts";
import { GroupCommit, refuseUnusable } from "./group-commit/commit.ts";
import type { Eviction } from "./group-commit/sort-decisions.ts";
import { type Asking, confirm, name, observe, observeAfresh, observeAlone, readAsking } from "./observe.ts";

/** Opens the function for the reviews of one process. Reviews of one group that come together are decided together. */
export function createHandler(context: Context): AdmissionHandler {
  const reviews = new GroupCommit(context, { name, observe, decide, ask, confirm });
  const waitOf = createWait(context);
  return {
    review: async (request) => review(context, reviews, request, waitOf(request)),
    stop: () => reviews.stop(),
    parked: () => reviews.parked(),
  };
}

/** Rule R22: asks each pod that would go by the decision, if its StatefulSet has a question. */
export function ask(
  context: Context,
  { key, zones }: GroupObservation,
  snapshot: EvictionSnapshot,
): Promise<EvictionSnapshot> | undefined {
  if (snapshot.questions === undefined) return undefined;
  return withAnswers(context, name, key, snapshot, (then) => goersOf(zones, decide(then)));
}

async function review(
  context: Context,
  reviews: GroupCommit<EvictionSnapshot>,
  request: AdmissionRequest,
  parkUntilMs: number | undefined,
): Promise<AdmissionAnswer> {
  const asking = readAsking(request);
  if ("allowed" in asking) return asking;
  const { cluster } = context;
  let askedMs = cluster.monotonicMs();
  let alone = await observeInTime(context, reviews, asking, request.deadlineMs);
  if ("allowed" in alone) return alone;
  let early = decideAlone(alone);
  if ("allowed" in early && isToBeSure(early, alone.eviction)) {
    askedMs = cluster.monotonicMs();
    alone = await observeInTime(context, reviews, asking, request.deadlineMs, observeAfresh);
    if ("allowed" in alone) return alone;
    early = decideAlone(alone);
  }
  const { dryRun } = asking;
  const { deadlineMs, signal } = request;
  const { owner } = alone;
  const onPark = (refusal: Denied) => owner && recordWait(context, name, owner, refusal);
  const { eviction } = alone;
  const decideByLedger = async (key: GroupKey): Promise<AdmissionAnswer> =>
    (await refuseInTime(context, reviews, key, owner?.name, deadlineMs)) ??
    reviews.submit(key, { eviction, dryRun, deadlineMs, signal, parkUntilMs, onPark });
  const answer =
    "allowed" in early ? whileNamed(early, eviction, cluster.monotonicMs() - askedMs) : await decideByLedger(early);
  if (!answer.allowed && !dryRun && owner !== undefined)
    recordRefusal(context, name, owner, answer, eventReasons.evictionRefused);
  const group = "allowed" in early ? groupOfAnswer(alone, answer) : early.group;
  return group === undefined ? answer : { ...answer, group };
}

/**
 * True for an answer that must not rest on a cache that may be behind: a refusal that ends a drain, or an allowance of a pod
 * that no budget selects, if nothing pins its uid. Another pod may have the name by now, and a budget may select that.
 */
function isToBeSure(answer: AdmissionAnswer, { isPinned }: Eviction): boolean {
  return isFinal(answer) || (answer.allowed && answer.guard === "out-of-scope" && !isPinned);
}

/** The refusal while rollout-operator runs in the namespace of the deciding ledger; undefined otherwise. */
async function refuseInTime(
  context: Context,
  { deadlines }: GroupCommit<EvictionSnapshot>,
  { namespace }: GroupKey,
  zone: string | undefined,
  deadlineMs: number,
): Promise<Denied | undefined> {
  if (context.otherOperator === undefined) return undefined;
  const refuse = () => refuseBesideOperator(context, namespace, zone);
  return withinDeadline<Denied | undefined>(deadlines, deadlineMs, refuse, tooLate);
}

/** Reads the pod. If the API server must be asked, and fails or takes too long, the answer is a 429. */
async function observeInTime(
  context: Context,
  { deadlines }: GroupCommit<EvictionSnapshot>,
  asking: Asking,
  deadlineMs: number,
  read = observeAlone,
): Promise<Alone | Denied> {
  try {
    return await withinDeadline<Alone | Denied>(deadlines, deadlineMs, () => read(context, asking), tooLate);
  } catch (error) {
    const refusal = refuseUnusable(error, `pod ${asking.name}`);
    if (refusal === undefined) throw error;
    return refusal;
  }
}
