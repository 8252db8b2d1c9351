/** A member is the pod and the volume claims of a StatefulSet at one ordinal. It is suspended as a whole. Pure. */

import { drainWitnesses } from "../annotations/drain.ts";
import type { WorkloadOwner } from "../annotations/suspension.ts";
import { wallClockSkewMs } from "../clock/skew.ts";
import type { Metadata, PodObject } from "../kubernetes/cluster.ts";
import type { Health } from "../ledger/health-rule.ts";
import { podNameOf } from "../workloads/pods.ts";
import { type AnnotationValue, type Pvc, valueIn } from "./pvc.ts";
import { ordinalOfPvc, type SuspendableSet } from "./suspendable-set.ts";

/** The fields of a pod that concern its volumes. */
export interface VolumeUser {
  readonly name: string;
  readonly uid: string;
  readonly isTerminating: boolean;
  readonly deletedMs: number | undefined;
  /** In milliseconds since the epoch; NaN where the API server does not say it. */
  readonly createdMs: number;
  readonly isReady: boolean;
  /** The names of the volume claims that it mounts. */
  readonly pvcNames: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  /** What controls it; undefined where nothing does. */
  readonly controller: WorkloadOwner | undefined;
}

export interface Member {
  readonly set: SuspendableSet;
  /** Of a member of another owner than a StatefulSet: a number that stays, and that no ordinal of its zone is. */
  readonly ordinal: number;
  /** The name of its pod; where another owner has none, that of its first volume claim. */
  readonly name: string;
  /** By name; at least one. */
  readonly pvcs: readonly Pvc[];
  readonly pod: VolumeUser | undefined;
  /** Other pods that mount one of its volume claims. */
  readonly others: readonly VolumeUser[];
  /** The volume claims of its pod that are of another owner's group; absent for a member of a StatefulSet. */
  readonly foreign?: readonly string[];
  /** Answer of other pods to the question whether its data is no longer needed; absent if Sluice has not asked. */
  readonly drain?: DrainAnswer;
}

export interface DrainAnswer {
  /** The pod whose answer counts; undefined where no pod of the group can be asked. */
  readonly pod: string | undefined;
  readonly health: Health;
  /** All pods that were asked, where each of them says yes; absent where one pod is enough. */
  readonly agreeing?: readonly string[];
}

/** A volume claim that no present StatefulSet owns, although a user asks for something there or Sluice has begun it. */
export interface Stray {
  readonly pvc: Pvc;
  readonly users: readonly VolumeUser[];
}

