/** What is read to decide by triggers. */

import type { Context } from "../../shared/contract/context.ts";
import { ofStatefulSets } from "../../shared/groups/zones.ts";
import { type GroupObservation, observeGroup } from "../../shared/transaction/observe-group.ts";
import { decideTriggers, type TriggerDecision } from "./decide-trigger.ts";

export interface TriggerObservation {
  readonly triggers: TriggerDecision;
  /** What they were decided by. Nothing else that this pass decides may rest on an older one. */
  readonly observed: GroupObservation;
}

/**
 * An old view may show the trigger of before, or lack the phase of a pod that was asked, so that all is listed before anything
 * comes of it. Throws ClusterError.
 */
export async function observeTriggers(context: Context, observed: GroupObservation): Promise<TriggerObservation> {
  const { ledger } = observed;
  const known = ledger.knownTriggers ?? new Map();
  const decision = decideTriggers(ofStatefulSets(observed.zones), known);
  const isOfConsequence = decision.targets.length > 0 || decision.known !== undefined;
  if (!isOfConsequence || context.mode === "shadow") return { triggers: decision, observed };
  const listed = await observeGroup(context, ledger, { permitSinceMs: undefined, consistent: true });
  return { triggers: decideTriggers(ofStatefulSets(listed.zones), known), observed: listed };
}
