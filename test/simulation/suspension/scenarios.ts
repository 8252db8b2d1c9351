/** Plans in which volumes are suspended, wanted back and removed beside rollouts and evictions. */
import { createDraw, type Draw } from "../draw.ts";
import { type Plan, type PlannedSuspension, suspensionDeeds } from "../plan.ts";
import { never, plain } from "../rules.ts";
import { noFaults } from "../simulated-cluster.ts";

/** Draws the suspension of a seed. Some of the deeds do not occur in most seeds. */
export function drawSuspension(draw: Draw): PlannedSuspension {
  const others = suspensionDeeds.filter((deed) => deed !== "request" && draw.chance(0.5));
  return {
    everyMs: draw.pick([4_000, 10_000, 20_000]),
    deeds: ["request", "request", "request", ...others],
    durationMs: draw.pick([5_000, 20_000, 60_000]),
    waitMs: draw.pick([0, 5_000, 30_000]),
    mode: draw.pick(["Zone", "Zone", "Zone", "Group", "All"]),
    reacts: draw.pick([0, 0.1, 0.3]),
    volumes: draw.chance(0.3) ? 2 : 1,
  };
}

/** Three zones whose pods have volumes, rolled and drained. The processes that suspend and remove are killed anywhere. */
export function suspending(plan: Plan, draw: Draw, changes: Partial<Plan> = {}): Plan {
  return suspended(plan, drawSuspension(draw), {
    faults: {
      ...noFaults,
      latencyMs: draw.pick([5, 40]),
      loseReply: 0.02,
      refuse: draw.pick([0, 0.05]),
      stall: draw.pick([0, 0.03]),
      stallMs: 12_000,
    },
    skewMs: draw.pick([0, 0, 14_000]),
    goneAfterMs: draw.pick([300, 8_000]),
    every: {
      ...never,
      evict: 25_000,
      changeTemplate: 120_000,
      crash: 20_000,
      deletePod: draw.pick([0, 60_000]),
      stopProcess: draw.pick([0, 60_000]),
      clock: draw.pick([0, 0, 30_000]),
      farClock: draw.pick([0, 0, 0, 90_000]),
      uninstall: draw.pick([0, 0, 120_000]),
      editLedger: draw.pick([0, 0, 60_000]),
      relabel: draw.pick([0, 0, 0, 90_000]),
    },
    ...changes,
  });
}

/** Pods are asked about the data of others, and one of them lies. */
export function witnessed(plan: Plan): Plan {
  const usual = { everyMs: 5_000, deeds: ["request"], durationMs: 5_000, waitMs: 0, mode: "Zone", reacts: 0 } as const;
  return suspended(plan, { ...usual, volumes: 1, asks: true });
}

/** The same with the caller's choice and no other trouble. */
export function suspended(plan: Plan, suspension: PlannedSuspension, changes: Partial<Plan> = {}): Plan {
  return plain(plan, {
    recyclers: 0,
    webhooks: 1,
    replicas: 3,
    budget: { maxUnavailable: 1, isPartitioned: false, delaySeconds: 0 },
    loseEvictions: 0,
    slowEvictions: 0,
    retryMs: 2_000,
    wholeNodes: 0,
    isBlocked: false,
    safetyMs: 400_000,
    sweepMs: 20_000,
    dieAfterWrite: 0.05,
    suspension,
    faults: { ...noFaults, latencyMs: 5 },
    every: { ...never, crash: 20_000 },
    ...changes,
  });
}

/** Offset of the seed for suspension, so that the plan of the seed itself stays the same. */
export const suspensionSeeds = 2 ** 27;

/** Draws for one seed of the default plan. */
export function drawOf(seed: number): Draw {
  return createDraw(seed + suspensionSeeds);
}
