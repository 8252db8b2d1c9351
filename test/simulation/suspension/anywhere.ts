/** Adds suspended volumes to whatever else a seed has drawn. */
import { alone } from "../alone.ts";
import type { Draw } from "../draw.ts";
import { isNight } from "../draw-plan.ts";
import type { Plan } from "../plan.ts";
import { drawOf, drawSuspension } from "./scenarios.ts";

/** The drawn plan with volumes that are suspended. Zones stay, and so do ledgers, whose claims would go with them. */
export function suspendingAnywhere(plan: Plan, draw: Draw): Plan {
  const gone = {
    scale: 0,
    loseLedger: 0,
    removeZone: 0,
    addZone: 0,
    recreate: 0,
    relabelTemplate: 0,
    zoneBudget: 0,
  };
  return {
    ...plan,
    recyclers: 0,
    budget: plan.budget && { maxUnavailable: 1, isPartitioned: false, delaySeconds: 0 },
    unpinned: 0,
    neighbours: alone,
    elsewhere: undefined,
    versions: undefined,
    safetyMs: plan.safetyMs + 150_000,
    suspension: drawSuspension(draw),
    every: { ...plan.every, ...gone, crash: plan.every.crash || 30_000, uninstall: draw.pick([0, 0, 120_000]) },
  };
}

/**
 * Adds such volumes to one in a hundred seeds of the default plan, but neither to nights nor to seeds that have something
 * similar already.
 */
export function withSuspension(plan: Plan, seed: number): Plan {
  const { versions, claims, scaling, skipLabels } = plan;
  if (isNight(plan) || [versions, claims, scaling, skipLabels].some((one) => one !== undefined)) return plan;
  const draw = drawOf(seed);
  return draw.chance(0.01) ? suspendingAnywhere(plan, draw) : plan;
}
