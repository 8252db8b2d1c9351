/** Adds changing sizes to whatever else a seed has drawn. */
import { alone } from "../alone.ts";
import { createDraw, type Draw } from "../draw.ts";
import { isNight } from "../draw-plan.ts";
import type { Plan } from "../plan.ts";
import { drawScaling } from "./scenarios.ts";

/** Offset of the seed for sizes, so that the plan of the seed itself stays the same. */
const scalingSeeds = 2 ** 29;

/**
 * The drawn plan with sizes that another object sets. No user changes sizes beside it, because two who set the same size bear
 * the result themselves. Zones stay, and so do ledgers, whose claims would go with them.
 */
export function scalingAnywhere(plan: Plan, draw: Draw): Plan {
  const gone = {
    scale: 0,
    loseLedger: 0,
    editLedger: 0,
    removeZone: 0,
    addZone: 0,
    recreate: 0,
    relabel: 0,
    relabelTemplate: 0,
    zoneBudget: 0,
    farClock: 0,
  };
  const scaling = drawScaling(draw);
  // The clock of pods decides when a delay is over, so the clocks of API servers must agree with it.
  const isTimed = scaling.delayMs > 0 && !scaling.prepares;
  return {
    ...plan,
    skewMs: isTimed ? 0 : plan.skewMs,
    recyclers: 0,
    // A budget of partitions wants zones of one size, and the checkers of claims know only one limit.
    budget: plan.budget && { maxUnavailable: 1, isPartitioned: false, delaySeconds: 0 },
    unpinned: 0,
    neighbours: alone,
    elsewhere: undefined,
    versions: undefined,
    safetyMs: plan.safetyMs + 60_000,
    scaling,
    every: { ...plan.every, ...gone, ...(isTimed ? { clock: 0 } : {}), crash: plan.every.crash || 30_000 },
  };
}

/**
 * Adds changing sizes to some seeds of the default plan, but neither to nights nor to seeds that have something similar
 * already.
 */
export function withScaling(plan: Plan, seed: number): Plan {
  if (isNight(plan) || plan.versions !== undefined || plan.claims !== undefined) return plan;
  const draw = createDraw(seed + scalingSeeds);
  return draw.chance(0.02) ? scalingAnywhere(plan, draw) : plan;
}
