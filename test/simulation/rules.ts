/**
 * Removes each rule of the reservation protocol by wrapping the connection or the protocol's verbs, in a scenario that makes
 * the fault likely. The simulation must find what then breaks. The product has no switch for any of it.
 */

import type { GroupCache } from "../../functions/shared/cache/cache.ts";
import type { Cluster, Preconditions } from "../../functions/shared/kubernetes/cluster.ts";
import { wrapCluster as wrapOne } from "../../functions/shared/kubernetes/wrap-cluster.ts";
import type { Protocol } from "../../functions/shared/ledger/protocol.ts";
import { dropAfterMs } from "../../functions/shared/ledger/reservation.ts";
import { alone } from "./alone.ts";
import type { Draw } from "./draw.ts";
import { lateDeletions, neverWaits } from "./draw-plan.ts";
import { disturbances, type Plan } from "./plan.ts";
import type { Wrappers } from "./replica.ts";
import { noFaults } from "./simulated-cluster.ts";

export interface RemovedRule {
  readonly rule: string;
  /** Description of what is removed. */
  readonly removed: string;
  /** Invariants: a checker must report one of them. */
  readonly breaks: readonly string[];
  readonly aim: (plan: Plan, draw: Draw) => Plan;
  readonly wrappers: Wrappers;
}

export const never = Object.fromEntries(disturbances.map((kind) => [kind, 0])) as Plan["every"];

/** A plain rollout of three zones by two processes that get every event, with old views and without any fault. */
export function plain(plan: Plan, changes: Partial<Plan> = {}): Plan {
  return {
    ...plan,
    zones: 3,
    replicas: 3,
    maxUnavailable: 1,
    minReadySeconds: 0,
    podManagementPolicy: "Parallel",
    processes: 1,
    keepers: 1,
    recyclers: 2,
    recycleEveryMs: 1_000,
    recycleForMs: 1_000_000,
    watching: false,
    onDemandIdleMs: undefined,
    goneAfterMs: 300,
    controllerDelayMs: 5,
    readyAfterMs: 2_000,
    faults: { ...noFaults, latencyMs: 5 },
    loseEvents: 0,
    skewMs: 0,
    sweepsAtOnce: 1,
    neighbours: alone,
    elsewhere: undefined,
    versions: undefined,
    ...neverWaits,
    unpinned: 0,
    staleness: { oldest: 0.5, between: 0.8 },
    budget: undefined,
    dryRuns: 0,
    dieAfterWrite: 0,
    safetyMs: 60_000,
    every: never,
    ...changes,
  };
}

export const wrapCluster = (verbs: (cluster: Cluster) => Partial<Cluster>): Wrappers => ({
  cluster: (cluster) => wrapOne(cluster, verbs(cluster)),
});
/** A clock that does not see how long a ledger write took, because the process hung in it. */
export const unseenWrites = wrapCluster((cluster) => {
  let unseenMs = 0;
  return {
    monotonicMs: () => cluster.monotonicMs() - unseenMs,
    patch: async (...call) => {
      const sentMs = cluster.monotonicMs();
      try {
        return await cluster.patch(...call);
      } finally {
        unseenMs += cluster.monotonicMs() - sentMs;
      }
    },
  };
});
export const wrapProtocol = (verbs: (protocol: Protocol) => Partial<Protocol>): Wrappers => ({
  protocol: (protocol) => ({ ...protocol, ...verbs(protocol) }),
});
export const wrapViews = (read: (cache: GroupCache) => GroupCache["read"]): Wrappers => ({
  cache: (cache) => ({ ...cache, read: read(cache) }),
});

