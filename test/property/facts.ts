/**
 * Random groups as plain facts, and the same groups as the API server and a ledger would show them. The simple rules read the
 * facts; the product reads what is rendered from them.
 */
import fc from "fast-check";
import type { RolloutSnapshot } from "../../functions/advance-zone-rollout/decide.ts";
import { parseStoredBudget } from "../../functions/shared/groups/governing.ts";
import { surveyZone } from "../../functions/shared/groups/zones.ts";
import type {
  ContainerStatus,
  PodObject,
  StatefulSetObject,
  ZoneBudgetObject,
} from "../../functions/shared/kubernetes/cluster.ts";
import type { Reservation } from "../../functions/shared/ledger/reservation.ts";
import { isSettled } from "../../functions/shared/ledger/settling.ts";
import { parsePod } from "../../functions/shared/workloads/pods.ts";
import { parseStatefulSet, type StatefulSet } from "../../functions/shared/workloads/statefulsets.ts";

export const nowMs = Date.UTC(2026, 0, 1, 0, 10);
export const self = "advance-zone-rollout";

export interface SlotFacts {
  readonly health: Health;
  readonly revision: "old" | "older" | "new" | "none";
  /** Age of the pod in seconds; unknown if it does not say when it was created. */
  readonly ageSeconds: number | "unknown";
  /** Seconds for which the pod has been ready; unused for other pods. */
  readonly readyForSeconds: number;
  readonly reservation: "none" | "of this pod" | "of the pod before";
  readonly reservedBy: string;
  readonly reservationAgeMs: number;
  readonly refused: boolean;
  /** The pod's label `tier`, by which some budgets select. */
  readonly tier: Tier;
}

/**
 * `not ready` and `pending again` were Ready before; the node of the latter has restarted. `never ready` runs, and was never
 * Ready. `pending` has not got that far. No kubelet has reported about `unheard`. `unclear` does not say since when it is not
 * ready.
 */
export type Health =
  | "absent"
  | "ready"
  | "not ready"
  | "terminating"
  | "stuck"
  | "stuck at init"
  | "never ready"
  | "pending"
  | "pending again"
  | "unheard"
  | "unclear";

export type Tier = "hot" | "cold";

export interface ZoneFacts {
  readonly start: number;
  readonly replicas: number;
  /** Number of pods in the StatefulSet's status. */
  readonly counted: number;
  /** The StatefulSet's own label `tier`. */
  readonly tier: Tier;
  readonly budget: { readonly pods: number } | { readonly percent: number };
  readonly minReadySeconds: number;
  readonly paused: boolean;
  readonly strategy: "OnDelete" | "RollingUpdate";
  readonly behind: boolean;
  readonly recorded: "old" | "new";
  readonly recordRefused: boolean;
  /** Slots by ordinal, from 0: some lie before `start` or beyond the replicas. */
  readonly slots: readonly SlotFacts[];
}

/** The name of a pod's partition: its ordinal, its zone, or its ordinal if that is even, and none if it is odd. */
export type Partitioning = "ordinal" | "zone" | "even ordinal";

export interface BudgetFacts {
  /** Undefined: the budget is for each zone. */
  readonly partitioning: Partitioning | undefined;
  readonly allowance: { readonly pods: number } | { readonly percent: number };
  /** Undefined: it selects every pod of the group; otherwise the pods of that tier. */
  readonly tier: Tier | undefined;
  readonly delaySeconds: number;
  readonly invalid: boolean;
}

/** Zones are called a, b, c, d. */
export interface GroupFacts {
  readonly zones: readonly ZoneFacts[];
  readonly budgets: readonly BudgetFacts[];
  /** Tier of a StatefulSet of another group with the label of this group's application; undefined: there is none. */
  readonly foreignTier: Tier | undefined;
}

export const zoneNameOf = (zone: number): string => String.fromCharCode(97 + zone);
export const uidOf = (pod: string): string => `uid-${pod}`;

const oneIn = (n: number): fc.Arbitrary<boolean> => fc.nat(n - 1).map((drawn) => drawn === n - 1);

