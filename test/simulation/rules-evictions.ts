/** The rules of evictions, removed one at a time, in drains that make the fault likely. */

import { claimRules } from "./claims/rules-claims.ts";
import { otherOperatorRules } from "./other-operator/rules-other-operator.ts";
import type { Plan } from "./plan.ts";
import { restartRules } from "./restarting/rules-restarting.ts";
import { never, plain, type RemovedRule, rolloutRules, unseenWrites, wrapProtocol, wrapViews } from "./rules.ts";
import { membershipRules } from "./rules-mends.ts";
import { neighbourRules } from "./rules-neighbours.ts";
import { onDemandRules } from "./rules-on-demand.ts";
import { scalingRules } from "./scaling/rules-scaling.ts";
import { noFaults } from "./simulated-cluster.ts";
import { skipLabelRules } from "./skip-labels/rules-skip-labels.ts";
import { clockRules } from "./suspension/rules-clocks.ts";
import { suspensionRules } from "./suspension/rules-suspension.ts";
import { versionRules } from "./versions/rules-versions.ts";

/** Users drain three zones again and again, through two webhooks and beside two rollouts. Nothing else goes wrong. */
function drains(plan: Plan, changes: Partial<Plan> = {}): Plan {
  return plain(plan, {
    recyclers: 0,
    budget: { maxUnavailable: 1, isPartitioned: false, delaySeconds: 0 },
    webhooks: 2,
    loseEvictions: 0,
    slowEvictions: 0,
    retryMs: 1_000,
    wholeNodes: 0,
    isBlocked: false,
    every: { ...never, evict: 1_000 },
    ...changes,
  });
}

/** Makes every renewal look like a first reservation, so that the limit of renewals never applies. */
const withoutEnd = wrapProtocol((protocol) => ({
  writeLedger: async (cluster, ledger, { reservations, ...change }) => {
    const unaged = reservations.map(({ sinceMs: _, ...reservation }) => reservation);
    return protocol.writeLedger(cluster, ledger, { ...change, reservations: unaged });
  },
}));

