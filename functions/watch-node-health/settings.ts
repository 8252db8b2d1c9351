/** The settings of the function. Pure. */

import { parseDuration, setting, type ValuesOf } from "../shared/base/settings.ts";
import { hourMs, secondMs } from "../shared/clock/durations.ts";
import { fenceMark } from "../shared/fencing/mark.ts";
import { fenceNamespace, fenceStormPercent } from "../shared/fencing/settings.ts";

export const settings = {
  nodeHealthAfterMs: setting<number | "off">({
    name: "NODE_HEALTH_AFTER",
    fallback: "off",
    meaning: "a node that is not Ready for so long is marked, and one that is Ready for so long loses that mark",
    grammar: "a Go duration from 1s to 24h, such as 60s, or off",
    parse: (text) => (text === "off" ? text : parseDuration(text, secondMs, 24 * hourMs)),
  }),
  fenceStormPercent,
  fenceNamespace,
  fenceMark,
} as const;

export type HealthSettings = ValuesOf<typeof settings>;
