/** Plans in which claims of every kind meet rollouts and evictions, and the processes that make claims are killed anywhere. */
import { claimKinds, type KindName } from "../../../functions/shared/ledger/claim.ts";
import { alone } from "../alone.ts";
import type { Plan } from "../plan.ts";
import { never, plain } from "../rules.ts";
import { noFaults } from "../simulated-cluster.ts";

/** Three zones that are rolled and drained, and two processes of each kind that make claims. */
export function claiming(plan: Plan, kinds: readonly KindName[] = claimKinds, changes: Partial<Plan> = {}): Plan {
  return plain(plan, {
    recyclers: 0,
    webhooks: 2,
    budget: { maxUnavailable: 1, isPartitioned: false, delaySeconds: 0 },
    loseEvictions: 0,
    slowEvictions: 0,
    retryMs: 2_000,
    wholeNodes: 0,
    isBlocked: false,
    safetyMs: 400_000,
    sweepMs: 20_000,
    dieAfterWrite: 0.05,
    claims: { kinds, everyMs: 4_000, isForeign: kinds.length === claimKinds.length },
    faults: { ...noFaults, latencyMs: 5, loseReply: 0.02 },
    every: { ...never, evict: 8_000, changeTemplate: 60_000, crash: 30_000, scale: 30_000 },
    ...changes,
  });
}

/** Processes are restarted if those that are up can do without them. Pods break; no user rolls or drains. */
export function asking(plan: Plan, changes: Partial<Plan> = {}): Plan {
  return claiming(plan, ["process"], {
    zones: 1,
    maxUnavailable: 3,
    budget: { maxUnavailable: 3, isPartitioned: false, delaySeconds: 0 },
    claims: { kinds: ["process"], everyMs: 1_000, isForeign: false, asks: true },
    // Time passes between a write of the ledger and its effect on pods.
    faults: { ...noFaults, latencyMs: 300, loseReply: 0.02 },
    every: { ...never, crash: 60_000, breakPod: 20_000 },
    ...changes,
  });
}

/**
 * Two clusters of brokers. Two processes of each shipped function roll and drain them and ask the pods, which break and lie.
 */
export function asked(plan: Plan, changes: Partial<Plan> = {}): Plan {
  return claiming(plan, [], {
    zones: 2,
    processes: 2,
    maxUnavailable: 3,
    budget: { maxUnavailable: 3, isPartitioned: false, delaySeconds: 0 },
    claims: { kinds: [], everyMs: 1_000, isForeign: false, asks: "shipped", lies: true },
    safetyMs: 150_000,
    faults: { ...noFaults, latencyMs: 50, loseReply: 0.02 },
    every: { ...never, evict: 3_000, changeTemplate: 40_000, crash: 60_000, crashWebhook: 60_000, breakPod: 30_000 },
    ...changes,
  });
}

/** Fences of nodes that run pods of two groups, by processes that are killed between the writes of two ledgers. */
export function fencing(plan: Plan, changes: Partial<Plan> = {}): Plan {
  return claiming(plan, ["node"], {
    neighbours: { ...alone, group: true },
    claims: { kinds: ["node"], everyMs: 4_000, isForeign: false, spansGroups: true },
    dieAfterWrite: 0.2,
    every: { ...never, crash: 30_000, deletePod: 10_000, changeTemplate: 60_000 },
    ...changes,
  });
}

/** The same by the shipped function, whose processes are killed after any write. Machines reset themselves, or stay off. */
export function fencingShipped(plan: Plan, changes: Partial<Plan> = {}): Plan {
  return fencing(plan, {
    claims: { kinds: [], everyMs: 10_000, isForeign: false, spansGroups: true, fences: true },
    every: { ...never, crash: 30_000, evict: 8_000, changeTemplate: 60_000 },
    ...changes,
  });
}
