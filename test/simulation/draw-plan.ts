/** Draws the plan of a seed: a few faults, never all at once, so that rare ones are seen alone. */
import { causes } from "../fake-cluster/kubelet.ts";
import { createDraw, type Draw } from "./draw.ts";
import { disturbances, type Plan, type PlannedBudget, type PlannedNeighbours } from "./plan.ts";
import { type CallFaults, noFaults } from "./simulated-cluster.ts";
import type { WatchFaults } from "./simulated-watch.ts";

/** The waiting reasons that only another revision mends. */
export const waitingReasons: readonly string[] = [
  "CrashLoopBackOff",
  "ImagePullBackOff",
  "ErrImagePull",
  "InvalidImageName",
  "CreateContainerConfigError",
  "CreateContainerError",
];
/** A missing ConfigMap gives no other reason than `ContainerCreating`; the others give none at all. */
const everyCause = [...waitingReasons, "ContainerCreating", ...Object.values(causes)];

/**
 * An eviction without a pinned uid is safe only if the API server is faster than a pod starts (rule R11,
 * evaluate-eviction/README.md). The API server waits at most ten seconds for a review. So where reviews pin nothing, pods take
 * longer than that to start, and no eviction is slow.
 */
const slowStartMs = 24_000;

/**
 * A mean time between faults: 0 in most seeds, otherwise for about `perMinute` faults a minute. So rare faults are seen alone.
 */
function rate(draw: Draw, likelihood: number, perMinute: number): number {
  return draw.chance(likelihood) ? 60_000 / (perMinute * draw.between(0.5, 3)) : 0;
}

/**
 * Draws the plan of a seed. A few seeds get a very long night instead, in which each pod takes minutes to go and nothing else
 * happens. Fields that plans got later have a source of their own, so that seeds without them keep their history.
 */
export function drawPlan(draw: Draw, seed: number): Plan {
  const plan = drawUsual(draw);
  if (draw.chance(0.02)) return lateDeletions(plan);
  return withVersions({ ...plan, ...drawLater(createDraw(seed + laterSeeds)) });
}

/** The webhook answers every eviction at once, and no client gives up. */
export const neverWaits = { evictionWaitMs: 0, givesUp: 0, sendsAgain: 0 } satisfies Partial<Plan>;

/** Offset of the seed for fields that plans got later. */
const laterSeeds = 2 ** 30;

type Later = "elsewhere" | "versions" | "evictionWaitMs" | "givesUp" | "sendsAgain" | "onDemandIdleMs";

function drawLater(draw: Draw): Pick<Plan, Later> {
  const isNamesake = draw.chance(0.5);
  const ending = draw.pick(["rests", "rolls", "rolls", "stuck"] as const);
  return {
    elsewhere: draw.chance(0.12) ? { isNamesake, ending } : undefined,
    versions: draw.chance(0.1) ? { older: false, laterKind: false, laterFormat: true } : undefined,
    evictionWaitMs: draw.pick([8_000, 8_000, 2_000, 0]),
    givesUp: draw.chance(0.3) ? draw.pick([0.1, 0.5]) : 0,
    sendsAgain: draw.chance(0.3) ? draw.pick([0.1, 0.5]) : 0,
    onDemandIdleMs: draw.pick([undefined, undefined, 1_000, 5_000, 20_000]),
  };
}

/**
 * A later version's reservations, which stand in its own format, go with a deleted ledger, and no protocol helps against users
 * who edit what they cannot read. So these seeds have neither trouble.
 */
function withVersions(plan: Plan): Plan {
  if (plan.versions === undefined) return plan;
  if (plan.every.loseLedger > 0) return { ...plan, versions: undefined };
  return { ...plan, every: { ...plan.every, editLedger: 0 } };
}

/**
 * Deletions that arrive after a minute and a half, pods that then take long to go, API servers whose clocks differ, and a
 * function that no longer finishes what it reserved. The reservation is old when its pod only begins to terminate.
 */
export function lateDeletions(plan: Plan): Plan {
  return {
    ...plan,
    budget: undefined,
    recyclers: 2,
    recycleEveryMs: 1_000,
    recycleForMs: 2_000,
    minReadySeconds: 0,
    goneAfterMs: 120_000,
    faults: { ...noFaults, latencyMs: 5, slowDelete: 1, slowDeleteFromMs: 90_000, slowDeleteMs: 119_000 },
    skewMs: 14_000,
    safetyMs: 300_000,
    every: Object.fromEntries(disturbances.map((kind) => [kind, 0])) as Plan["every"],
  };
}

