/** Adds claims to whatever else a seed has drawn. */
import { claimKinds } from "../../../functions/shared/ledger/claim.ts";
import { alone } from "../alone.ts";
import { createDraw } from "../draw.ts";
import { isNight } from "../draw-plan.ts";
import type { Plan } from "../plan.ts";

/**
 * The drawn plan with claims. It keeps its zones and ledgers and has one limit, because the checkers of claims know no other,
 * and because no protocol restores the claims of a deleted ledger.
 */
export function claimingAnywhere(plan: Plan): Plan {
  const gone = {
    loseLedger: 0,
    removeZone: 0,
    recreate: 0,
    relabel: 0,
    relabelTemplate: 0,
    zoneBudget: 0,
    farClock: 0,
  };
  return {
    ...plan,
    recyclers: 0,
    budget: plan.budget && { maxUnavailable: 1, isPartitioned: false, delaySeconds: 0 },
    unpinned: 0,
    neighbours: alone,
    safetyMs: plan.safetyMs + 150_000,
    claims: { kinds: claimKinds, everyMs: 3_000, isForeign: true },
    every: { ...plan.every, ...gone, crash: plan.every.crash || 30_000 },
  };
}

/** Offset of the seed for claims, so that the plan of the seed itself stays the same. */
const claimSeeds = 2 ** 31;

/**
 * Adds claims to some seeds of the default plan, but neither to nights nor to seeds in which a later version keeps the ledger.
 */
export function withClaims(plan: Plan, seed: number): Plan {
  if (isNight(plan) || plan.versions !== undefined || !createDraw(seed + claimSeeds).chance(0.06)) return plan;
  return claimingAnywhere(plan);
}
