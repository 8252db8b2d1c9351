/** Plans in which sizes change beside rollouts and evictions, and the processes that change them are killed anywhere. */
import type { Draw } from "../draw.ts";
import type { Plan, PlannedScaling } from "../plan.ts";
import { never, plain } from "../rules.ts";
import { noFaults } from "../simulated-cluster.ts";

/** Draws the sizes of a seed. */
export function drawScaling(draw: Draw): PlannedScaling {
  return {
    delayMs: draw.pick([0, 20_000, 20_000, 60_000]),
    prepares: draw.chance(0.5),
    follows: draw.chance(0.3),
    everyMs: draw.pick([20_000, 60_000]),
    refuse: draw.pick([0, 0.1]),
    rubbish: draw.pick([0, 0.05]),
    silent: draw.pick([0, 0.05]),
    lose: draw.pick([0, 0.03]),
    late: draw.pick([0, 0.1]),
    slow: draw.pick([0, 0.3]),
  };
}

/** Three zones that mirror one template, or follow one of them. Their pods may be told some time before they leave. */
export function scaling(plan: Plan, draw: Draw, changes: Partial<Plan> = {}): Plan {
  return sized(plan, drawScaling(draw), {
    faults: { ...noFaults, latencyMs: 5, loseReply: 0.02, refuse: draw.pick([0, 0.05]) },
    every: {
      ...never,
      evict: 15_000,
      changeTemplate: 90_000,
      crash: 20_000,
      deletePod: draw.pick([0, 60_000]),
      stopProcess: draw.pick([0, 60_000]),
    },
    ...changes,
  });
}

/** Zones whose pods are told right before they leave, until a user removes all annotations about that while claims stand. */
export function forgetful(plan: Plan): Plan {
  const usual = {
    delayMs: 0,
    prepares: true,
    follows: false,
    everyMs: 20_000,
    rubbish: 0,
    silent: 0,
    lose: 0,
    late: 0,
  };
  return sized(plan, { ...usual, refuse: 0.1, slow: 0.3, forgetsMs: 60_000 }, { dieAfterWrite: 0.3 });
}

/** The same with the caller's choice of sizes and no other trouble. */
export function sized(plan: Plan, scaling: PlannedScaling, changes: Partial<Plan> = {}): Plan {
  return plain(plan, {
    recyclers: 0,
    webhooks: 1,
    replicas: 4,
    maxUnavailable: 2,
    budget: { maxUnavailable: 2, isPartitioned: false, delaySeconds: 0 },
    loseEvictions: 0,
    slowEvictions: 0,
    retryMs: 2_000,
    wholeNodes: 0,
    isBlocked: false,
    safetyMs: 400_000,
    sweepMs: 20_000,
    dieAfterWrite: 0.05,
    scaling,
    faults: { ...noFaults, latencyMs: 5 },
    every: { ...never, crash: 20_000 },
    ...changes,
  });
}
