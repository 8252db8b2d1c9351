import { namedLikeOurs } from "../shared/objects/ours.ts";
import * as vocabulary from "../shared/objects/vocabulary.ts";
import type {
  AdmissionAnswer,
  AdmissionDefinition,
  AdmissionRequest,
  Context,
  Denied,
} from "../shared/pass/definition.ts";
import { ledgerNeeds } from "../shared/pass/ledger-access.ts";
import { announceRefusal } from "../shared/pass/record.ts";
import { sweepBudgetLedgers } from "../shared/pass/sweep-ledgers.ts";
import { allow, isFinal, tooLate } from "../shared/review/answers.ts";
import { GroupCommit, refuseFailure } from "../shared/review/commit.ts";
import { type Alone, decideAlone, type Eviction, whileNamed } from "./choose.ts";
import { decide, type Group } from "./decide.ts";
import {
  type Asking,
  keepOf,
  name,
  observe,
  observeAfresh,
  observeAlone,
  pinningPath,
  plainPaths,
  readAsking,
} from "./observe.ts";

type Reviews = GroupCommit<Eviction, Group>;

/** Allows an eviction only within the ZoneAwarePodDisruptionBudget of its pod, and reserves it in the group's ledger. */
export const evaluateEviction: AdmissionDefinition = {
  name,
  concern: "keep evictions within zone-aware disruption budgets",
  needs: [
    { group: "", resource: "pods", verbs: ["get", "list", "watch"] },
    { group: "apps", resource: "statefulsets", verbs: ["get", "list", "watch"] },
    {
      group: "rollout-operator.grafana.com",
      resource: "zoneawarepoddisruptionbudgets",
      verbs: ["list", "watch"],
    },
    { group: "policy", resource: "poddisruptionbudgets", verbs: ["list", "watch"] },
    ...ledgerNeeds,
  ],
  reads: [vocabulary.rolloutGroup],
  writes: vocabulary.ledgerEntries,
  paths: [...plainPaths, pinningPath],
  registration: {
    // Only a mutating webhook may pin the uid of the pod that was reviewed (rule R11).
    kind: "Mutating",
    webhook: "pod-eviction",
    path: pinningPath,
    rule: { apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods/eviction"] },
    // It reserves the pod; dry runs leave no trace (rule R16).
    sideEffects: "NoneOnDryRun",
    // Without replicas nobody would answer for them, and the nodes that they hang on could not be drained.
    matchConditions: [{ name: "not-a-pod-of-sluice", expression: `!(${namedLikeOurs})` }],
  },
  // An Eviction is some hundred bytes; the rest of a review says who asks, with all the groups that they are in.
  bodyLimitBytes: 1024 * 1024,
  keepOf,
  whenBroken: "closed",
  readsViews: true,
  peerReasons: {
    allowed: "allowed",
    exempt: "pod-not-ready",
    "out-of-scope": "pod-not-in-scope",
    "invalid-request": "invalid-request",
    "namespace-not-served": "invalid-request",
    "pod-gone": "pod-not-found",
    "several-budgets": "cfg-not-found",
    "invalid-budget": "cfg-not-found",
    "budget-spans-groups": "cfg-not-found",
    "no-ordinal": "invalid-request",
    "no-statefulset": "sts-no-found",
    "max-unavailable-zero": "max-unavailable-0",
    "too-few-zones": "min-sts-not-found",
    "partition-not-identified": "partition-not-identified",
  },
  open(context) {
    const reviews: Reviews = new GroupCommit(context, { name, observe, decide });
    return { review: async (request) => inShadow(context, await review(context, reviews, request)) };
  },
  sweep: (context) => sweepBudgetLedgers(context, name),
};

async function review(context: Context, reviews: Reviews, request: AdmissionRequest): Promise<AdmissionAnswer> {
  const asking = readAsking(request);
  if ("allowed" in asking) return asking;
  const { cluster } = context;
  let askedMs = cluster.monotonicMs();
  let alone = await lookInTime(context, reviews, asking, request.deadlineMs);
  if ("allowed" in alone) return alone;
  let early = decideAlone(alone);
  if ("allowed" in early && isToBeSure(early, alone.eviction)) {
    askedMs = cluster.monotonicMs();
    alone = await lookInTime(context, reviews, asking, request.deadlineMs, observeAfresh);
    if ("allowed" in alone) return alone;
    early = decideAlone(alone);
  }
  const { dryRun } = asking;
  const answer =
    "allowed" in early
      ? whileNamed(early, alone.eviction, cluster.monotonicMs() - askedMs)
      : await reviews.submit(early, { subject: alone.eviction, dryRun, deadlineMs: request.deadlineMs });
  if (!answer.allowed && !dryRun && alone.owner !== undefined) announceRefusal(context, name, alone.owner, answer);
  return answer;
}

/**
 * True for what must not rest on a memory that may be behind: a refusal that ends a drain; and that no budget selects a pod,
 * where nothing pins its uid. The pod of that name may be another by now, which a budget does select.
 */
function isToBeSure(answer: AdmissionAnswer, { isPinned }: Eviction): boolean {
  return isFinal(answer) || (answer.allowed && answer.guard === "out-of-scope" && !isPinned);
}

/** What memory does not have is asked of the API server: when that fails or takes too long, the answer is a 429 all the same. */
async function lookInTime(
  context: Context,
  { deadlines }: Reviews,
  asking: Asking,
  deadlineMs: number,
  look = observeAlone,
): Promise<Alone | Denied> {
  const { promise, resolve, reject } = Promise.withResolvers<Alone | Denied>();
  const waiting = { deadlineMs, late: () => resolve(tooLate()) };
  deadlines.add(waiting);
  look(context, asking).then(resolve, reject);
  try {
    return await promise;
  } catch (error) {
    const refusal = refuseFailure(error, `pod ${asking.name}`);
    if (refusal === undefined) throw error;
    return refusal;
  } finally {
    deadlines.delete(waiting);
  }
}

/** Rule R16: in shadow mode nobody is held back, and everybody is told what would have been. */
function inShadow({ mode }: Context, answer: AdmissionAnswer): AdmissionAnswer {
  if (mode === "act") return answer;
  if (answer.allowed) return { ...answer, patch: [] };
  const warnings = [`in shadow mode; otherwise refused with ${answer.code}: ${answer.sentence}`];
  return allow(answer.guard, { warnings, zone: answer.zone ?? "" });
}