/** True for a plan of {@link lateDeletions}. */
export function isNight({ faults }: Plan): boolean {
  return faults.slowDelete === 1;
}

function drawUsual(draw: Draw): Plan {
  const zones = draw.pick([2, 3, 3, 3, 4]);
  const replicas = draw.pick([1, 2, 3, 3, 4]);
  const stormy = draw.chance(0.5);
  // Rule R4 relies on every deletion and eviction to arrive within ten seconds of its reservation, including up to five until
  // the answer. No protocol helps against a later one if a user has deleted the group's ledger meanwhile.
  const ledgerGoes = draw.chance(0.1);
  const evicts = draw.chance(0.6);
  const minReadySeconds = draw.chance(0.2) ? draw.whole(1, 15) : 0;
  const unpinned = evicts && draw.chance(0.15) ? draw.pick([0.3, 1]) : 0;
  const budget = evicts ? drawBudget(draw) : undefined;
  // Clocks that all step forward make ledgers look old, and pods look ready for long. No protocol helps where a ledger is
  // created anew, or where the time counts for which a pod has been ready.
  const clocksMayJump = !ledgerGoes && minReadySeconds === 0 && (budget?.delaySeconds ?? 0) === 0;
  return {
    zones,
    replicas,
    maxUnavailable: draw.pick([1, 1, 1, 2, 3]),
    minReadySeconds,
    podManagementPolicy: draw.chance(0.25) ? "OrderedReady" : "Parallel",
    processes: draw.pick([1, 2, 2, 3]),
    keepers: draw.pick([0, 1, 1, 2]),
    // A recycler knows no budget: where there is one, drains take pods instead.
    recyclers: evicts ? 0 : draw.pick([0, 0, 1, 2]),
    recycleEveryMs: draw.pick([500, 5_000, 20_000]),
    recycleForMs: draw.pick([5_000, 40_000, 1_000_000]),
    causes: everyCause,
    propagation: ["Orphan", "Orphan", "Background", "Foreground"],
    watching: draw.chance(0.75),
    onDemandIdleMs: undefined,
    readyAfterMs: unpinned > 0 ? slowStartMs : draw.pick([500, 2_000, 8_000]),
    goneAfterMs: draw.pick([0, 300, 2_000, 10_000]),
    controllerDelayMs: draw.pick([5, 100, 2_000]),
    faults: drawFaults(draw, stormy, ledgerGoes),
    loseEvents: draw.pick([0, 0, 0.3, 1]),
    doubleEvents: draw.pick([0, 0.2]),
    sweepMs: draw.pick([20_000, 60_000, 300_000]),
    sweepsAtOnce: draw.pick([1, 1, 1, 2]),
    skewMs: draw.chance(0.3) ? draw.between(0, 14_000) : 0,
    staleness: draw.pick([
      { oldest: 0.3, between: 0.5 },
      { oldest: 0.9, between: 1 },
      { oldest: 0, between: 0.1 },
    ]),
    neighbours: drawNeighbours(draw),
    elsewhere: undefined,
    budget,
    webhooks: draw.pick([1, 2, 2, 3]),
    dryRuns: draw.chance(0.2) ? 0.3 : 0,
    dieAfterWrite: draw.chance(0.3) ? 0.1 : 0,
    loseEvictions: draw.chance(0.3) ? 0.3 : 0,
    slowEvictions: unpinned === 0 && draw.chance(0.3) ? 0.3 : 0,
    slowEvictionMs: Math.min(draw.pick([4_000, 20_000]), ledgerGoes ? 4_000 : Number.POSITIVE_INFINITY),
    retryMs: draw.pick([500, 1_000, 5_000]),
    unpinned,
    ...neverWaits,
    wholeNodes: draw.pick([0, 0.5, 1]),
    isBlocked: false,
    versions: undefined,
    safetyMs: draw.between(10_000, 70_000),
    every: { ...drawRates(draw, ledgerGoes, evicts), farClock: clocksMayJump ? rate(draw, 0.1, 1) : 0 },
  };
}

