/**
 * Random groups under random budgets, with evictions that are asked for together: as plain facts, and as the API server and a
 * ledger would show them. The simple rules read the facts; the product reads what is rendered from them.
 */
import fc from "fast-check";
import type { EvictionSnapshot } from "../../functions/evaluate-eviction/decide.ts";
import type { ReviewedEviction } from "../../functions/evaluate-eviction/group-commit/sort-decisions.ts";
import { parseStoredBudget, surroundingsOf } from "../../functions/shared/groups/governing.ts";
import {
  type PodDisruptionBudget,
  parseDisruptionBudget,
} from "../../functions/shared/groups/pod-disruption-budget.ts";
import { surveyZone } from "../../functions/shared/groups/zones.ts";
import type { PodObject, StatefulSetObject, ZoneBudgetObject } from "../../functions/shared/kubernetes/cluster.ts";
import type { Reservation } from "../../functions/shared/ledger/reservation.ts";
import { isSettled } from "../../functions/shared/ledger/settling.ts";
import { parsePod } from "../../functions/shared/workloads/pods.ts";
import { parseStatefulSet } from "../../functions/shared/workloads/statefulsets.ts";

export const nowMs = Date.UTC(2026, 0, 1, 0, 10);

export interface PlaceFacts {
  readonly pod: "absent" | "ready" | "not ready" | "pending" | "terminating" | "ended";
  /** Seconds for which a ready pod has been so; unknown if its status does not say. */
  readonly readyFor: number | "unknown";
  readonly reserved: "no" | "for this pod" | "for the pod before";
  readonly reservationAgeMs: number;
}

export interface ZoneFacts {
  readonly start: number;
  readonly replicas: number;
  /** Number of pods that the controller counted last. */
  readonly counted: number;
  readonly minReadySeconds: number;
  /** True: the StatefulSet has the label that its pods have. */
  readonly labelled: boolean;
  /** Consecutive places from `start`. Places beyond the replicas are those that the StatefulSet no longer wants. */
  readonly places: readonly PlaceFacts[];
}

export type Slicing = "none" | "by ordinal" | "by first digit" | "by zone" | "only of b";

export interface BudgetFacts {
  readonly may: { readonly pods: number } | { readonly percent: number } | "nothing said" | "nonsense";
  readonly slicing: Slicing;
  readonly delaySeconds: number;
  readonly selects: "all" | "zone a" | "zone b" | "others";
}

export interface DisruptionBudgetFacts {
  readonly allows: number;
  readonly behind: boolean;
  readonly sparesUnready: boolean;
  readonly healthy: boolean;
  /** Number of pods that its controller expects, of which it wants two healthy. An older controller says "not said". */
  readonly expects: "not said" | 2 | 3;
}

export interface QuestionFacts {
  readonly zone: number;
  /** Index from the zone's start. */
  readonly place: number;
  readonly uid: "as it is" | "of another";
  readonly pinned: boolean;
  readonly dryRun: boolean;
}

export interface EvictionFacts {
  /** Zones are called a, b, c, d. */
  readonly zones: readonly ZoneFacts[];
  readonly budgets: readonly BudgetFacts[];
  readonly disruptionBudgets: readonly DisruptionBudgetFacts[];
  /** True: a StatefulSet of another group has the label as well. */
  readonly foreign: boolean;
  /** Ordinals that are reserved in a StatefulSet called y that has left the group. */
  readonly departed: readonly number[];
  /** Number of further reservations that fit into the ledger. */
  readonly room: number;
  readonly questions: readonly QuestionFacts[];
}

export const letterOf = (zone: number): string => String.fromCharCode(97 + zone);

/** Values of `podNamePartitionRegex`; budgets of zones have none. */
export const expressions: Readonly<Record<Exclude<Slicing, "none">, string>> = {
  "by ordinal": "[a-z]-([0-9]+)",
  "by first digit": "[a-z]-([0-9])[0-9]*",
  "by zone": "([a-z])-[0-9]+",
  "only of b": "b-(.*)",
};

