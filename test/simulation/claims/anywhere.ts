/** Claims beside whatever else a seed has drawn. */
import { claimKinds } from "../../../functions/shared/ledger/claim.ts";
import { alone } from "../alone.ts";
import { createDraw } from "../draw.ts";
import { isNight } from "../draw-plan.ts";
import type { Plan } from "../plan.ts";

/**
 * The troubles that a seed has drawn for itself, with claims beside them. The checkers of claims know one limit alone, and zones
 * that stay: a ledger that is deleted takes claims with it, which no protocol brings back.
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

/** How far the source that this is drawn from is from that of a seed's plan, which stays what it was. */
const claimSeeds = 2 ** 31;

/** Some seeds of the default plan have claims, too; not nights, nor where a later version keeps the ledger for a while. */
export function withClaims(plan: Plan, seed: number): Plan {
  if (isNight(plan) || plan.versions !== undefined || !createDraw(seed + claimSeeds).chance(0.06)) return plan;
  return claimingAnywhere(plan);
}