/** Most of a group is healthy, because groups in which everything is broken are all decided alike. */
function weighted<T>(...choices: (readonly [number, T])[]): fc.Arbitrary<T> {
  return fc.oneof(...choices.map(([weight, value]) => ({ weight, arbitrary: fc.constant(value) })));
}

const slot: fc.Arbitrary<SlotFacts> = fc.record({
  health: weighted<SlotFacts["health"]>(
    [100, "ready"],
    [6, "absent"],
    [5, "not ready"],
    [4, "terminating"],
    [3, "stuck"],
    [1, "stuck at init"],
    [4, "never ready"],
    [1, "pending"],
    [1, "pending again"],
    [1, "unheard"],
    [1, "unclear"],
  ),
  revision: weighted<SlotFacts["revision"]>([8, "old"], [8, "new"], [1, "older"], [1, "none"]),
  ageSeconds: fc.constantFrom<SlotFacts["ageSeconds"][]>(700, 120, 119, 0, "unknown"),
  readyForSeconds: fc.constantFrom(600, 60, 30, 29, 5, 0),
  reservation: weighted<SlotFacts["reservation"]>([30, "none"], [2, "of this pod"], [1, "of the pod before"]),
  reservedBy: fc.constantFrom(self, "evaluate-eviction"),
  reservationAgeMs: fc.constantFrom(0, 6_999, 7_000, 60_000),
  refused: oneIn(20),
  tier: weighted<Tier>([9, "hot"], [1, "cold"]),
});

const zone: fc.Arbitrary<ZoneFacts> = fc.nat(6).chain((replicas) =>
  fc.record({
    start: weighted([5, 0], [1, 1]),
    replicas: fc.constant(replicas),
    counted: weighted([4, replicas], [1, Math.max(0, replicas - 2)], [1, 0]),
    tier: weighted<Tier>([6, "hot"], [1, "cold"]),
    budget: fc.oneof(
      fc.constantFrom({ pods: 1 }, { pods: 2 }, { pods: 3 }, { pods: 9 }),
      fc.constantFrom({ percent: 1 }, { percent: 34 }, { percent: 50 }, { percent: 100 }),
    ),
    minReadySeconds: weighted([3, 0], [1, 30]),
    paused: oneIn(8),
    strategy: weighted<ZoneFacts["strategy"]>([40, "OnDelete"], [1, "RollingUpdate"]),
    behind: oneIn(12),
    recorded: fc.constantFrom("old", "new"),
    recordRefused: oneIn(20),
    // One zone in four has a pod beyond the replicas, which unsettles the zone.
    slots: oneIn(4).chain((more) => fc.array(slot, { minLength: replicas, maxLength: replicas + (more ? 2 : 0) })),
  }),
);

const pods = fc.constantFrom<BudgetFacts["allowance"][]>({ pods: 0 }, { pods: 1 }, { pods: 2 }, { pods: 3 });
const percent = fc.constantFrom<BudgetFacts["allowance"][]>({ percent: 0 }, { percent: 1 }, { percent: 50 });

/** Neither a percentage of a partition nor a delay without a partition can be kept: such budgets are just invalid. */
const budget: fc.Arbitrary<BudgetFacts> = weighted<BudgetFacts["partitioning"]>(
  [3, undefined],
  [5, "ordinal"],
  [1, "zone"],
  [3, "even ordinal"],
).chain((partitioning) =>
  fc.record({
    partitioning: fc.constant(partitioning),
    allowance: partitioning === undefined ? fc.oneof(pods, percent) : pods,
    tier: weighted<BudgetFacts["tier"]>([4, undefined], [1, "hot"], [1, "cold"]),
    delaySeconds: partitioning === undefined ? fc.constant(0) : fc.constantFrom(0, 0, 30, 60, 599),
    invalid: oneIn(15),
  }),
);

const anyZones = fc.array(zone, { minLength: 1, maxLength: 4 });

