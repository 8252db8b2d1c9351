/**
 * Plans in which owners whose pods have stop hooks are deleted and stopped, and the processes that label pods are killed
 * anywhere.
 */
import type { Draw } from "../draw.ts";
import { type Plan, type PlannedSkipLabels, type SkipDeed, skipDeeds } from "../plan.ts";
import { never, plain } from "../rules.ts";
import { noFaults } from "../simulated-cluster.ts";

const deletions: readonly SkipDeed[] = ["delete", "deleteForeground", "deleteOrphan"];

/** Draws a plan with only some of the deeds, so that rare ones are seen alone. */
export function drawSkipLabels(draw: Draw): PlannedSkipLabels {
  // In some plans owners are never deleted, but only stopped and resumed, so that labels come and go.
  const usual: readonly SkipDeed[] = draw.chance(0.2)
    ? ["stopAll", "stopAll"]
    : ["delete", "delete", "deleteForeground"];
  const rare = new Set<SkipDeed>([...(usual[0] === "stopAll" ? deletions : []), "deleteNamespace"]);
  const others = skipDeeds.filter((deed) => draw.chance(rare.has(deed) ? 0.15 : 0.35));
  return {
    clusters: draw.pick([1, 2]),
    replicas: draw.pick([1, 2, 3]),
    markers: draw.pick([1, 2, 2, 3]),
    waitMs: draw.pick([0, 30_000, 90_000, 90_000]),
    everyMs: draw.pick([1_500, 3_000, 10_000, 30_000]),
    deeds: [...usual, ...others],
    lagMs: draw.pick([1_000, 90_000]),
    frozen: draw.pick([0, 0.2]),
    blocking: draw.pick([0.5, 1]),
    refuseMs: draw.pick([20_000, 120_000, 600_000]),
  };
}

/** Owners of both kinds, beside a zone that nothing happens to. */
export function skipping(plan: Plan, draw: Draw, changes: Partial<Plan> = {}): Plan {
  return skippingWith(plan, drawSkipLabels(draw), {
    faults: {
      ...noFaults,
      latencyMs: draw.pick([1, 5, 200]),
      loseReply: draw.pick([0, 0.03]),
      refuse: draw.pick([0, 0.05]),
      stall: draw.pick([0, 0.03]),
      stallMs: 8_000,
      lateList: draw.pick([0, 0.2]),
    },
    loseEvents: draw.pick([0, 0.3, 1]),
    doubleEvents: draw.pick([0, 0.2]),
    skewMs: draw.pick([0, 0, 14_000]),
    dieAfterWrite: draw.pick([0, 0.1]),
    controllerDelayMs: draw.pick([5, 100, 2_000]),
    every: {
      ...never,
      crash: draw.pick([0, 10_000, 30_000]),
      stopProcess: draw.pick([0, 0, 60_000]),
      clock: draw.pick([0, 0, 0, 30_000]),
    },
    ...changes,
  });
}

/** The same with the caller's choice of owners and no other trouble. */
export function skippingWith(plan: Plan, skipLabels: PlannedSkipLabels, changes: Partial<Plan> = {}): Plan {
  return plain(plan, {
    zones: 1,
    replicas: 1,
    recyclers: 0,
    keepers: 0,
    webhooks: 0,
    safetyMs: 300_000,
    sweepMs: 20_000,
    skipLabels,
    ...changes,
  });
}
