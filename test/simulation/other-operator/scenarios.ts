/** Plans in which rollout-operator comes and goes beside rollouts, drains and downscales, and processes are killed anywhere. */
import type { Draw } from "../draw.ts";
import type { Plan, PlannedOperator } from "../plan.ts";
import { never, plain } from "../rules.ts";
import { drawScaling } from "../scaling/scenarios.ts";
import { noFaults } from "../simulated-cluster.ts";
import { noWatchFaults } from "../simulated-watch.ts";

export function drawOperator(draw: Draw): PlannedOperator {
  return {
    replicas: draw.pick([1, 1, 2]),
    awayMs: draw.pick([40_000, 90_000]),
    staysMs: draw.pick([20_000, 60_000, 90_000]),
    isListed: draw.chance(0.5),
    refusedMs: draw.pick([0, 0, 20_000, 90_000]),
  };
}

/** Two zones whose sizes another object sets, with all that Sluice does to them, beside an operator that comes and goes. */
export function standing(plan: Plan, draw: Draw, changes: Partial<Plan> = {}): Plan {
  const watching = draw.chance(0.5);
  const isStale = draw.chance(0.5);
  const prepares = draw.chance(0.7);
  return standingWith(plan, drawOperator(draw), {
    scaling: { ...drawScaling(draw), delayMs: 20_000, prepares },
    // Where pods are told some time before they leave, the clocks of API servers must agree with theirs.
    skewMs: prepares ? draw.pick([0, 14_000]) : 0,
    dieAfterWrite: draw.pick([0, 0.1]),
    watching,
    elsewhere: draw.chance(0.3) ? { isNamesake: draw.chance(0.5), ending: "rolls" } : undefined,
    faults: {
      ...noFaults,
      latencyMs: draw.pick([2, 40]),
      loseReply: draw.pick([0, 0.02]),
      refuse: draw.pick([0, 0, 0.05]),
      lateList: draw.pick([0, 0.2]),
      oldList: isStale ? 0.5 : 0,
      watch: { ...noWatchFaults, lagMs: isStale ? 3_000 : 0, freeze: isStale ? 0.05 : 0 },
    },
    loseEvents: draw.pick([0, 0.3, 1]),
    doubleEvents: draw.pick([0, 0.2]),
    evictionWaitMs: draw.pick([0, 8_000]),
    every: {
      ...never,
      evict: 15_000,
      changeTemplate: 40_000,
      crash: draw.pick([0, 15_000]),
      crashWebhook: draw.pick([0, 30_000]),
      stopProcess: draw.pick([0, 0, 60_000]),
      clock: prepares ? draw.pick([0, 30_000]) : 0,
    },
    ...changes,
  });
}

/** The same with the caller's choice of the operator and no other trouble. */
export function standingWith(plan: Plan, otherOperator: PlannedOperator, changes: Partial<Plan> = {}): Plan {
  return plain(plan, {
    zones: 2,
    recyclers: 0,
    webhooks: 2,
    budget: { maxUnavailable: 1, isPartitioned: false, delaySeconds: 0 },
    loseEvictions: 0,
    slowEvictions: 0,
    retryMs: 10_000,
    wholeNodes: 0,
    isBlocked: false,
    safetyMs: 150_000,
    sweepMs: 20_000,
    scaling: {
      ...{ delayMs: 20_000, prepares: true, follows: false, everyMs: 20_000 },
      ...{ refuse: 0, rubbish: 0, silent: 0, lose: 0, late: 0, slow: 0 },
    },
    otherOperator,
    every: { ...never, evict: 15_000, changeTemplate: 40_000 },
    ...changes,
  });
}
