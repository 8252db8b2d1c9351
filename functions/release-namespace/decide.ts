/** What becomes of the objects with a finalizer of ours once their namespace is being deleted. Pure. */

/** An object with a finalizer of ours. */
export interface FinalizedObject {
  /** Such as `persistentvolumeclaims data-db-0`. */
  readonly shown: string;
  /** All of its finalizers, in their order. */
  readonly finalizers: readonly string[];
  /** The data of its volume has to stay: a user has put it on hold, or has it retained, or may have. */
  readonly isKept: boolean;
}

export interface NamespaceSnapshot<H extends FinalizedObject> {
  /** The API server's clock, in milliseconds since the epoch. */
  readonly nowMs: number;
  /** Since when the namespace is being deleted, in milliseconds since the epoch; undefined: it is not, or it is gone. */
  readonly endingSinceMs: number | undefined;
  readonly held: readonly H[];
}

/** One object that loses our finalizers now. */
export interface FinalizerRelease<H extends FinalizedObject> {
  readonly held: H;
  /** What stays. */
  readonly finalizers: readonly string[];
  /** Its PersistentVolume gets the reclaim policy Retain first. */
  readonly retains: boolean;
}

export interface NamespaceVerdict<H extends FinalizedObject> {
  readonly guard: string;
  readonly sentence: string;
  readonly releases: readonly FinalizerRelease<H>[];
  /** When to look again, in milliseconds; undefined: when something is heard of the namespace. */
  readonly requeueAfterMs: number | undefined;
}

/** Finalizers that go at once, and the one that waits for the labels of pods, by what they are called. */
export interface Ours {
  readonly atOnce: readonly string[];
  readonly afterLabels: string;
}

/**
 * So long after the deletion of its namespace an owner keeps its finalizer, in milliseconds: its pods are labelled meanwhile.
 * Kubernetes takes them five seconds after the deletion, and the pods of Sluice with them.
 */
const labelsWithinMs = 3_000;
/** What was decided before the deletion may still be written: how soon to look again, in milliseconds. */
const lateWritesRequeueMs = 1_000;

export function decide<H extends FinalizedObject>(
  { nowMs, endingSinceMs, held }: NamespaceSnapshot<H>,
  ours: Ours,
): NamespaceVerdict<H> {
  if (endingSinceMs === undefined) {
    return { guard: "namespace-stays", sentence: "it is not being deleted", releases: [], requeueAfterMs: undefined };
  }
  const isLabelled = nowMs >= endingSinceMs + labelsWithinMs;
  const going = new Set([...ours.atOnce, ...(isLabelled ? [ours.afterLabels] : [])]);
  const releases = held
    .filter(({ finalizers }) => finalizers.some((one) => going.has(one)))
    .map(
      (one): FinalizerRelease<H> => ({
        held: one,
        finalizers: one.finalizers.filter((name) => !going.has(name)),
        retains: one.isKept,
      }),
    );
  const look = { releases, requeueAfterMs: lateWritesRequeueMs };
  if (releases.length > 0) {
    const names = releases.map((one) => one.held.shown).sort();
    const shown = names.length > 5 ? `${names.slice(0, 5).join(", ")} and ${names.length - 5} more` : names.join(", ");
    return { ...look, guard: "releasing", sentence: `the namespace is being deleted: ${shown} lose our finalizers` };
  }
  if (held.length > 0) {
    const sentence = `the namespace is being deleted: owners are let go ${labelsWithinMs / 1000} s after that, when their pods have labels`;
    return { ...look, guard: "labels-first", sentence };
  }
  return {
    ...look,
    guard: "released",
    sentence: "the namespace is being deleted, and nothing in it has a finalizer of ours",
  };
}