function weighted<T>(...choices: (readonly [number, T])[]): fc.Arbitrary<T> {
  return fc.oneof(...choices.map(([weight, value]) => ({ weight, arbitrary: fc.constant(value) })));
}

const oneIn = (n: number): fc.Arbitrary<boolean> => weighted([n - 1, false], [1, true]);

/** Most pods are healthy, because groups in which everything is broken are all decided alike. */
const anyPlace = fc.record({
  pod: weighted<PlaceFacts["pod"]>(
    [160, "ready"],
    [2, "absent"],
    [2, "not ready"],
    [1, "pending"],
    [2, "terminating"],
    [1, "ended"],
  ),
  readyFor: weighted<PlaceFacts["readyFor"]>([12, 600], [2, 60], [2, 61], [1, 30], [1, 29], [1, 0], [1, "unknown"]),
  reserved: weighted<PlaceFacts["reserved"]>([160, "no"], [2, "for this pod"], [1, "for the pod before"]),
  reservationAgeMs: fc.constantFrom(0, 5_000, 149_999, 150_000),
});

/** A pod that was taken a moment ago and whose replacement is not ready yet. Chance alone seldom draws one. */
const replaced = anyPlace.map((one): PlaceFacts => ({ ...one, pod: "not ready", reserved: "for the pod before" }));
const place = fc.oneof({ weight: 50, arbitrary: anyPlace }, { weight: 1, arbitrary: replaced });

const zone: fc.Arbitrary<ZoneFacts> = weighted([1, 0], [2, 1], [3, 2], [5, 3], [5, 4], [3, 5]).chain((replicas) =>
  fc.record({
    start: weighted([5, 0], [2, 10]),
    replicas: fc.constant(replicas),
    counted: weighted([20, replicas], [1, Math.max(0, replicas - 1)], [1, replicas + 2], [1, 0]),
    minReadySeconds: weighted([4, 0], [1, 30]),
    labelled: weighted([6, true], [1, false]),
    places: oneIn(8).chain((more) => fc.array(place, { minLength: replicas, maxLength: replicas + (more ? 2 : 0) })),
  }),
);

const budget = fc.record({
  may: weighted<BudgetFacts["may"]>(
    [12, { pods: 1 }],
    [14, { pods: 2 }],
    [10, { pods: 3 }],
    [1, { pods: 0 }],
    [4, { percent: 34 }],
    [4, { percent: 50 }],
    [4, { percent: 100 }],
    [1, { percent: 0 }],
    [3, "nothing said"],
    [1, "nonsense"],
  ),
  slicing: weighted<Slicing>([10, "none"], [8, "by ordinal"], [3, "by first digit"], [2, "by zone"], [2, "only of b"]),
  delaySeconds: weighted([4, 0], [1, 60]),
  selects: weighted<BudgetFacts["selects"]>([40, "all"], [1, "zone a"], [1, "zone b"], [1, "others"]),
});

/**
 * Replaces what the validation would not accept by something similar: a percentage only in zones, a delay only in partitions.
 */
function sound({ may, slicing, delaySeconds, selects }: BudgetFacts): BudgetFacts {
  const isShare = typeof may === "object" && "percent" in may && may.percent > 0;
  return {
    may: isShare && slicing !== "none" ? { pods: 2 } : may,
    slicing,
    delaySeconds: slicing === "none" ? 0 : delaySeconds,
    selects,
  };
}

const disruptionBudget = fc.record({
  allows: weighted([3, 1], [1, 0]),
  behind: oneIn(6),
  sparesUnready: fc.boolean(),
  healthy: fc.boolean(),
  expects: weighted<DisruptionBudgetFacts["expects"]>([1, "not said"], [1, 2], [1, 3]),
});

const question = fc.record({
  zone: weighted([4, 0], [2, 1], [1, 2], [1, 3]),
  place: fc.nat(5),
  uid: weighted<QuestionFacts["uid"]>([30, "as it is"], [1, "of another"]),
  pinned: weighted([4, true], [1, false]),
  dryRun: oneIn(5),
});

