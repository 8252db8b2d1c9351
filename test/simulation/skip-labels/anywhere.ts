/** Adds owners whose pods have stop hooks to whatever else a seed has drawn. */
import { createDraw, type Draw } from "../draw.ts";
import { isNight } from "../draw-plan.ts";
import type { Plan } from "../plan.ts";
import { drawSkipLabels } from "./scenarios.ts";

/** Offset of the seed for skip labels, so that the plan of the seed itself stays the same. */
const skipLabelSeeds = 2 ** 28;

/** The drawn plan with such owners, without steps of all clocks: a wait would then last no certain time. */
export function skippingAnywhere(plan: Plan, draw: Draw): Plan {
  return {
    ...plan,
    safetyMs: plan.safetyMs + 30_000,
    skipLabels: drawSkipLabels(draw),
    every: { ...plan.every, farClock: 0, crash: plan.every.crash || 30_000 },
  };
}

/**
 * Adds such owners to one in a hundred seeds of the default plan, but neither to nights nor to seeds that have something
 * similar already.
 */
export function withSkipLabels(plan: Plan, seed: number): Plan {
  const { versions, claims, scaling } = plan;
  if (isNight(plan) || [versions, claims, scaling].some((one) => one !== undefined)) return plan;
  const draw = createDraw(seed + skipLabelSeeds);
  return draw.chance(0.01) ? skippingAnywhere(plan, draw) : plan;
}