export const rolloutRules: readonly RemovedRule[] = [
  {
    rule: "R3",
    removed: "the condition on ledger writes",
    breaks: ["Z1", "Z2"],
    aim: (plan) => plain(plan),
    wrappers: wrapCluster((cluster) => ({
      patch: (resource, key, body, options) => {
        if (resource !== "leases") return cluster.patch(resource, key, body, options);
        const { annotations } = (body as { metadata: { annotations: object } }).metadata;
        return cluster.patch(resource, key, { metadata: { annotations } }, options);
      },
    })),
  },
  {
    rule: "R4",
    removed: "the ten seconds of a new ledger, and its consistent first LIST",
    breaks: ["Z1", "Z2"],
    aim: (plan) =>
      plain(plan, {
        staleness: { oldest: 0.7, between: 0.8 },
        every: { ...never, loseLedger: 8_000 },
      }),
    wrappers: {
      ...wrapProtocol((protocol) => {
        const aged = <T>(ledger: T): T => (ledger === undefined ? ledger : { ...ledger, createdMs: 0 });
        return {
          readLedger: async (...call) => aged(await protocol.readLedger(...call)),
          createLedger: async (...call) => aged(await protocol.createLedger(...call)),
          writeLedger: async (...call) => aged(await protocol.writeLedger(...call)),
        };
      }),
      ...wrapViews(
        (cache) => (key, need) =>
          cache.read(key, {
            ...need,
            settledThrough: need.settledThrough ?? 1,
          }),
      ),
    },
  },
  {
    rule: "R5",
    removed: "settled-through: views of any age are taken",
    breaks: ["Z1", "Z2"],
    aim: (plan) => plain(plan, { staleness: { oldest: 0.9, between: 0.8 } }),
    wrappers: wrapViews((cache) => (key, need) => cache.read(key, { ...need, settledThrough: 1 })),
  },
  {
    rule: "R5",
    removed: "reading StatefulSets before permitting",
    breaks: ["Z3", "Z4"],
    aim: (plan) =>
      plain(plan, {
        staleness: { oldest: 0.9, between: 0.8 },
        every: {
          ...never,
          rollBack: 9_000,
          pause: 9_000,
          changeTemplate: 9_000,
        },
      }),
    wrappers: {
      ...wrapCluster(() => ({})),
      cache: (cache) => ({
        ...cache,
        read: async (key, need) => {
          const view = await cache.read(key, {
            ...need,
            permitSinceMs: undefined,
            consistent: false,
          });
          return {
            ...view,
            statefulSetsReadMs: view.statefulSetsReadMs ?? Number.MAX_SAFE_INTEGER,
          };
        },
      }),
    },
  },
  {
    rule: "R6",
    removed: "waiting until the pod that came instead is Ready",
    breaks: ["Z1", "Z2"],
    aim: (plan) =>
      plain(plan, {
        staleness: { oldest: 0.7, between: 0.8 },
        readyAfterMs: 8_000,
      }),
    wrappers: {
      ...wrapProtocol(() => ({
        isSettled: (reservation, { pod }) => pod === undefined || pod.uid !== reservation.uid,
      })),
    },
  },
  {
    rule: "R6",
    removed: "settling the ordinals that no StatefulSet wants any more",
    breaks: ["L1"],
    aim: (plan) => plain(plan, { safetyMs: 90_000, every: { ...never, scale: 5_000 } }),
    wrappers: wrapProtocol((protocol) => ({
      isSettled: (reservation, where, nowMs) =>
        where.pod !== undefined && protocol.isSettled(reservation, where, nowMs),
    })),
  },
  {
    rule: "R7",
    removed: "counting reserved ordinals as down",
    breaks: ["Z1", "Z2"],
    aim: (plan) => plain(plan),
    wrappers: wrapProtocol(() => ({ isSettled: () => true })),
  },
  {
    rule: "R8",
    removed: "the reservation before the act",
    breaks: ["Z1", "Z2"],
    aim: (plan) => plain(plan),
    wrappers: wrapProtocol(() => ({
      writeLedger: async (_cluster, ledger, { seenThrough, ...change }) => ({
        ...ledger,
        ...change,
        settledThrough: Math.max(ledger.settledThrough ?? 0, seenThrough),
      }),
    })),
  },
  {
    rule: "R8",
    removed: "moving settled-through with the view",
    breaks: ["Z1", "Z2"],
    aim: (plan) => plain(plan, { staleness: { oldest: 0.9, between: 0.8 } }),
    wrappers: wrapProtocol((protocol) => ({
      writeLedger: (cluster, ledger, change) => protocol.writeLedger(cluster, ledger, { ...change, seenThrough: 1 }),
    })),
  },
  {
    rule: "R8",
    removed: "the largest revision of several lists: the smallest instead",
    breaks: ["Z1", "Z2"],
    aim: (plan) => plain(plan, { staleness: { oldest: 0.7, between: 0.8 } }),
    wrappers: wrapViews((cache) => async (key, need) => {
      const view = await cache.read(key, need);
      const largest = view.workloads.map((set) =>
        Math.max(0, ...[...view.podsOf(set)].map((pod) => pod.resourceVersion)),
      );
      // A view without a StatefulSet has no list.
      return largest.length === 0 ? view : { ...view, seenThrough: Math.min(...largest) };
    }),
  },
  {
    rule: "R9",
    removed: "the uid as a condition of deletions",
    breaks: ["Z1", "Z2", "Z3"],
    aim: (plan) =>
      plain(plan, {
        readyAfterMs: 500,
        faults: { ...noFaults, latencyMs: 40, stall: 0.1, stallMs: 4_500 },
        every: { ...never, crash: 10_000 },
      }),
    wrappers: wrapCluster((cluster) => ({
      delete: (resource, key, _preconditions, options) => cluster.delete(resource, key, {} as Preconditions, options),
    })),
  },
  {
    rule: "R9",
    removed: "acting within five seconds",
    breaks: ["Z1", "Z2", "Z3", "Z4"],
    aim: (plan) =>
      plain(plan, {
        faults: { ...noFaults, latencyMs: 5, stall: 0.15, stallMs: 40_000 },
        every: { ...never, rollBack: 12_000, pause: 8_000 },
      }),
    wrappers: unseenWrites,
  },
  {
    rule: "R10",
    removed: "the GET before an old reservation is dropped",
    breaks: ["Z1", "Z2"],
    aim: (plan) => lateDeletions(plain(plan, { staleness: { oldest: 0.9, between: 0.8 } })),
    wrappers: wrapProtocol(() => ({
      findAbandoned: async (cluster, _namespace, open) =>
        new Set(open.filter(({ stampMs }) => cluster.serverTimeMs() - stampMs >= dropAfterMs)),
    })),
  },
  {
    rule: "R10",
    removed: "looking at the deletionTimestamp before an old reservation is dropped",
    breaks: ["Z1", "Z2"],
    aim: (plan) => lateDeletions(plain(plan, { staleness: { oldest: 0.9, between: 0.8 } })),
    wrappers: wrapProtocol(() => ({
      findAbandoned: async (cluster, namespace, open) => {
        const pods = await Promise.all(
          open.map(({ statefulSet, ordinal }) =>
            cluster.get("pods", { namespace, name: `${statefulSet}-${ordinal}` }).catch(() => undefined),
          ),
        );
        return new Set(open.filter(({ uid }, index) => pods[index]?.metadata.uid === uid));
      },
    })),
  },
  {
    rule: "R13",
    removed: "the resourceVersion as a condition of repairs",
    breaks: ["Z1", "Z2"],
    aim: (plan) =>
      plain(plan, {
        safetyMs: 90_000,
        every: { ...never, breakPod: 2_000, changeTemplate: 8_000 },
        faults: { ...noFaults, latencyMs: 40 },
      }),
    wrappers: wrapCluster((cluster) => ({
      delete: (resource, key, { uid }, options) => cluster.delete(resource, key, { uid }, options),
    })),
  },
];