/** Aims most questions at an existing place. */
function aim({ zones, ...facts }: EvictionFacts): EvictionFacts {
  const questions = facts.questions.map((one, index) => {
    const zone = one.zone % zones.length;
    const count = zones[zone]?.places.length ?? 0;
    return { ...one, zone, place: index === 7 || count === 0 ? one.place : one.place % count };
  });
  return { ...facts, zones, questions };
}

export const evictions: fc.Arbitrary<EvictionFacts> = fc
  .record({
    zones: weighted([1, 1], [15, 2], [15, 3], [3, 4]).chain((count) => {
      return fc.array(zone, { minLength: count, maxLength: count });
    }),
    budgets: weighted([40, 1], [2, 2], [1, 0]).chain((count) => {
      return fc.array(budget.map(sound), { minLength: count, maxLength: count });
    }),
    disruptionBudgets: weighted([20, 0], [3, 1], [1, 2]).chain((count) => {
      return fc.array(disruptionBudget, { minLength: count, maxLength: count });
    }),
    foreign: oneIn(25),
    departed: oneIn(12).chain((some) => fc.array(fc.constantFrom(0, 1, 10), { maxLength: some ? 2 : 0 })),
    room: weighted([12, 1_000], [1, 0], [1, 1], [1, 2]),
    questions: fc.array(question, { minLength: 1, maxLength: 8 }),
  })
  .map(aim);

const tag = { app: "db" };

/** The input of the function for these facts, which the product parses, settles and counts. */
export function render(facts: EvictionFacts): EvictionSnapshot {
  const key = { namespace: "db", group: "group" };
  const budgets = facts.budgets.map((one, index) => parseStoredBudget(budgetObject(one, index)));
  const open: Reservation[] = [];
  const surveys = facts.zones.map((zoneFacts, index) => {
    const name = letterOf(index);
    const set = parseStatefulSet(statefulSetObject(name, "group", zoneFacts));
    const pods = zoneFacts.places.flatMap((one, at) =>
      one.pod === "absent" ? [] : [parsePod(podObject(name, zoneFacts.start + at, one))],
    );
    for (const [at, one] of zoneFacts.places.entries()) {
      const reservation = reservationOf(name, zoneFacts.start + at, one);
      const pod = pods.find(({ ordinal }) => ordinal === zoneFacts.start + at);
      if (
        reservation !== undefined &&
        !isSettled(reservation, { pod, workload: set, isMember: true, orphans: 0 }, nowMs)
      )
        open.push(reservation);
    }
    return { set, pods };
  });
  const foreign = facts.foreign ? [statefulSetObject("x", "other", { replicas: 1, labelled: true })] : [];
  const all = [...surveys.map(({ set }) => set), ...foreign.map(parseStatefulSet)];
  return {
    key,
    nowMs,
    zones: surveys.map(({ set, pods }) => surveyZone(set, pods, open, nowMs)),
    strayClaims: [],
    departed: facts.departed.map((ordinal) => {
      return { statefulSet: "y", ordinal, uid: `y-${ordinal}`, by: "evaluate-eviction", stampMs: nowMs };
    }),
    givenUp: new Map(),
    self: "evaluate-eviction",
    surroundings: surroundingsOf(all, key, budgets),
    disruptionBudgets: facts.disruptionBudgets.map(disruptionBudgetOf),
    room: facts.room,
    asked: facts.questions.map((one) => askedOf(facts, one)),
  };
}

function askedOf({ zones }: EvictionFacts, { zone, place, uid, pinned, dryRun }: QuestionFacts): ReviewedEviction {
  const name = `${letterOf(zone)}-${(zones[zone]?.start ?? 0) + place}`;
  return { dryRun, eviction: { name, uid: uid === "as it is" ? `uid-${name}` : "another", isPinned: pinned, pin: [] } };
}

function reservationOf(statefulSet: string, ordinal: number, facts: PlaceFacts): Reservation | undefined {
  if (facts.reserved === "no") return undefined;
  const uid = `${facts.reserved === "for this pod" ? "uid" : "before"}-${statefulSet}-${ordinal}`;
  return { statefulSet, ordinal, uid, by: reserverOf(ordinal), stampMs: nowMs - facts.reservationAgeMs };
}

