/** What becomes of the objects with a finalizer of ours once their namespace is being deleted. Pure. */

import { releaseFinalizer } from "../shared/annotations/skip-labels.ts";
import { volumeHold, volumeProtection } from "../shared/annotations/suspension.ts";
import type { OtherObject, Resource } from "../shared/kubernetes/cluster.ts";
import type { Pvc } from "../shared/volumes/pvc.ts";

/** An object with a finalizer of ours, as it was read. */
export interface KeptObject {
  readonly resource: Resource;
  readonly object: OtherObject;
  /** Undefined for an owner. */
  readonly pvc: Pvc | undefined;
  /** Such as `persistentvolumeclaims data-db-0`. */
  readonly shown: string;
  /** All of its finalizers, in their order. */
  readonly finalizers: readonly string[];
  /** The data of its volume has to stay: a user has put it on hold, or has it retained, or may have. */
  readonly isKept: boolean;
}

export interface NamespaceSnapshot {
  /** The API server's clock, in milliseconds since the epoch. */
  readonly nowMs: number;
  /** Since when the namespace is being deleted, in milliseconds since the epoch; undefined: it is not, or it is gone. */
  readonly endingSinceMs: number | undefined;
  readonly kept: readonly KeptObject[];
}

/** One object that loses our finalizers now. */
export interface FinalizerRelease {
  readonly kept: KeptObject;
  /** Finalizers that stay. */
  readonly finalizers: readonly string[];
}

interface NamespaceVerdict {
  readonly guard: string;
  readonly message: string;
  readonly releases: readonly FinalizerRelease[];
  /** When to reconcile again, in milliseconds; undefined: at the next event of the namespace. */
  readonly requeueAfterMs: number | undefined;
}

/** Finalizers that go at once. {@link releaseFinalizer} waits for the labels of pods. */
const atOnce: readonly string[] = [volumeHold, volumeProtection];
export const ourFinalizers: readonly string[] = [...atOnce, releaseFinalizer];

/**
 * So long after the deletion of its namespace an owner keeps its finalizer, in milliseconds: its pods are labelled meanwhile.
 * Kubernetes takes them five seconds after the deletion, and the pods of Sluice with them.
 */
const labelsWithinMs = 3_000;
/** How soon to reconcile again, in milliseconds, because what was decided before the deletion may still be written. */
const lateWritesRequeueMs = 1_000;

export function decide({ nowMs, endingSinceMs, kept }: NamespaceSnapshot): NamespaceVerdict {
  if (endingSinceMs === undefined) {
    return { guard: "namespace-stays", message: "it is not being deleted", releases: [], requeueAfterMs: undefined };
  }
  const isLabelled = nowMs >= endingSinceMs + labelsWithinMs;
  const going = isLabelled ? ourFinalizers : atOnce;
  const releases = kept
    .filter(({ finalizers }) => finalizers.some((one) => going.includes(one)))
    .map((one) => ({ kept: one, finalizers: one.finalizers.filter((name) => !going.includes(name)) }));
  const verdict = { releases, requeueAfterMs: lateWritesRequeueMs };
  if (releases.length > 0) {
    const names = releases.map((one) => one.kept.shown).sort();
    const shown = names.length > 5 ? `${names.slice(0, 5).join(", ")} and ${names.length - 5} more` : names.join(", ");
    return { ...verdict, guard: "releasing", message: `the namespace is being deleted: ${shown} lose our finalizers` };
  }
  if (kept.length > 0) {
    const message = `the namespace is being deleted: owners are let go ${labelsWithinMs / 1000} s after that, when their pods have labels`;
    return { ...verdict, guard: "labels-first", message };
  }
  const message = "the namespace is being deleted, and nothing in it has a finalizer of ours";
  return { ...verdict, guard: "released", message };
}