/** With pods down in two zones every decision is the same, so in half of the groups only one zone has troubles. */
const zones = fc.oneof(
  anyZones,
  fc
    .tuple(anyZones, fc.nat(3))
    .map(([all, troubled]) => all.map((one, index) => (index === troubled ? one : calm(one)))),
);

function calm(zone: ZoneFacts): ZoneFacts {
  const slots = zone.slots.map((slot): SlotFacts => ({ ...slot, health: "ready", reservation: "none" }));
  return { ...zone, start: 0, minReadySeconds: 0, slots: slots.slice(0, zone.replicas) };
}

/** Half of the groups have no budget, so that their decisions are tested as well. */
export const group: fc.Arbitrary<GroupFacts> = fc.record({
  zones,
  budgets: fc.oneof(
    { weight: 5, arbitrary: fc.constant([]) },
    { weight: 4, arbitrary: fc.tuple(budget) },
    { weight: 1, arbitrary: fc.tuple(budget, budget) },
  ),
  foreignTier: weighted<GroupFacts["foreignTier"]>([12, undefined], [1, "hot"], [1, "cold"]),
});

/** The input of the function for these facts, which the product settles, counts and parses. */
export function render(facts: GroupFacts, order: "ascending" | "descending" = "ascending"): RolloutSnapshot {
  const refusals = new Map<string, { uid: string; pod: string; message: string; stampMs: number }>();
  const refuse = (uid: string, pod: string) => refusals.set(uid, { uid, pod, message: "no", stampMs: nowMs });
  const open: Reservation[] = [];
  const surveys = facts.zones.map((zoneFacts, index) => {
    const name = zoneNameOf(index);
    if (zoneFacts.recordRefused) refuse(`set-${name}`, name);
    const set = parseStatefulSet(statefulSetObject(name, zoneFacts));
    const pods = zoneFacts.slots.flatMap((facts, ordinal) => {
      if (facts.refused) refuse(uidOf(`${name}-${ordinal}`), `${name}-${ordinal}`);
      return facts.health === "absent" ? [] : [parsePod(podObject(name, ordinal, facts))];
    });
    for (const [ordinal, slot] of zoneFacts.slots.entries()) {
      const reservation = reservationOf(name, ordinal, slot);
      const pod = pods.find((candidate) => candidate.ordinal === ordinal);
      if (
        reservation !== undefined &&
        !isSettled(reservation, { pod, workload: set, isMember: true, orphans: 0 }, nowMs)
      )
        open.push(reservation);
    }
    return { set, pods: order === "ascending" ? pods : pods.reverse() };
  });
  const zones = surveys.map(({ set, pods }) => surveyZone(set, pods, open, nowMs));
  const budgets = facts.budgets.map((facts, index) => parseStoredBudget(budgetObject(`budget-${index}`, facts)));
  const neighbours = facts.foreignTier === undefined ? [] : [foreign(facts.foreignTier)];
  const surroundings = { workloads: surveys.map(({ set }) => set), neighbours, budgets };
  const key = { namespace: "db", group: "group" };
  return { key, self, nowMs, zones, departed: [], strayClaims: [], surroundings, refusals };
}

function reservationOf(name: string, ordinal: number, facts: SlotFacts): Reservation | undefined {
  if (facts.reservation === "none") return undefined;
  const pod = `${name}-${ordinal}`;
  const uid = facts.reservation === "of this pod" ? uidOf(pod) : `before-${pod}`;
  return { statefulSet: name, ordinal, uid, by: facts.reservedBy, stampMs: nowMs - facts.reservationAgeMs };
}

const expressions: Readonly<Record<Partitioning, string>> = {
  ordinal: "[a-d]-([0-9]+)",
  zone: "([a-d])-[0-9]+",
  "even ordinal": "[a-d]-([02468])",
};

