/** The settings that limit how many nodes are fenced. Pure. */

import { mostFencesOfNode } from "../shared/annotations/fencing-slots.ts";
import { parseDuration, setting, type ValuesOf } from "../shared/base/settings.ts";
import { hourMs } from "../shared/clock/durations.ts";
import { fenceStormPercent, parseWhole } from "../shared/fencing/settings.ts";

/** More slots than this would make the Lease of the slots too long. */
const mostConcurrent = 100;

export const brakeSettings = {
  fenceMaxConcurrent: setting<number>({
    name: "FENCE_MAX_CONCURRENT",
    fallback: "1",
    meaning: "so many fences go on at once, until there is evidence or for 10 minutes",
    grammar: `a whole number from 1 to ${mostConcurrent}`,
    parse: (text) => parseWhole(text, 1, mostConcurrent),
  }),
  fenceStormPercent,
  fenceStormCooldownMs: setting<number>({
    name: "FENCE_STORM_COOLDOWN",
    fallback: "5m",
    meaning: "after a storm no fence begins for this time",
    grammar: "a Go duration from 0 to 1h, such as 5m",
    parse: (text) => parseDuration(text, 0, hourMs),
  }),
  fenceMostPerHour: setting<number>({
    name: "FENCE_MOST_PER_HOUR",
    fallback: "3",
    meaning: "a node that was fenced so often within an hour is emptied, and stays out until its mark is removed",
    grammar: `a whole number from 1 to ${mostFencesOfNode}`,
    parse: (text) => parseWhole(text, 1, mostFencesOfNode),
  }),
} as const;

export type BrakeSettings = ValuesOf<typeof brakeSettings>;
