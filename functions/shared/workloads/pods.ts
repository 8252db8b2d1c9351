/** The fields of a Pod that decisions read, and no others, because a cache holds thousands of pods. */

import { parking } from "../annotations/parking.ts";
import { type PodRestart, parsePodRestart, restartReason } from "../annotations/restart.ts";
import { skipLabelledAt } from "../annotations/skip-labels.ts";
import { controllerRevisionHash, podName, read } from "../annotations/table.ts";
import type { ContainerStatus, PodObject } from "../kubernetes/cluster.ts";

export interface Pod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: number;
  /** The uid of the StatefulSet that controls it; pods belong by this and by nothing else. */
  readonly ownerUid: string | undefined;
  /** The kind of what controls it, a StatefulSet or another; undefined where nothing does. */
  readonly ownerKind: string | undefined;
  /** The name of what controls it. For a StatefulSet's pod it should be the pod's name without the ordinal. */
  readonly ownerName: string | undefined;
  /** Made for a StatefulSet that has released it (`kubectl delete statefulset --cascade=orphan`); nothing controls it now. */
  readonly orphaned: boolean;
  /** When it was made, in milliseconds since the epoch and in whole seconds; NaN where it does not say. */
  readonly createdMs: number;
  readonly ordinal: number;
  readonly labels: Readonly<Record<string, string>>;
  /** Its IP address; absent until its node has given it one. */
  readonly address?: string;
  /** The value of `controller-revision-hash`. */
  readonly revision: string | undefined;
  readonly terminating: boolean;
  /** Succeeded or Failed: its containers have ended for good. */
  readonly finished: boolean;
  /** Not running yet: the API server evicts it whatever a PodDisruptionBudget says. */
  readonly pending: boolean;
  /** It was labelled so that its stop hook lets go: all pods of its owner are to go. */
  readonly letGo: boolean;
  /** The restart of its process; absent while none is wanted or under way. */
  readonly restart?: PodRestart;
  /** For which files Sluice has asked for its restart; absent where it has not. */
  readonly restartReason?: string;
  /** The value of `sluice.dev/stop` as it is written; absent where there is none. Its process is to be parked if it is `true`. */
  readonly stop?: string;
  /** Its own status proves that it has never been Ready, so its removal loses nothing. False where that is in doubt. */
  readonly neverReady: boolean;
  /** Since when everything about the pod says ready, in milliseconds since the epoch; undefined while something does not. */
  readonly readySinceMs: number | undefined;
  /** The reason that keeps a broken revision from ever starting, if it is one of {@link stuckReasons}. */
  readonly stuck: string | undefined;
}

/** Reasons to wait that only another revision can end (as in rollout-operator). */
export const stuckReasons: ReadonlySet<string> = new Set([
  "CrashLoopBackOff",
  "ImagePullBackOff",
  "ErrImagePull",
  "InvalidImageName",
  "CreateContainerConfigError",
  "CreateContainerError",
]);

/** Anything may be written as a kind, and no real kind is longer. */
const longestKind = 63;

/** An ordinal is an int32, as Kubernetes has it: no more digits than a number of ours keeps exactly. */
export const largestOrdinal = 2 ** 31 - 1;

/** The ordinal of a text of digits, or -1 without one. */
export function parseOrdinal(text: string): number {
  return /^\d{1,10}$/.test(text) && Number(text) <= largestOrdinal ? Number(text) : -1;
}

/** STATEFULSET-ORDINAL: StatefulSets call their pods so, and always. */
const podNamePattern = /^(.*)-(\d+)$/s;

/** The name of the pod that a StatefulSet has at an ordinal. */
export function podNameOf({ statefulSet, ordinal }: { statefulSet: string; ordinal: number | string }): string {
  return `${statefulSet}-${ordinal}`;
}

/** The ordinal at the end of a StatefulSet's pod name, or -1 where there is none. */
export function ordinalOf(podName: string): number {
  return parseOrdinal(podNamePattern.exec(podName)?.[2] ?? "");
}

/** The name of the StatefulSet that a pod of that name was made for; undefined where no StatefulSet has pods of such names. */
export function statefulSetOfPod(podName: string): string | undefined {
  return podNamePattern.exec(podName)?.[1] || undefined;
}

/** The same, with the whole name if it has no ordinal. */
export function statefulSetNameOf(podName: string): string {
  return podNamePattern.exec(podName)?.[1] ?? podName;
}

