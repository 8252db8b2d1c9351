/** Plans that make one kind of trouble likely, with every rule kept: each seed of them must keep every promise. */
import { claimingAnywhere } from "./claims/anywhere.ts";
import { asked, asking, claiming, fencing, fencingShipped } from "./claims/scenarios.ts";
import type { Draw } from "./draw.ts";
import { standing } from "./other-operator/scenarios.ts";
import type { Plan } from "./plan.ts";
import {
  parking,
  restarting,
  restartingAnywhere,
  restartingFiles,
  restartingLate,
  restartingTogether,
  withParking,
} from "./restarting/scenarios.ts";
import { never, plain } from "./rules.ts";
import { scalingAnywhere } from "./scaling/anywhere.ts";
import { scaling } from "./scaling/scenarios.ts";
import { type CallFaults, noFaults } from "./simulated-cluster.ts";
import { noWatchFaults } from "./simulated-watch.ts";
import { skippingAnywhere } from "./skip-labels/anywhere.ts";
import { skipping } from "./skip-labels/scenarios.ts";
import { suspendingAnywhere } from "./suspension/anywhere.ts";
import { suspending } from "./suspension/scenarios.ts";
import { besideAll } from "./versions/scenarios.ts";

export type Aim = (plan: Plan, draw: Draw) => Plan;

/** Every watch freezes at times for 0.5 to 20 s, independently of the others, and then delivers everything in order. */
const freezing: CallFaults = { ...noFaults, latencyMs: 5, watch: { ...noWatchFaults, freeze: 0.05 } };

/**
 * Two zones under a budget, drained through two webhooks and rolled by one process, with the shipped views over watches that
 * freeze.
 */
export function frozenDrains(plan: Plan, changes: Partial<Plan> = {}): Plan {
  return plain(plan, {
    watching: true,
    zones: 2,
    recyclers: 0,
    webhooks: 2,
    controllerDelayMs: 2_000,
    readyAfterMs: 500,
    safetyMs: 120_000,
    budget: { maxUnavailable: 1, isPartitioned: false, delaySeconds: 0 },
    loseEvictions: 0,
    slowEvictions: 0,
    retryMs: 1_000,
    wholeNodes: 0,
    isBlocked: false,
    faults: freezing,
    every: { ...never, evict: 1_500, changeTemplate: 20_000 },
    ...changes,
  });
}

/** Zones are added and removed. */
const joining: Plan["every"] = { ...never, evict: 1_500, changeTemplate: 20_000, addZone: 15_000, removeZone: 25_000 };

/** Three zones whose pods break for minutes, and whose StatefulSets orphan them meanwhile. */
export function leftBehind(plan: Plan): Plan {
  return frozenDrains(plan, {
    zones: 3,
    propagation: ["Orphan"],
    faults: { ...noFaults, latencyMs: 5 },
    every: { ...never, evict: 1_500, changeTemplate: 20_000, recreate: 15_000, breakPod: 10_000 },
  });
}