/** Mean time between disturbances of each kind. Most kinds do not occur in a seed, so that rare ones are seen alone. */
function drawRates(draw: Draw, ledgerGoes: boolean, evicts: boolean): Plan["every"] {
  const stays = (everyMs: number) => (ledgerGoes ? 0 : everyMs);
  return {
    crash: rate(draw, 0.4, 4),
    breakPod: rate(draw, 0.25, 2),
    failPod: rate(draw, 0.1, 1),
    loseNode: rate(draw, 0.1, 1),
    deletePod: rate(draw, 0.1, 1),
    changeTemplate: rate(draw, 0.4, 2),
    rollBack: rate(draw, 0.15, 2),
    brokenTemplate: rate(draw, 0.15, 1),
    scale: rate(draw, 0.25, 3),
    pause: rate(draw, 0.2, 3),
    budget: rate(draw, 0.2, 3),
    malformed: rate(draw, 0.05, 2),
    strategy: rate(draw, 0.05, 2),
    loseLedger: ledgerGoes ? rate(draw, 1, 2) : 0,
    // No protocol helps either if a ledger is deleted while a zone is away: only the ledger knew that the zone's pods were
    // taken.
    removeZone: stays(rate(draw, 0.07, 1)),
    addZone: rate(draw, 0.07, 1),
    slowController: rate(draw, 0.1, 2),
    evict: evicts ? rate(draw, 1, draw.pick([2, 10, 40])) : 0,
    crashWebhook: rate(draw, 0.4, 4),
    zoneBudget: rate(draw, 0.15, 2),
    podDisruptionBudget: rate(draw, 0.1, 2),
    stopProcess: rate(draw, 0.15, 2),
    clock: rate(draw, 0.1, 3),
    farClock: 0,
    loseNodeForGood: rate(draw, 0.07, 1),
    recreate: stays(rate(draw, 0.12, 1)),
    relabel: stays(rate(draw, 0.07, 2)),
    relabelTemplate: rate(draw, 0.05, 1),
    uninstall: 0,
    editLedger: ledgerGoes ? 0 : rate(draw, 0.07, 2),
  };
}

function drawFaults(draw: Draw, stormy: boolean, ledgerGoes: boolean): CallFaults {
  return {
    latencyMs: draw.pick([1, 5, 40]),
    stall: draw.chance(0.3) ? 0.03 : 0,
    stallMs: draw.pick([4_000, 8_000, 40_000]),
    refuse: stormy ? 0.05 : 0,
    deny: draw.chance(0.1) ? draw.pick([0.005, 0.03]) : 0,
    loseReply: stormy ? 0.03 : 0,
    slowDelete: !ledgerGoes && draw.chance(0.1) ? 0.1 : 0,
    slowDeleteFromMs: 10_000,
    // Shorter than two minutes, after which rule R10 may drop a reservation.
    slowDeleteMs: 119_000,
    lateList: draw.chance(0.3) ? 0.2 : 0,
    oldList: draw.chance(0.5) ? 0.5 : 0,
    watch: drawWatchFaults(draw, stormy),
  };
}

/** Most of these faults do not occur in a seed either. */
function drawWatchFaults(draw: Draw, stormy: boolean): WatchFaults {
  return {
    lagMs: draw.pick([0, 0, 300, 3_000]),
    freeze: draw.chance(0.5) ? draw.pick([0.02, 0.05, 0.1]) : 0,
    break: stormy ? 0.05 : 0,
    expire: draw.chance(0.2) ? 0.03 : 0,
    halfOpen: draw.chance(0.25) ? draw.pick([0.005, 0.02]) : 0,
    refuse: stormy ? 0.05 : 0,
  };
}

function drawNeighbours(draw: Draw): PlannedNeighbours {
  const group = draw.chance(0.15);
  return {
    group,
    spanned: group && draw.chance(0.3),
    loose: draw.chance(0.1),
    labelled: draw.chance(0.5),
    byApp: draw.chance(0.2),
  };
}

function drawBudget(draw: Draw): PlannedBudget {
  const isPartitioned = draw.chance(0.35);
  return {
    maxUnavailable: isPartitioned ? draw.pick([1, 1, 2]) : draw.pick([1, 1, 1, 2, 3, "50%"]),
    isPartitioned,
    delaySeconds: isPartitioned && draw.chance(0.3) ? draw.whole(1, 15) : 0,
  };
}