/** The function that has reserved a place. */
export function reserverOf(ordinal: number): string {
  return ordinal % 2 === 0 ? "advance-zone-rollout" : "evaluate-eviction";
}

function statefulSetObject(
  name: string,
  group: string,
  facts: Pick<ZoneFacts, "replicas" | "labelled"> & Partial<ZoneFacts>,
): StatefulSetObject {
  const { replicas, labelled, start = 0, minReadySeconds = 0, counted = replicas } = facts;
  const labels = { "rollout-group": group };
  return {
    metadata: { name, namespace: "db", uid: `set-${name}`, resourceVersion: "5", generation: 3, labels },
    spec: {
      replicas,
      minReadySeconds,
      ordinals: { start },
      updateStrategy: { type: "OnDelete" },
      template: { metadata: { labels: labelled ? { ...tag, zone: name } : {} } },
    },
    status: { observedGeneration: 3, replicas: counted, currentRevision: "old", updateRevision: "old" },
  };
}

function podObject(zone: string, ordinal: number, { pod, readyFor }: PlaceFacts): PodObject {
  const name = `${zone}-${ordinal}`;
  const isReady = pod === "ready" || pod === "terminating";
  const condition = { type: "Ready", status: isReady ? "True" : "False" };
  const since = readyFor === "unknown" ? {} : { lastTransitionTime: new Date(nowMs - readyFor * 1000).toISOString() };
  return {
    metadata: {
      name,
      namespace: "db",
      uid: `uid-${name}`,
      resourceVersion: "7",
      labels: { ...tag, zone },
      ownerReferences: [{ kind: "StatefulSet", name: zone, uid: `set-${zone}`, controller: true }],
      ...(pod === "terminating" ? { deletionTimestamp: "2026-01-01T00:09:30Z" } : {}),
    },
    status: {
      phase: pod === "pending" ? "Pending" : pod === "ended" ? "Failed" : "Running",
      conditions: [{ ...condition, ...since }],
      containerStatuses: [{ ready: isReady, state: isReady ? { running: {} } : { waiting: {} } }],
    },
  };
}

function budgetObject({ may, slicing, delaySeconds, selects }: BudgetFacts, index: number): ZoneBudgetObject {
  const matchLabels = {
    all: tag,
    "zone a": { ...tag, zone: "a" },
    "zone b": { ...tag, zone: "b" },
    others: { app: "web" },
  }[selects];
  const fields = may === "nothing said" ? {} : may === "nonsense" ? { maxUnavailable: "some" } : fieldsOf(may);
  const partitions = slicing === "none" ? {} : { podNamePartitionRegex: expressions[slicing] };
  const delay = delaySeconds === 0 ? {} : { crossZoneEvictionDelay: `${delaySeconds}s` };
  return {
    metadata: { name: `budget-${index}`, namespace: "db", uid: `budget-${index}`, resourceVersion: "3" },
    spec: { selector: { matchLabels }, ...fields, ...partitions, ...delay },
  };
}

function fieldsOf(may: { readonly pods: number } | { readonly percent: number }): object {
  return "pods" in may ? { maxUnavailable: may.pods } : { maxUnavailablePercentage: may.percent };
}

function disruptionBudgetOf(facts: DisruptionBudgetFacts, index: number): PodDisruptionBudget {
  const { allows, behind, sparesUnready, healthy, expects } = facts;
  return parseDisruptionBudget({
    metadata: { name: `pdb-${index}`, namespace: "db", uid: `pdb-${index}`, resourceVersion: "3", generation: 2 },
    spec: {
      selector: { matchLabels: tag },
      unhealthyPodEvictionPolicy: sparesUnready ? "AlwaysAllow" : "IfHealthyBudget",
    },
    status: {
      observedGeneration: behind ? 1 : 2,
      disruptionsAllowed: allows,
      desiredHealthy: 2,
      currentHealthy: healthy ? 2 : 1,
      ...(expects === "not said" ? {} : { expectedPods: expects }),
    },
  });
}