export function parsePod(object: PodObject): Pod {
  const { metadata, status } = object;
  const owner = metadata.ownerReferences?.find((reference) => reference.controller === true);
  const ready = status?.conditions?.find((condition) => condition.type === "Ready");
  const readySince = Date.parse(ready?.lastTransitionTime ?? "");
  const isReady =
    ready?.status === "True" &&
    metadata.deletionTimestamp === undefined &&
    (status?.containerStatuses ?? []).every(
      (container) => container.ready === true && container.state?.running !== undefined,
    );
  return {
    namespace: metadata.namespace ?? "",
    name: metadata.name,
    uid: metadata.uid,
    resourceVersion: Number(metadata.resourceVersion),
    ownerUid: owner?.kind === "StatefulSet" ? owner.uid : undefined,
    ownerKind: owner?.kind.slice(0, longestKind),
    ownerName: owner?.name,
    orphaned: owner === undefined && read(podName, metadata) === metadata.name,
    createdMs: Date.parse(metadata.creationTimestamp ?? ""),
    ordinal: ordinalOf(metadata.name),
    labels: metadata.labels ?? {},
    ...(status?.podIP && { address: status.podIP }),
    revision: read(controllerRevisionHash, metadata),
    terminating: metadata.deletionTimestamp !== undefined,
    finished: status?.phase === "Succeeded" || status?.phase === "Failed",
    pending: status?.phase === "Pending",
    letGo: metadata.annotations?.[skipLabelledAt.key] !== undefined,
    ...restartFields(metadata),
    neverReady: provesNeverReady(object),
    // A Ready condition without a time cannot prove that it has lasted for minReadySeconds.
    readySinceMs: isReady ? (Number.isNaN(readySince) ? Number.POSITIVE_INFINITY : readySince) : undefined,
    stuck: firstStuckReason(status?.initContainerStatuses) ?? firstStuckReason(status?.containerStatuses),
  };
}

function restartFields(metadata: PodObject["metadata"]): Pick<Pod, "restart" | "restartReason" | "stop"> {
  const [restart, reason] = [parsePodRestart(metadata), read(restartReason, metadata)];
  const stop = metadata.annotations?.[parking.key]?.slice(0, longestKind);
  return { ...(restart && { restart }), ...(reason && { restartReason: reason }), ...(stop !== undefined && { stop }) };
}

/**
 * The first word of a kubelet says since when the pod is not Ready and then when it started, and both stay so until the pod
 * is Ready: cut to whole seconds, the first is never after the second. A pod that was Ready once has become unready later;
 * one that was so for a part of its first second alone cannot be told from it. A Pending pod may have been Ready, too: where
 * a node starts again, init containers run again. Before a kubelet's first word a pod is Pending and has no such condition.
 */
function provesNeverReady({ status }: PodObject): boolean {
  if (status?.phase !== "Pending" && status?.phase !== "Running") return false;
  const ready = status.conditions?.find(({ type }) => type === "Ready");
  if (ready === undefined) return status.phase === "Pending";
  if (ready.status === "True") return false;
  const earlierMs = Date.parse(status.startTime ?? "") - Date.parse(ready.lastTransitionTime ?? "");
  // A start that is much earlier comes from a node whose clock was set back.
  return earlierMs >= 0 && earlierMs <= 1_000;
}

function firstStuckReason(containers: readonly ContainerStatus[] = []): string | undefined {
  for (const { state } of containers) {
    const reason = state?.waiting?.reason;
    if (reason !== undefined && stuckReasons.has(reason)) return reason;
  }
  return undefined;
}

/** Ids in a ledger are cut to as many characters as container runtimes show, and differ nevertheless. */
const shownIdCharacters = 12;

/** The first 12 characters of the id of each container of a pod, without the name of the runtime; a pod that waits has none. */
export function containerIdsOf({ status }: Pick<PodObject, "status">): readonly string[] {
  return (status?.containerStatuses ?? []).flatMap(({ containerID = "" }) => {
    const id = containerID.replace(/^[^/]*:\/\//, "").slice(0, shownIdCharacters);
    return id === "" ? [] : [id];
  });
}

/**
 * Not terminating. A pod that has ended exists as well, unless it is being deleted, because its StatefulSet may adopt it again.
 */
export function isStanding({ terminating }: Pod): boolean {
  return !terminating;
}

/** Ready for at least `minReadySeconds` and not terminating (rule R6). */
export function isAvailable(pod: Pod, minReadySeconds: number, nowMs: number): boolean {
  return availableInMs(pod, minReadySeconds, nowMs) === 0;
}

/** How long until a pod in its present state counts as available: 0 when it does, undefined if time alone is not enough. */
export function availableInMs(pod: Pod, minReadySeconds: number, nowMs: number): number | undefined {
  if (pod.readySinceMs === undefined || pod.terminating) return undefined;
  if (minReadySeconds === 0) return 0;
  const remainingMs = pod.readySinceMs + minReadySeconds * 1000 - nowMs;
  return Number.isFinite(remainingMs) ? Math.max(0, remainingMs) : undefined;
}
