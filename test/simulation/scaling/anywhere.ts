/** Sizes that change beside whatever else a seed has drawn. */
import { alone } from "../alone.ts";
import { createDraw, type Draw } from "../draw.ts";
import { isNight } from "../draw-plan.ts";
import type { Plan } from "../plan.ts";
import { drawScaling } from "./scenarios.ts";

/** How far the source that this is drawn from is from that of a seed's plan, which stays what it was. */
const scalingSeeds = 2 ** 29;

/**
 * The troubles that a seed has drawn for itself, with sizes that another object says. No user changes these beside it: what comes
 * of two who say the size is theirs to bear. Zones stay, and so do ledgers, which a claim would be lost with.
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
  // Who leaves when a delay is over is decided by the clock of pods: where there is one, those of API servers agree with it.
  const isTimed = scaling.delayMs > 0 && !scaling.prepares;
  return {
    ...plan,
    skewMs: isTimed ? 0 : plan.skewMs,
    recyclers: 0,
    // One of partitions wants zones of one size, and the checkers of claims know one limit alone.
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

/** Some seeds of the default plan have sizes that change, too; neither nights, nor those with something else of the kind. */
export function withScaling(plan: Plan, seed: number): Plan {
  if (isNight(plan) || plan.versions !== undefined || plan.claims !== undefined) return plan;
  const draw = createDraw(seed + scalingSeeds);
  return draw.chance(0.02) ? scalingAnywhere(plan, draw) : plan;
}
