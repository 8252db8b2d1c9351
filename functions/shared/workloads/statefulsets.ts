/** The fields of a StatefulSet that decisions read, parsed once at the border. */

import { findMisplaced } from "../annotations/misplaced.ts";
import { type HealthQuestion, parseQuestion } from "../annotations/parse-health.ts";
import { parseScaling, type Scaling } from "../annotations/parse-scaling.ts";
import { parseRestart, type RestartSettings } from "../annotations/restart.ts";
import { type Malformed, read, rolloutGroup, rolloutMaxUnavailable, rolloutPaused } from "../annotations/table.ts";
import type { StatefulSetObject } from "../kubernetes/cluster.ts";
import { parseOrdinal } from "./pods.ts";

/**
 * What names a group: all StatefulSets of a namespace with the same `rollout-group`; or, where they have none, what
 * `group-key.ts` makes of their budget, their StatefulSet or their owner (rule R1).
 */
export interface GroupKey {
  readonly namespace: string;
  readonly group: string;
}

/** NAMESPACE/GROUP: names a group among those of all namespaces. */
export function groupPathOf({ namespace, group }: GroupKey): string {
  return `${namespace}/${group}`;
}

/** A zone of a group: a StatefulSet, or pods of one zone that another owner creates. */
export type ZoneWorkload = StatefulSet | OwnedZone;

/**
 * The pods of a zone of an owner that is no StatefulSet (rule R1). No object of the API server stands for it: there is nothing to
 * read, to patch or to tell in Events.
 */
export interface OwnedZone {
  readonly kind: "OwnedZone";
  readonly namespace: string;
  readonly name: string;
  /** Made of the owner and the zone: no other workload has it. */
  readonly uid: string;
  readonly group: string;
  /** Its pods that are expected count as the ordinals [0, replicas). */
  readonly start: 0;
  readonly replicas: number;
  readonly minReadySeconds: 0;
  /** Its owner takes any pod away, whichever others are ready. */
  readonly isOrdered: false;
  /** No annotation says another number. */
  readonly maxUnavailable: 1;
  readonly updateRevision: undefined;
  readonly question: undefined;
  readonly malformed: readonly [];
}

export interface StatefulSet {
  readonly kind: "StatefulSet";
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** When it was made, in milliseconds since the epoch; NaN where it does not say. */
  readonly createdMs: number;
  /** The labels that its template gives to pods: a budget selects pods, so that these say whether it governs the StatefulSet. */
  readonly podLabels: Readonly<Record<string, string>>;
  /** Undefined where the StatefulSet has no `rollout-group`. */
  readonly group: string | undefined;
  /** The wanted ordinals are [start, start + replicas); none while the StatefulSet itself is being deleted. */
  readonly start: number;
  readonly replicas: number;
  /** It is being deleted, with its pods or, where they are orphaned, without them. */
  readonly deleting: boolean;
  /** How many pods its controller last counted; how many of them were ready, and how many of the wanted revision. */
  readonly countedReplicas: number;
  readonly readyReplicas: number;
  readonly updatedReplicas: number;
  /** The Service that gives its pods their names in DNS; empty without one. */
  readonly serviceName: string;
  /** What it says of its size; undefined where it says nothing. */
  readonly scaling: Scaling | undefined;
  /** What its pods are asked before one of them goes; undefined where no annotation says it. */
  readonly question: HealthQuestion | undefined;
  /** How the processes of its pods are restarted; absent where no annotation says it. */
  readonly restart?: RestartSettings;
  readonly minReadySeconds: number;
  /** How long a pod may take to end, in milliseconds. */
  readonly graceMs: number;
  /** Its controller takes no pod away while one that stays is not ready (`OrderedReady`). */
  readonly isOrdered: boolean;
  readonly strategy: string;
  readonly paused: boolean;
  /** Pods that may be down at once in this zone, at least 1. */
  readonly maxUnavailable: number;
  /** The revision that pods should run; undefined until the StatefulSet controller has caught up with the spec. */
  readonly updateRevision: string | undefined;
  readonly currentRevision: string | undefined;
  readonly matchLabels: Readonly<Record<string, string>>;
  readonly malformed: readonly Malformed[];
}

