/** What a rollout sees of a group. Annotations were parsed at the border: `decide` never reads a string that may be wrong. */
import type { Observed } from "../shared/observation.ts";
import type { Group } from "./decide.ts";

export const name = "advance-zone-rollout";

export function observe({ key, nowMs, zones, refusals }: Observed): Group {
  return { name: key.group, self: name, nowMs, zones, refusals };
}
