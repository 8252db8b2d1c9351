/** Objects as the API server sends them, and zones as decisions read them: a test states only what it is about. */

import { decide } from "../../../../functions/advance-zone-rollout/decide.ts";
import type { RolloutTarget } from "../../../../functions/advance-zone-rollout/decide-pods.ts";
import type { Verdict } from "../../../../functions/shared/contract/verdict.ts";
import {
  parseStoredBudget,
  type StoredBudget,
  type Surroundings,
} from "../../../../functions/shared/groups/governing.ts";
import { missingOrdinals, surveyZone, type WhyDown, type Zone } from "../../../../functions/shared/groups/zones.ts";
import type {
  ContainerStatus,
  LeaseObject,
  PodObject,
  StatefulSetObject,
} from "../../../../functions/shared/kubernetes/cluster.ts";
import {
  type Claim,
  type ClaimContent,
  type KindName,
  type KnownClaim,
  makeClaim,
} from "../../../../functions/shared/ledger/claim.ts";
import type { Refusal, Reservation } from "../../../../functions/shared/ledger/reservation.ts";
import { ordinalOf, type Pod } from "../../../../functions/shared/workloads/pods.ts";
import type { StatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";

/** The current time of every test that needs one: 2026-01-01T00:10:00Z. */
export const nowMs = Date.UTC(2026, 0, 1, 0, 10);
export const namespace = "db";
export const self = "advance-zone-rollout";

export function podObject(
  name: string,
  options: {
    readonly metadata?: Partial<PodObject["metadata"]>;
    readonly ready?: "True" | "False" | "Unknown" | undefined;
    readonly readySince?: string | undefined;
    readonly containers?: readonly ContainerStatus[];
    readonly initContainers?: readonly ContainerStatus[];
    /** Further fields of its status, which replace the default ones. */
    readonly status?: PodObject["status"];
  } = {},
): PodObject {
  const { ready = "True", readySince = "2026-01-01T00:00:00Z", containers = [running] } = options;
  const condition = { type: "Ready", status: ready };
  return {
    metadata: {
      name,
      namespace,
      uid: `uid-of-${name}`,
      resourceVersion: "7",
      labels: { "controller-revision-hash": "old" },
      ownerReferences: [{ kind: "StatefulSet", name: "a", uid: "uid-of-a", controller: true }],
      ...options.metadata,
    },
    status: {
      phase: "Running",
      conditions: [readySince === "" ? condition : { ...condition, lastTransitionTime: readySince }],
      containerStatuses: containers,
      ...(options.initContainers === undefined ? {} : { initContainerStatuses: options.initContainers }),
      ...options.status,
    },
  };
}

export const running: ContainerStatus = { name: "app", ready: true, state: { running: {} } };

export function waitingFor(reason: string): ContainerStatus {
  return { name: "app", ready: false, state: { waiting: { reason } } };
}

export function statefulSetObject(
  name: string,
  options: {
    readonly metadata?: Partial<StatefulSetObject["metadata"]>;
    readonly spec?: StatefulSetObject["spec"];
    readonly status?: StatefulSetObject["status"];
  } = {},
): StatefulSetObject {
  return {
    metadata: {
      name,
      namespace,
      uid: `uid-of-${name}`,
      resourceVersion: "5",
      generation: 2,
      labels: { "rollout-group": "group" },
      ...options.metadata,
    },
    spec: { replicas: 3, updateStrategy: { type: "OnDelete" }, ...options.spec },
    status: { observedGeneration: 2, currentRevision: "old", updateRevision: "new", ...options.status },
  };
}

export function leaseObject(
  name: string,
  annotations: Readonly<Record<string, string>>,
  metadata: Partial<LeaseObject["metadata"]> = {},
): LeaseObject {
  const creationTimestamp = "2026-01-01T00:00:00Z";
  return {
    metadata: {
      name,
      namespace,
      uid: `uid-of-${name}`,
      resourceVersion: "11",
      creationTimestamp,
      annotations,
      ...metadata,
    },
  };
}

export function statefulSet(name: string, changes: Partial<StatefulSet> = {}): StatefulSet {
  return {
    kind: "StatefulSet",
    namespace,
    name,
    uid: `uid-of-${name}`,
    resourceVersion: "5",
    createdMs: nowMs - 3_600_000,
    podLabels: { "rollout-group": "group" },
    group: "group",
    start: 0,
    replicas: 3,
    deleting: false,
    readyReplicas: 0,
    updatedReplicas: 0,
    serviceName: "",
    scaling: undefined,
    question: undefined,
    countedReplicas: changes.replicas ?? 3,
    isOrdered: false,
    minReadySeconds: 0,
    graceMs: 30_000,
    strategy: "OnDelete",
    paused: false,
    maxUnavailable: 1,
    updateRevision: "new",
    currentRevision: "old",
    matchLabels: { name },
    malformed: [],
    ...changes,
  };
}

export function pod(name: string, changes: Partial<Pod> = {}): Pod {
  const ordinal = ordinalOf(name);
  return {
    namespace,
    name,
    uid: `uid-of-${name}`,
    resourceVersion: 7,
    ownerUid: `uid-of-${name.slice(0, name.lastIndexOf("-"))}`,
    ownerKind: "StatefulSet",
    ownerName: name.slice(0, name.lastIndexOf("-")),
    orphaned: false,
    createdMs: nowMs - 660_000,
    ordinal,
    labels: { "rollout-group": "group", name: name.slice(0, name.lastIndexOf("-")) },
    revision: "old",
    terminating: false,
    finished: false,
    pending: false,
    letGo: false,
    neverReady: false,
    readySinceMs: nowMs - 600_000,
    stuck: undefined,
    ...changes,
  };
}

/** Meaning of the letters of {@link zone}. A dot is an ordinal without a pod. */
const rounds: Readonly<Record<string, Partial<Pod>>> = {
  o: {},
  n: { revision: "new" },
  x: { readySinceMs: undefined },
  w: { revision: "new", readySinceMs: undefined },
  t: { terminating: true, readySinceMs: undefined },
  b: { readySinceMs: undefined, stuck: "CrashLoopBackOff" },
  B: { revision: "new", readySinceMs: undefined, stuck: "CrashLoopBackOff" },
  p: { readySinceMs: undefined, neverReady: true, pending: true, createdMs: nowMs - 3_000 },
  P: { revision: "new", readySinceMs: undefined, neverReady: true, pending: true, createdMs: nowMs - 3_000 },
  r: { readySinceMs: undefined, neverReady: true, createdMs: nowMs - 130_000 },
  R: { revision: "new", readySinceMs: undefined, neverReady: true, createdMs: nowMs - 130_000 },
  y: { readySinceMs: undefined, neverReady: true, createdMs: nowMs - 100_000 },
};

export interface ZoneOptions extends Partial<StatefulSet> {
  readonly reserved?: readonly Reservation[];
  readonly claims?: readonly Claim[];
  /** Further pods, which replace drawn ones of the same ordinal. */
  readonly extra?: readonly Pod[];
}

/**
 * A zone as a drawing, one letter for each ordinal: `o` outdated and ready, `n` new and ready, `x` outdated and not ready,
 * `w` new and not ready, `t` terminating, `b` outdated and in CrashLoopBackOff, `B` new and so, `p` outdated and Pending for
 * 3 s, `P` new and so, `r` outdated and running for 130 s without ever having been ready, `R` new and so, `y` as `r`, but for
 * 100 s, `.` missing.
 */
export function zone(
  name: string,
  drawing: string,
  { reserved = [], claims = [], extra = [], ...changes }: ZoneOptions = {},
): Zone {
  const set = statefulSet(name, { replicas: drawing.length, ...changes });
  const drawn = [...drawing].flatMap((letter, index) =>
    letter === "." ? [] : [pod(`${name}-${set.start + index}`, rounds[letter])],
  );
  return surveyZone(set, [...drawn, ...extra], reserved, nowMs, claims);
}

/** Why each ordinal of a zone is down, including ordinals without a pod or with a reservation. */
export function downOf(zone: Zone): Record<number, WhyDown> {
  const missing = [...missingOrdinals(zone)].map((ordinal): [number, WhyDown] => [ordinal, "missing"]);
  return Object.fromEntries([...zone.down, ...missing]);
}

/** The largest number of replicas that the API server takes. */
export const mostReplicas = 2 ** 31 - 1;

/** A reservation of the existing pod `NAME-ORDINAL`. By default it is our own and 1 s old. */
export function reservation(podName: string, changes: Partial<Reservation> = {}): Reservation {
  const end = podName.lastIndexOf("-");
  return {
    statefulSet: podName.slice(0, end),
    ordinal: Number(podName.slice(end + 1)),
    uid: `uid-of-${podName}`,
    by: self,
    stampMs: nowMs - 1_000,
    ...changes,
  };
}

export function refusal(podName: string): [string, Refusal] {
  const uid = `uid-of-${podName}`;
  return [uid, { uid, pod: podName, message: "a webhook said no", stampMs: nowMs - 1_000 }];
}

/** A stored budget. By default it selects every pod and StatefulSet that is drawn here. */
export function zoneBudget(name: string, spec: Readonly<Record<string, unknown>>): StoredBudget {
  const metadata = { name, namespace, uid: `uid-of-${name}`, resourceVersion: "9", generation: 1 };
  return parseStoredBudget({ metadata, spec: { selector: { matchLabels: { "rollout-group": "group" } }, ...spec } });
}

/** A claim of `ZONE:MEMBERS`, such as `a:3-5`. By default its terms are `asked`, and it is 1 s old. */
export function claimOf(place: string, kind: KindName, changes: Partial<ClaimContent> = {}): KnownClaim {
  const [zoneName = "", ranges = ""] = place.split(":");
  const members = ranges.split(",").map((range) => {
    const [first = Number.NaN, last = first] = range.split("-").map(Number);
    return { first, last };
  });
  const anchor = { resource: "leases", name: "why", annotation: "example.dev/claim" };
  const content = { id: `claim-of-${place}`, kind, zone: zoneName, members, by: "another-function" } as const;
  const stamped = { stampMs: nowMs - 1_000, phase: "begun", terms: "asked" } as const;
  return makeClaim({ ...content, ...stamped, ...(kind === "scale-down" ? {} : { anchor }), ...changes });
}

/** A claim of a kind that this version does not know. */
export function foreignClaim(zoneName: string): Claim {
  const line = JSON.stringify({ id: "later", kind: "later", zone: zoneName });
  return { isKnown: false, id: "later", kind: "later", zone: zoneName, by: "", line };
}

export function decideOn(
  zones: readonly Zone[],
  refusals: readonly [string, Refusal][] = [],
  around: Partial<Pick<Surroundings, "budgets" | "neighbours">> = {},
  strayClaims: readonly Claim[] = [],
): Verdict<RolloutTarget> {
  const workloads = zones.map((one) => one.workload);
  const surroundings = { workloads, neighbours: [], budgets: [], ...around };
  const key = { namespace, group: "group" };
  const contents = { departed: [], strayClaims, refusals: new Map(refusals) };
  return decide({ key, self, nowMs, zones, surroundings, ...contents });
}

/** The acts of a verdict as words: `delete a-0`, `repair a-1`, `record-revision a`; or the guard that it waits behind. */
export function outcome(verdict: Verdict<RolloutTarget>): string {
  if (verdict.kind === "wait") return verdict.guard;
  const described = verdict.targets.map(
    (target) => `${target.action} ${"pod" in target ? target.pod.name : target.statefulSet.name}`,
  );
  return described.join(", ") || "done";
}
