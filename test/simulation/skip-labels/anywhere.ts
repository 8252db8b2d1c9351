/** Owners whose pods have stop hooks, beside whatever else a seed has drawn. */
import { createDraw, type Draw } from "../draw.ts";
import { isNight } from "../draw-plan.ts";
import type { Plan } from "../plan.ts";
import { drawSkipLabels } from "./scenarios.ts";

/** How far the source that this is drawn from is from that of a seed's plan, which stays what it was. */
const skipLabelSeeds = 2 ** 28;

/** The troubles that a seed has drawn, but for clocks that are all set by minutes: what is waited for is no time then. */
export function skippingAnywhere(plan: Plan, draw: Draw): Plan {
  return {
    ...plan,
    safetyMs: plan.safetyMs + 30_000,
    skipLabels: drawSkipLabels(draw),
    every: { ...plan.every, farClock: 0, crash: plan.every.crash || 30_000 },
  };
}

/** One in a hundred seeds of the default plan has such owners, too; neither nights, nor those with something else of the kind. */
export function withSkipLabels(plan: Plan, seed: number): Plan {
  const { versions, claims, scaling } = plan;
  if (isNight(plan) || [versions, claims, scaling].some((one) => one !== undefined)) return plan;
  const draw = createDraw(seed + skipLabelSeeds);
  return draw.chance(0.01) ? skippingAnywhere(plan, draw) : plan;
}