const evictionRules: readonly RemovedRule[] = [
  {
    rule: "R8",
    removed: "the reservation before the allowance",
    breaks: ["Z1", "Z2", "E1"],
    aim: (plan) => drains(plan),
    wrappers: wrapProtocol(() => ({
      writeLedger: async (_cluster, ledger, { seenThrough, ...change }) => ({
        ...ledger,
        ...change,
        settledThrough: Math.max(ledger.settledThrough ?? 0, seenThrough),
      }),
    })),
  },
  {
    rule: "R9",
    removed: "answering within five seconds",
    breaks: ["Z1", "Z2", "E1"],
    aim: (plan) =>
      drains(plan, {
        replicas: 10,
        webhooks: 3,
        safetyMs: 500_000,
        webhookTimeoutMs: 400_000,
        readyAfterMs: 12_000,
        retryMs: 5_000,
        faults: { ...noFaults, latencyMs: 5, stall: 0.3, stallVerb: "patch", stallFromMs: 152_000, stallMs: 159_000 },
        every: { ...never, evict: 20_000 },
      }),
    // The API server also waits far longer than a real one.
    wrappers: unseenWrites,
  },
  {
    rule: "R9",
    removed: "the stamp of the moment of the answer: the one of the arrival instead",
    breaks: ["Z1", "Z2", "E1"],
    // Evictions wait long for their turn, and then take nearly as long as a reservation lasts.
    aim: (plan) =>
      drains(plan, {
        ...{ evictionWaitMs: 25_000, webhookTimeoutMs: 30_000, statedTimeoutMs: 30_000 },
        ...{ slowEvictions: 0.5, slowEvictionMs: 143_000, safetyMs: 500_000, readyAfterMs: 12_000, retryMs: 5_000 },
        every: { ...never, evict: 10_000 },
      }),
    wrappers: {
      arrivals: (protocol, arrivedMs) => ({
        ...protocol,
        writeLedger: (cluster, ledger, { reservations, ...change }) => {
          const known = new Set(ledger.reservations.map(({ uid }) => uid));
          const stamped = reservations.map((one) => {
            const cameMs = known.has(one.uid) ? undefined : arrivedMs(`${one.statefulSet}-${one.ordinal}`);
            return cameMs === undefined ? one : { ...one, stampMs: Math.min(one.stampMs, cameMs) };
          });
          return protocol.writeLedger(cluster, ledger, { ...change, reservations: stamped });
        },
      }),
    },
  },
  {
    rule: "R11",
    removed: "the uid that evictions are pinned to",
    breaks: ["Z1", "Z2", "E1"],
    aim: (plan) => drains(plan, { readyAfterMs: 500, slowEvictions: 0.4, slowEvictionMs: 20_000 }),
    wrappers: { answer: (answer) => (answer.allowed ? { ...answer, patch: [] } : answer) },
  },
  {
    rule: "R12",
    removed: "renewing the stamp when a reserved pod is allowed again",
    breaks: ["Z1", "Z2", "E1"],
    aim: (plan) =>
      drains(plan, {
        safetyMs: 400_000,
        retryMs: 3_000,
        loseEvictions: 0.97,
        slowEvictions: 1,
        slowEvictionMs: 50_000,
        every: { ...never, evict: 4_000 },
      }),
    wrappers: wrapProtocol((protocol) => ({
      writeLedger: async (cluster, ledger, change) => {
        const known = new Set(ledger.reservations.map(({ uid }) => uid));
        const isRenewal = change.reservations.length > 0 && change.reservations.every(({ uid }) => known.has(uid));
        return isRenewal ? ledger : protocol.writeLedger(cluster, ledger, change);
      },
    })),
  },
  {
    rule: "the end of R12",
    removed: "no longer renewing what is allowed for a minute and never goes",
    breaks: ["L1"],
    aim: (plan) => drains(plan, { isRefused: true, retryMs: 5_000 }),
    wrappers: withoutEnd,
  },
  {
    rule: "R14",
    removed: "deciding pods that are not ready like any other",
    breaks: ["Z1", "Z2", "E1"],
    aim: (plan) => drains(plan, { staleness: { oldest: 0.9, between: 0.8 }, readyAfterMs: 4_000 }),
    wrappers: wrapViews((cache) => async (key, need) => {
      const view = await cache.read(key, need);
      return {
        ...view,
        podsOf: (statefulSet) =>
          [...view.podsOf(statefulSet)].map((pod) =>
            pod.readySinceMs === undefined ? { ...pod, finished: true } : pod,
          ),
      };
    }),
  },
  {
    rule: "R13",
    removed: "the revision that evictions of pods that are down are pinned to",
    breaks: ["Z1", "Z2", "E1"],
    aim: (plan) =>
      drains(plan, {
        ...{ readyAfterMs: 4_000, slowEvictions: 0.7, slowEvictionMs: 8_000 },
        every: { ...never, evict: 200, breakPod: 1_500 },
      }),
    wrappers: {
      answer: (answer) => (answer.allowed ? { ...answer, patch: answer.patch?.slice(0, 1) ?? [] } : answer),
    },
  },
  {
    rule: "R15",
    removed:
      "refusing at once what a PodDisruptionBudget will refuse, and the end of renewing, which mends that in minutes",
    breaks: ["L1"],
    aim: (plan) => drains(plan, { isBlocked: true, retryMs: 5_000 }),
    wrappers: { ...withoutEnd, cache: (cache) => ({ ...cache, disruptionBudgets: async () => [] }) },
  },
  {
    rule: "R16",
    removed: "the difference between a dry run and an eviction",
    breaks: ["E2"],
    aim: (plan) => drains(plan, { dryRuns: 0.5 }),
    wrappers: { request: (request) => ({ ...request, dryRun: false }) },
  },
];

export const removedRules: readonly RemovedRule[] = [
  ...rolloutRules,
  ...evictionRules,
  ...membershipRules,
  ...onDemandRules,
  ...claimRules,
  ...neighbourRules,
  ...versionRules,
  ...scalingRules,
  ...skipLabelRules,
  ...suspensionRules,
  ...clockRules,
  ...otherOperatorRules,
  ...restartRules,
];