export function parseStatefulSet(object: StatefulSetObject): StatefulSet {
  const { metadata, spec, status } = object;
  const malformed: Malformed[] = [];
  const deleting = metadata.deletionTimestamp !== undefined;
  const replicas = deleting ? 0 : (spec?.replicas ?? 1);
  const allowance = read(rolloutMaxUnavailable, metadata, malformed) ?? { pods: 1 };
  const scaling = parseScaling(metadata);
  const fromSpec = fieldsOfSpec(spec);
  const question = parseQuestion(metadata, fromSpec.serviceName);
  const restart = parseRestart(metadata);
  return {
    kind: "StatefulSet",
    namespace: metadata.namespace ?? "",
    name: metadata.name,
    uid: metadata.uid,
    resourceVersion: metadata.resourceVersion,
    createdMs: Date.parse(metadata.creationTimestamp ?? ""),
    group: read(rolloutGroup, metadata),
    replicas,
    deleting,
    ...fromSpec,
    scaling,
    question,
    ...(restart && { restart }),
    paused: read(rolloutPaused, metadata, malformed) ?? false,
    // As rollout-operator has it: a share is rounded down and is never less than one pod.
    maxUnavailable:
      "pods" in allowance ? allowance.pods : Math.max(1, Math.floor((allowance.percent * replicas) / 100)),
    ...countsOf(status, metadata.generation ?? 0),
    malformed: [
      ...malformed,
      ...(scaling?.malformed ?? []),
      ...(question?.malformed ?? []),
      ...(restart?.malformed ?? []),
      ...findMisplaced(metadata),
    ],
  };
}

/** Rule R5: a status that is behind the spec says nothing about the wanted revision. */
function countsOf(status: StatefulSetObject["status"], generation: number) {
  const behind = (status?.observedGeneration ?? 0) < generation;
  return {
    countedReplicas: status?.replicas ?? 0,
    readyReplicas: status?.readyReplicas ?? 0,
    updatedReplicas: status?.updatedReplicas ?? 0,
    updateRevision: behind ? undefined : status?.updateRevision || undefined,
    currentRevision: status?.currentRevision || undefined,
  };
}

function fieldsOfSpec(spec: StatefulSetObject["spec"]) {
  return {
    podLabels: spec?.template?.metadata?.labels ?? {},
    start: Math.max(0, parseOrdinal(String(spec?.ordinals?.start ?? 0))),
    serviceName: spec?.serviceName ?? "",
    matchLabels: spec?.selector?.matchLabels ?? {},
    minReadySeconds: spec?.minReadySeconds ?? 0,
    graceMs: (spec?.template?.spec?.terminationGracePeriodSeconds ?? 30) * 1000,
    isOrdered: (spec?.podManagementPolicy ?? "OrderedReady") !== "Parallel",
    strategy: spec?.updateStrategy?.type ?? "RollingUpdate",
  };
}

/** True for a StatefulSet that is not in the group only because `rollout-group` stands on it as an annotation. */
export function isLeftOut({ group, malformed }: StatefulSet, key: GroupKey): boolean {
  return group === undefined && malformed.some((one) => one.key === rolloutGroup.key && one.misplaced === key.group);
}

/** False for a zone of another owner. */
export function isStatefulSet(workload: ZoneWorkload): workload is StatefulSet {
  return workload.kind === "StatefulSet";
}

/** Throws for a zone of another owner: the caller has a group of StatefulSets. */
export function asStatefulSet(workload: ZoneWorkload): StatefulSet {
  if (!isStatefulSet(workload)) throw new Error(`${workload.name} of ${workload.group} is no StatefulSet`);
  return workload;
}

export function isWanted(statefulSet: Pick<ZoneWorkload, "start" | "replicas">, ordinal: number): boolean {
  return ordinal >= statefulSet.start && ordinal < statefulSet.start + statefulSet.replicas;
}
