/** A rollout's observation of a group. Annotations were parsed at the border, so that `decide` never reads a malformed text. */

import type { Context } from "../shared/contract/context.ts";
import { ofStatefulSets } from "../shared/groups/zones.ts";
import { openQuestions, withAnswers } from "../shared/health/ask-pods.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import { decide, type RolloutSnapshot } from "./decide.ts";

export const name = "advance-zone-rollout";

export function observe(observed: GroupObservation, context: Context): RolloutSnapshot {
  const { key, nowMs, zones, departed, strayClaims, view, refusals } = observed;
  const questions = openQuestions(context, observed);
  const rest = { departed, strayClaims, surroundings: view, refusals, questions };
  return { key, self: name, nowMs, zones: ofStatefulSets(zones), ...rest };
}

/**
 * Rule R22: Sluice asks the pods that would go, if their StatefulSets have a question. A broken pod is replaced without a
 * question.
 */
export function ask(
  context: Context,
  { key }: GroupObservation,
  snapshot: RolloutSnapshot,
): Promise<RolloutSnapshot> | undefined {
  if (snapshot.questions === undefined) return undefined;
  return withAnswers(context, name, key, snapshot, (then) => {
    const verdict = decide(then);
    return verdict.kind === "wait" ? [] : verdict.targets.filter((target) => target.action === "delete");
  });
}