export function parseVolumeUser({ metadata, spec, status }: PodObject): VolumeUser {
  const deletedMs = Date.parse(metadata.deletionTimestamp ?? "");
  const ready = status?.conditions?.find(({ type }) => type === "Ready");
  return {
    name: metadata.name,
    uid: metadata.uid,
    isTerminating: metadata.deletionTimestamp !== undefined,
    deletedMs: Number.isNaN(deletedMs) ? undefined : deletedMs,
    createdMs: Date.parse(metadata.creationTimestamp ?? ""),
    isReady: ready?.status === "True" && metadata.deletionTimestamp === undefined,
    pvcNames: (spec?.volumes ?? []).flatMap(({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName ?? []),
    labels: metadata.labels ?? {},
    controller: controllerOf(metadata),
  };
}

function controllerOf({ ownerReferences = [] }: Metadata): WorkloadOwner | undefined {
  const found = ownerReferences.find(({ controller }) => controller === true);
  if (found === undefined) return undefined;
  const { apiVersion = "", kind, name } = found;
  return { kind, apiGroup: apiVersion.includes("/") ? (apiVersion.split("/")[0] ?? "") : "", name };
}

/** The members of these StatefulSets that have volume claims, by StatefulSet and ordinal. */
export function findMembers(
  sets: readonly SuspendableSet[],
  pvcs: readonly Pvc[],
  pods: readonly VolumeUser[],
): readonly Member[] {
  const found = sets.flatMap((set) => {
    const byOrdinal = new Map<number, Pvc[]>();
    for (const pvc of pvcs) {
      const ordinal = ordinalOfPvc(set, pvc.name);
      if (ordinal !== undefined) byOrdinal.set(ordinal, [...(byOrdinal.get(ordinal) ?? []), pvc]);
    }
    return [...byOrdinal].map(([ordinal, own]): Member => {
      const name = podNameOf({ statefulSet: set.name, ordinal });
      const names = new Set(own.map((pvc) => pvc.name));
      return {
        set,
        ordinal,
        name,
        pvcs: own.sort((one, other) => (one.name < other.name ? -1 : 1)),
        pod: pods.find((pod) => pod.name === name),
        others: pods.filter((pod) => pod.name !== name && pod.pvcNames.some((claim) => names.has(claim))),
      };
    });
  });
  return found.sort(inOrder);
}

function inOrder(one: Member, other: Member): number {
  if (one.set.name !== other.set.name) return one.set.name < other.set.name ? -1 : 1;
  return one.ordinal - other.ordinal;
}

/** Sluice cannot tell how many pods another owner wants, so that the pods that stand are the wanted ones. */
export function isWantedMember({ set, ordinal, pod }: Member): boolean {
  if (set.owner !== undefined) return pod !== undefined && !pod.isTerminating;
  return ordinal >= set.start && ordinal < set.start + set.replicas;
}

/** Past the point of no return: all volume claims that are left are being removed. */
export function isRemoving({ pvcs }: Member): boolean {
  return pvcs.every(({ state }) => valueIn(state) === "Removing");
}

/** A pod has one of its volumes, or the API server has seen one that does. */
export function isUsed({ pod, others, pvcs }: Member): boolean {
  return (
    pod !== undefined ||
    others.length > 0 ||
    pvcs.some(({ unused }) => unused !== undefined && unused.sinceMs === undefined)
  );
}

/** Its pod was seen to be gone, by the state of one of its volume claims. */
export function isSuspendedInPart({ pvcs }: Member): boolean {
  return pvcs.some(({ state }) => valueIn(state) === "Suspended");
}

/** One of its volume claims has an annotation of Sluice. */
export function isBegun({ pvcs }: Member): boolean {
  return pvcs.some(({ state, hasOurFinalizer }) => state.kind !== "absent" || hasOurFinalizer);
}

/** True if one of its volume claims has an annotation, malformed or not, by which a user wants it back. */
export function isRecovering({ pvcs }: Member): boolean {
  return pvcs.some(({ recover }) => recover.kind !== "absent");
}

/** True if an annotation on each of its volume claims asks that it goes. */
export function isRequested({ pvcs }: Member): boolean {
  return pvcs.every(({ request }) => valueIn(request) === true);
}

/**
 * Why a member's data may be needed, if its StatefulSet has a question about it; undefined if it has none, or if the answers
 * are good.
 */
export function whyNeeded({
  set,
  name,
  drain,
}: Member): { readonly guard: string; readonly message: string } | undefined {
  const { kind } = set.policy.drain;
  if (kind === "absent") return undefined;
  if (kind === "malformed") return { guard: "drain-question-malformed", message: set.policy.drain.message };
  if (drain === undefined)
    return { guard: "drain-not-asked", message: `others are asked first whether the data of ${name} is needed` };
  const { pod, health } = drain;
  if (health.state === "good") return undefined;
  const whom = pod === undefined ? "" : `${pod}, `;
  if (health.state === "bad")
    return { guard: "drain-refused", message: `${whom}asked about its data, says that it is needed: ${health.detail}` };
  return { guard: "drain-unknown", message: `${whom}asked about its data, gives no answer: ${health.detail}` };
}

/** The pods that agree that the data of a member is not needed; undefined if none was asked, or if not all of them agree. */
export function describeAgreeing({ name, drain }: Member): string | undefined {
  if (drain?.health.state !== "good") return undefined;
  const { pod, agreeing } = drain;
  const what = `that the data of ${name} is not needed`;
  if (agreeing === undefined) return `${pod} alone says ${what}: ${drainWitnesses.key} is 1`;
  return `${agreeing.join(", ")} ${agreeing.length === 1 ? "says" : "say"} ${what}`;
}

/**
 * How long the volumes of a member are kept, in milliseconds; or why Sluice does not know it. The time of the StatefulSet is the
 * least, and a volume claim may only lengthen it. Otherwise a user with rights on volume claims alone could have them deleted.
 */
export function durationOf({ set, pvcs }: Member): AnnotationValue<number> {
  const least = set.policy.duration;
  // Another owner may have no setting: then each of its volume claims sets it.
  if (least.kind === "malformed" || (least.kind === "absent" && set.owner === undefined)) return least;
  let longestMs = valueIn(least) ?? 0;
  for (const { duration } of pvcs) {
    const effective = duration.kind === "absent" ? least : duration;
    if (effective.kind !== "value") return effective;
    longestMs = Math.max(longestMs, effective.value);
  }
  return { kind: "value", value: longestMs };
}

/**
 * When something of the group was last taken, a pod or a volume, in milliseconds since the epoch. The future counts as now. A
 * time on a volume claim that is far ahead says nothing: a clock that was wrong wrote it, and the group would wait until then.
 */
export function lastDisruption(members: readonly Member[], nowMs: number): number | undefined {
  const isKnown = (ms: number | undefined) => ms !== undefined && ms <= nowMs + wallClockSkewMs;
  const times = members.flatMap(({ pvcs, pod }) => [
    ...pvcs.flatMap(({ suspendedMs, deletedMs }) => [suspendedMs, deletedMs].filter(isKnown)),
    // A pod's deletion time is when its grace period ends.
    pod?.deletedMs,
  ]);
  const known = times.filter((ms) => ms !== undefined).map((ms) => Math.min(ms, nowMs));
  return known.length === 0 ? undefined : Math.max(...known);
}