export const scenarios: Readonly<Record<string, Aim>> = {
  "frozen-recycle": (plan) => plain(plan, { watching: true, faults: freezing }),
  "frozen-drains": (plan) => frozenDrains(plan),
  /**
   * Evictions that wait for their turn, with clients that give up, API servers that send reviews twice, and watches that
   * freeze.
   */
  "held-drains": (plan) =>
    frozenDrains(plan, {
      ...{ evictionWaitMs: 8_000, givesUp: 0.2, sendsAgain: 0.2, dieAfterWrite: 0.05 },
      ...{
        replicas: 4,
        every: { ...never, evict: 500, changeTemplate: 20_000, crashWebhook: 20_000, stopProcess: 20_000 },
      },
    }),
  "frozen-zones": (plan) => frozenDrains(plan, { every: joining }),
  /** StatefulSets that are deleted, with or without their pods, and made again. */
  recreated: (plan) => frozenDrains(plan, { zones: 3, every: { ...joining, recreate: 15_000 } }),
  /** StatefulSets that are deleted without their pods for a while, some of which are down. */
  left: (plan) => leftBehind(plan),
  /** StatefulSets that change their group, beside another group, under budgets that select by another label. */
  neighbours: (plan, draw) =>
    frozenDrains(plan, {
      zones: 3,
      neighbours: {
        group: true,
        spanned: draw.chance(0.5),
        loose: true,
        labelled: draw.chance(0.5),
        byApp: draw.chance(0.5),
      },
      every: { ...joining, relabel: 20_000, relabelTemplate: 30_000, zoneBudget: 20_000 },
    }),
  /** An older version of Sluice and two later ones beside this one, each of which knows other parts of a ledger. */
  versions: (plan) => besideAll(plan),
  /** Functions that watch on demand, over watches that freeze, with whatever else a seed has drawn. */
  onDemand: (plan, draw) => ({
    ...plan,
    watching: true,
    onDemandIdleMs: draw.pick([1_000, 5_000, 20_000]),
    faults: {
      ...plan.faults,
      watch: { ...plan.faults.watch, freeze: draw.pick([0, 0.02, 0.1]), halfOpen: draw.pick([0, 0.02]) },
    },
  }),
  /** The troubles that a seed has drawn, beside a group of the same name in another namespace. */
  elsewhere: (plan, draw) => ({
    ...plan,
    elsewhere: { isNamesake: true, ending: draw.pick(["rests", "rolls", "rolls", "stuck"]) },
  }),
  /** Claims of every kind, and of one that this version does not know, beside rollouts, drains and users who scale. */
  claims: (plan) => claiming(plan),
  /** Processes that are restarted if the others can do without them. */
  asking: (plan) => asking(plan),
  /** The same with shipped functions: evictions and rollouts ask each pod before it goes. */
  asked: (plan) => asked(plan),
  /** Fences of nodes that have pods of two groups. */
  fencing: (plan) => fencing(plan),
  /** The same by the shipped function. */
  "fencing-shipped": (plan) => fencingShipped(plan),
  /** Sizes that follow, mirror and wait for pods that are told, beside rollouts and drains. */
  scaling: (plan, draw) => scaling(plan, draw),
  /** Owners whose pods have stop hooks that wait for a label, deleted and stopped in every way. */
  "skip-labels": (plan, draw) => skipping(plan, draw),
  /** Volumes that are suspended, wanted back and removed, beside rollouts and drains. */
  suspension: (plan, draw) => suspending(plan, draw),
  /** rollout-operator, which comes and goes beside rollouts, drains and downscales, for which Sluice stands by. */
  "other-operator": (plan, draw) => standing(plan, draw),
  /** Processes that restart in their pods, as users ask for it. */
  restarting: (plan) => withParking(restarting(plan)),
  /** The same, killed after any write, beside rollouts, drains and downscales. */
  "restarting-anywhere": (plan) => withParking(restartingAnywhere(plan)),
  /** Processes that stay parked beside drains. */
  parking: (plan) => parking(plan),
  /** The same where each message comes twice and late, and a function sleeps for ten minutes. */
  "restarting-late": (plan) => restartingLate(plan),
  /** Processes of many pods that restart together, while pods and StatefulSets come and go. */
  "restarting-together": (plan) => withParking(restartingTogether(plan)),
  /** Processes whose files stand in Secrets that users change. */
  "restarting-files": (plan, draw) => restartingFiles(plan, draw),
  /** Claims of every kind beside whatever else a seed has drawn. */
  "claims-anywhere": claimingAnywhere,
  /** Sizes that another object sets beside whatever else a seed has drawn. */
  "scaling-anywhere": scalingAnywhere,
  /** Owners with stop hooks beside whatever else a seed has drawn. */
  "skip-labels-anywhere": skippingAnywhere,
  /** Suspended volumes beside whatever else a seed has drawn. */
  "suspension-anywhere": suspendingAnywhere,
  /** A revision that never becomes ready, for any cause, while pods break and nodes go for good; then it is rolled back. */
  broken: (plan) =>
    plain(plan, {
      watching: true,
      recyclers: 0,
      safetyMs: 120_000,
      every: { ...never, brokenTemplate: 20_000, rollBack: 40_000, breakPod: 20_000, loseNodeForGood: 60_000 },
    }),
};