function budgetObject(name: string, facts: BudgetFacts): ZoneBudgetObject {
  const { allowance, partitioning, tier, delaySeconds, invalid } = facts;
  const max =
    "pods" in allowance ? { maxUnavailable: allowance.pods } : { maxUnavailablePercentage: allowance.percent };
  const partitions = partitioning === undefined ? {} : { podNamePartitionRegex: expressions[partitioning] };
  return {
    metadata: { name, namespace: "db", uid: `uid-${name}`, resourceVersion: "5", generation: 1 },
    spec: {
      ...(invalid ? { maxUnavailable: "1" } : max),
      ...partitions,
      selector: { matchLabels: tier === undefined ? { app: "db" } : { app: "db", tier } },
      ...(delaySeconds > 0 ? { crossZoneEvictionDelay: `${delaySeconds}s` } : {}),
    },
  };
}

function foreign(tier: Tier): StatefulSet {
  const labels = { "rollout-group": "another" };
  const template = { metadata: { labels: { app: "db", tier } } };
  const metadata = { name: "x", namespace: "db", uid: "set-x", resourceVersion: "5", labels };
  return parseStatefulSet({ metadata, spec: { template } });
}

function statefulSetObject(name: string, facts: ZoneFacts): StatefulSetObject {
  const { budget, paused, tier } = facts;
  return {
    metadata: {
      name,
      namespace: "db",
      uid: `set-${name}`,
      resourceVersion: "5",
      generation: 3,
      labels: { "rollout-group": "group" },
      annotations: {
        "rollout-max-unavailable": "pods" in budget ? `${budget.pods}` : `${budget.percent}%`,
        ...(paused ? { "grafana.com/rollout-paused": "true" } : {}),
      },
    },
    spec: {
      replicas: facts.replicas,
      minReadySeconds: facts.minReadySeconds,
      ordinals: { start: facts.start },
      updateStrategy: { type: facts.strategy },
      template: { metadata: { labels: { app: "db", tier } } },
    },
    status: {
      observedGeneration: facts.behind ? 2 : 3,
      replicas: facts.counted,
      currentRevision: facts.recorded,
      updateRevision: "new",
    },
  };
}

function podObject(name: string, ordinal: number, facts: SlotFacts): PodObject {
  const { health, revision, ageSeconds, tier } = facts;
  const pod = `${name}-${ordinal}`;
  const labels = { app: "db", tier, ...(revision === "none" ? {} : { "controller-revision-hash": revision }) };
  return {
    metadata: {
      name: pod,
      namespace: "db",
      uid: uidOf(pod),
      resourceVersion: "7",
      labels,
      ownerReferences: [{ kind: "StatefulSet", name, uid: `set-${name}`, controller: true }],
      ...(ageSeconds === "unknown" ? {} : { creationTimestamp: timeOf(ageSeconds) }),
      ...(health === "terminating" ? { deletionTimestamp: "2026-01-01T00:09:30Z" } : {}),
    },
    status: statusOf(facts),
  };
}

const timeOf = (secondsAgo: number): string => new Date(nowMs - secondsAgo * 1000).toISOString();

/** The kubelet's report. Every pod started 650 s ago, and the conditions of those that were never Ready are from then. */
function statusOf({ health, readyForSeconds }: SlotFacts): NonNullable<PodObject["status"]> {
  if (health === "unheard") return { phase: "Pending" };
  const ready = health === "ready" || health === "terminating";
  const stuck: ContainerStatus = { ready: false, state: { waiting: { reason: "CrashLoopBackOff" } } };
  const well: ContainerStatus = { ready: true, state: { running: {} } };
  const starting: ContainerStatus = { ready: false, state: { waiting: { reason: "ContainerCreating" } } };
  const wasNever = health === "never ready" || health === "pending";
  const time = health === "unclear" ? {} : { lastTransitionTime: timeOf(wasNever ? 650 : readyForSeconds) };
  return {
    phase: health === "pending" || health === "pending again" ? "Pending" : "Running",
    startTime: timeOf(650),
    conditions: [{ type: "Ready", status: ready ? "True" : "False", ...time }],
    containerStatuses: [health === "stuck" ? stuck : ready ? well : starting],
    initContainerStatuses: health === "stuck at init" ? [stuck] : [],
  };
}
