/** What is read to decide by triggers. */

import type { Context } from "../../shared/contract/context.ts";
import { ofStatefulSets } from "../../shared/groups/zones.ts";
import type { GroupObservation } from "../../shared/transaction/observe-group.ts";
import { isOpenRestart } from "../claims.ts";
import { decideTriggers, type TriggerDecision } from "./decide-trigger.ts";

/** What the triggers of a group ask for, by one observation. */
export function triggersOf({ ledger, zones }: GroupObservation): TriggerDecision {
  return decideTriggers(ofStatefulSets(zones), ledger.knownTriggers ?? new Map());
}

/**
 * True where a trigger has consequences: an old view may show the one of before, or lack the phase of a pod that was asked. None
 * has any while a restart is under way.
 */
export function needsList(observed: GroupObservation, { mode }: Context): boolean {
  if (mode === "shadow" || observed.ledger.claims.some(isOpenRestart)) return false;
  const { targets, known } = triggersOf(observed);
  return targets.length > 0 || known !== undefined;
}
