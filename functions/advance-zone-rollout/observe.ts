/** What a rollout sees of a group. Annotations were parsed at the border: `decide` never reads a string that may be wrong. */
import type { Observed } from "../shared/pass/observation.ts";
import type { RolloutSnapshot } from "./decide.ts";

export const name = "advance-zone-rollout";

export function observe(observed: Observed): RolloutSnapshot {
  const { key, nowMs, zones, departed, strayClaims, view, refusals } = observed;
  return { key, self: name, nowMs, zones, departed, strayClaims, surroundings: view, refusals };
}
