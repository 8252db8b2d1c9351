/**
 * Random groups as plain facts, and the same groups as the API server and a ledger would show them. The naive rules read
 * the facts; the product reads what is rendered from them.
 */
import fc from "fast-check";
import type { Group } from "../../functions/advance-zone-rollout/decide.ts";
import type { ContainerStatus, PodObject, StatefulSetObject } from "../../functions/shared/cluster.ts";
import { parsePod } from "../../functions/shared/pods.ts";
import type { Reservation } from "../../functions/shared/reservation.ts";
import { parseStatefulSet } from "../../functions/shared/statefulsets.ts";
import { isSettled, surveyZone } from "../../functions/shared/zones.ts";

export const nowMs = Date.UTC(2026, 0, 1, 0, 10);
export const self = "advance-zone-rollout";

export interface SlotFacts {
  readonly health: "absent" | "ready" | "not ready" | "terminating" | "stuck" | "stuck at init";
  readonly revision: "old" | "older" | "new" | "none";
  /** For how many seconds the pod has been ready; without meaning for others. */
  readonly readyForSeconds: number;
  readonly reservation: "none" | "of this pod" | "of the pod before";
  readonly reservedBy: string;
  readonly reservationAgeMs: number;
  readonly refused: boolean;
}

export interface ZoneFacts {
  readonly start: number;
  readonly replicas: number;
  readonly budget: { readonly pods: number } | { readonly percent: number };
  readonly minReadySeconds: number;
  readonly paused: boolean;
  readonly strategy: "OnDelete" | "RollingUpdate";
  readonly behind: boolean;
  readonly recorded: "old" | "new";
  readonly recordRefused: boolean;
  /** By ordinal, from 0 on: some lie before `start` or beyond the replicas. */
  readonly slots: readonly SlotFacts[];
}

/** Zones are called a, b, c, d. */
export type GroupFacts = readonly ZoneFacts[];

export const zoneNameOf = (zone: number): string => String.fromCharCode(97 + zone);
export const uidOf = (pod: string): string => `uid-${pod}`;

const oneIn = (n: number): fc.Arbitrary<boolean> => fc.nat(n - 1).map((drawn) => drawn === n - 1);

/** Most of a group is well: worlds in which everything is broken all decide alike. */
function weighted<T>(...choices: (readonly [number, T])[]): fc.Arbitrary<T> {
  return fc.oneof(...choices.map(([weight, value]) => ({ weight, arbitrary: fc.constant(value) })));
}

const slot: fc.Arbitrary<SlotFacts> = fc.record({
  health: weighted<SlotFacts["health"]>(
    [40, "ready"],
    [3, "absent"],
    [3, "not ready"],
    [2, "terminating"],
    [2, "stuck"],
    [1, "stuck at init"],
  ),
  revision: weighted<SlotFacts["revision"]>([8, "old"], [8, "new"], [1, "older"], [1, "none"]),
  readyForSeconds: fc.constantFrom(600, 60, 30, 29, 5, 0),
  reservation: weighted<SlotFacts["reservation"]>([30, "none"], [2, "of this pod"], [1, "of the pod before"]),
  reservedBy: fc.constantFrom(self, "evaluate-eviction"),
  reservationAgeMs: fc.constantFrom(0, 6_999, 7_000, 60_000),
  refused: oneIn(20),
});

const zone: fc.Arbitrary<ZoneFacts> = fc.nat(6).chain((replicas) =>
  fc.record({
    start: weighted([5, 0], [1, 1]),
    replicas: fc.constant(replicas),
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
    // A pod beyond the replicas in one zone of four: it unsettles the zone.
    slots: oneIn(4).chain((more) => fc.array(slot, { minLength: replicas, maxLength: replicas + (more ? 2 : 0) })),
  }),
);

export const group: fc.Arbitrary<GroupFacts> = fc.array(zone, { minLength: 1, maxLength: 4 });

/** What a function would be given of these facts, settled, counted and parsed by the product. */
export function render(facts: GroupFacts, order: "ascending" | "descending" = "ascending"): Group {
  const refusals = new Map<string, { uid: string; pod: string; sentence: string; stampMs: number }>();
  const refuse = (uid: string, pod: string) => refusals.set(uid, { uid, pod, sentence: "no", stampMs: nowMs });
  const open: Reservation[] = [];
  const surveys = facts.map((zoneFacts, index) => {
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
      if (reservation !== undefined && !isSettled(reservation, pod, set, nowMs)) open.push(reservation);
    }
    return { set, pods: order === "ascending" ? pods : pods.reverse() };
  });
  const zones = surveys.map(({ set, pods }) => surveyZone(set, pods, open, nowMs));
  const surroundings = { statefulSets: surveys.map(({ set }) => set), neighbours: [], budgets: [] };
  return { key: { namespace: "db", group: "group" }, self, nowMs, zones, departed: [], surroundings, refusals };
}

function reservationOf(name: string, ordinal: number, facts: SlotFacts): Reservation | undefined {
  if (facts.reservation === "none") return undefined;
  const pod = `${name}-${ordinal}`;
  const uid = facts.reservation === "of this pod" ? uidOf(pod) : `before-${pod}`;
  return { statefulSet: name, ordinal, uid, by: facts.reservedBy, stampMs: nowMs - facts.reservationAgeMs };
}

function statefulSetObject(name: string, facts: ZoneFacts): StatefulSetObject {
  const { budget, paused } = facts;
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
    },
    status: { observedGeneration: facts.behind ? 2 : 3, currentRevision: facts.recorded, updateRevision: "new" },
  };
}

function podObject(name: string, ordinal: number, { health, revision, readyForSeconds }: SlotFacts): PodObject {
  const pod = `${name}-${ordinal}`;
  const ready = health === "ready" || health === "terminating";
  const stuck: ContainerStatus = { ready: false, state: { waiting: { reason: "CrashLoopBackOff" } } };
  const well: ContainerStatus = { ready: true, state: { running: {} } };
  const starting: ContainerStatus = { ready: false, state: { waiting: { reason: "ContainerCreating" } } };
  const lastTransitionTime = new Date(nowMs - readyForSeconds * 1000).toISOString();
  return {
    metadata: {
      name: pod,
      namespace: "db",
      uid: uidOf(pod),
      resourceVersion: "7",
      labels: revision === "none" ? {} : { "controller-revision-hash": revision },
      ownerReferences: [{ kind: "StatefulSet", name, uid: `set-${name}`, controller: true }],
      ...(health === "terminating" ? { deletionTimestamp: "2026-01-01T00:09:30Z" } : {}),
    },
    status: {
      conditions: [{ type: "Ready", status: ready ? "True" : "False", lastTransitionTime }],
      containerStatuses: [health === "stuck" ? stuck : ready ? well : starting],
      initContainerStatuses: health === "stuck at init" ? [stuck] : [],
    },
  };
}
