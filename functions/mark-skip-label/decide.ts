/**
 * The next step for an owner whose pods may have to be let go: its finalizer, the labels of its pods, or a wait with its reason
 * (invariant M1). Pure.
 */

import { anyValue, type SkipLabel, type SkipStatus } from "../shared/annotations/skip-labels.ts";
import { formatTime } from "../shared/clock/durations.ts";

/** A pod whose chain of controllers leads to the owner, by uids. */
export interface ReleasedPod {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly isTerminating: boolean;
  /** It may have started a container, whose stop hook would run. */
  readonly mayRun: boolean;
  /** It has the label, and its stop hook would take the value for the marker. */
  readonly hasLabel: boolean;
  /** The key of a label that it has, and that its own annotation says we added; undefined where there is none. */
  readonly ourKey: string | undefined;
  /** Why it cannot get the label, though it has none that does: the key is another's; undefined where nothing says so. */
  readonly taken: string | undefined;
  /** When it got the label, by its annotation; undefined where that says nothing that can be true. */
  readonly labelledMs: number | undefined;
  /** The file that its stop hook reads has a text: it lets go, however lately the label came. */
  readonly hasSeen: boolean;
  /** Why the API server has refused its label lately; undefined where it may be tried. */
  readonly refusal: string | undefined;
}

export interface ReleasedOwner {
  /** Its kind and its name. */
  readonly shown: string;
  /** Undefined for one that is not being deleted. */
  readonly deletedMs: number | undefined;
  /** It is deleted so that what it owns stays. */
  readonly isOrphaning: boolean;
  /** Our finalizer is on it. */
  readonly hasOurFinalizer: boolean;
  /** Label that its pods get; undefined if it asks for none, or if the annotation that names it is malformed. */
  readonly label: SkipLabel | undefined;
  /** What is wrong with the annotation that names the label; undefined if its pods get a label, or if nothing is wrong. */
  readonly malformed: string | undefined;
  /** All of its pods are to stop, though it is not being deleted. */
  readonly isStopping: boolean;
  /** How long after its deletion it is let go whatever its pods have, in milliseconds. */
  readonly deadlineMs: number;
  readonly status: SkipStatus | undefined;
}

export interface OwnerSnapshot {
  /** The API server's clock, in milliseconds since the epoch. */
  readonly nowMs: number;
  /** Undefined where it is gone. */
  readonly owner: ReleasedOwner | undefined;
  readonly isNamespaceEnding: boolean;
  /** False: owners that are not being deleted have none of our finalizers. */
  readonly keepsFinalizers: boolean;
  /** How long after it got the label a pod's stop hook may not see it yet, in milliseconds. */
  readonly waitMs: number;
  /** Pods as a fresh LIST has them; empty if they need not be known ({@link needsMembers}). */
  readonly members: readonly ReleasedPod[];
}

export type OwnerStep =
  | { readonly kind: "add-finalizer" | "remove-finalizer" | "remove-status" }
  | { readonly kind: "label"; readonly members: readonly ReleasedPod[]; readonly label: SkipLabel }
  | { readonly kind: "unlabel"; readonly members: readonly ReleasedPod[] };

export interface OwnerVerdict {
  /** `done` where nothing is left to do. */
  readonly guard: string;
  readonly message: string;
  /** What is done now; the owner is observed again after it. */
  readonly step: OwnerStep | undefined;
  /** The guard and the message are written to the owner's status before the step; its pods are being let go. */
  readonly isReported: boolean;
  /** The owner is reconciled again after this time, in milliseconds; undefined: at its next event. */
  readonly requeueAfterMs: number | undefined;
}

/** How often an owner is reconciled while it is let go, in milliseconds, because pods may appear and labels may disappear. */
const leavingRequeueMs = 2_000;
/** The same for an owner that does not have our finalizer, in milliseconds. */
const unfinalizedRequeueMs = 5_000;
/**
 * So long after they were withdrawn labels may still come, in milliseconds: one is sent `actOnReadWithinMs` after what it rests
 * on was read, takes ten seconds at most, and clocks may differ by `clockSkewMs`, which makes 55 s.
 */
const withdrawnForMs = 60_000;
/** The most names in a message. */
const mostNames = 5;

/** True if the pods of an owner must be known: they are let go, or were and now stay. */
export function needsMembers(owner: ReleasedOwner, isNamespaceEnding: boolean): boolean {
  return isLetGo(owner, isNamespaceEnding) ? !owner.isOrphaning && isOfConcern(owner) : owner.status !== undefined;
}

/** True if all pods of an owner must go. */
export function isLetGo({ deletedMs, isStopping }: ReleasedOwner, isNamespaceEnding: boolean): boolean {
  return deletedMs !== undefined || isStopping || isNamespaceEnding;
}

function isOfConcern({ label, malformed }: ReleasedOwner): boolean {
  return label !== undefined || malformed !== undefined;
}

export function decide(snapshot: OwnerSnapshot): OwnerVerdict {
  const { owner, isNamespaceEnding } = snapshot;
  // An owner that is gone is let go, and nothing recreates it.
  if (owner === undefined) return done("it is gone");
  const { shown } = owner;
  if (!isLetGo(owner, isNamespaceEnding)) return decideLiving(snapshot, owner);
  if (owner.isOrphaning)
    return release(owner, `${shown} is deleted so that its pods stay: none of them gets the label`);
  if (!isOfConcern(owner)) return release(owner, `${shown} asks for no label on its pods`);
  return decideLettingGo(snapshot, owner);
}

/** Until their pods must stop, they have no label of ours. */
function decideLiving(snapshot: OwnerSnapshot, owner: ReleasedOwner): OwnerVerdict {
  const { shown, status, malformed } = owner;
  if (status !== undefined) return withdraw(snapshot, owner, status);
  if (malformed !== undefined) return { ...done(malformed), guard: "skip-label-malformed" };
  return changeFinalizer(snapshot.keepsFinalizers, owner) ?? done(`${shown} is not being deleted`);
}

/**
 * Labels of ours go. One that is under way may come after that: so the status, which makes every reconcile read the pods, goes
 * only when no process that has read that they are to stop can still label them.
 */
function withdraw(
  { nowMs, members, keepsFinalizers }: OwnerSnapshot,
  owner: ReleasedOwner,
  status: SkipStatus,
): OwnerVerdict {
  const message = `the pods of ${owner.shown} are not to stop any more: labels of ours go`;
  const withdrawn: ReleaseObstacle = { guard: "labels-withdrawn", message };
  const ours = members.filter(({ isTerminating, ourKey }) => !isTerminating && ourKey !== undefined);
  if (ours.length > 0) return { ...reporting(withdrawn), step: { kind: "unlabel", members: ours } };
  if (status.guard !== withdrawn.guard) return reporting(withdrawn);
  if (nowMs - status.sinceMs >= withdrawnForMs) return { ...reporting(withdrawn), step: { kind: "remove-status" } };
  return changeFinalizer(keepsFinalizers, owner) ?? reporting(withdrawn);
}

/** The step for our finalizer on an owner that is not being deleted; undefined if there is none. */
function changeFinalizer(
  keepsFinalizers: boolean,
  { shown, label, hasOurFinalizer }: ReleasedOwner,
): OwnerVerdict | undefined {
  const wantsFinalizer = keepsFinalizers && label !== undefined;
  if (wantsFinalizer === hasOurFinalizer) return undefined;
  const gets = `${shown} gets our finalizer: when it is deleted, its pods are labelled first`;
  if (wantsFinalizer) return doing("holding", gets, { kind: "add-finalizer" });
  const why = keepsFinalizers ? "it asks for no label" : "SKIP_LABEL_FINALIZER is remove";
  return doing("letting-alone", `${shown} loses our finalizer: ${why}`, { kind: "remove-finalizer" });
}

/** Labels, then an observation that finds none missing, then the markers, and only then the finalizer. */
function decideLettingGo(snapshot: OwnerSnapshot, owner: ReleasedOwner): OwnerVerdict {
  const { members } = snapshot;
  const { shown, label, deletedMs } = owner;
  const living = members.filter(({ isTerminating }) => !isTerminating);
  // A pod that another client has labelled is left alone, unless the time of its label must be known.
  const isTimed = deletedMs !== undefined;
  const missing = living.filter(({ hasLabel, labelledMs }) => !hasLabel || (isTimed && labelledMs === undefined));
  const isDue = ({ refusal, hasLabel, taken }: ReleasedPod) =>
    refusal === undefined && (hasLabel || taken === undefined);
  const due = missing.filter(isDue);
  if (label !== undefined && due.length > 0) {
    const message = `${namesOf(due)} of ${shown} ${due.length === 1 ? "gets" : "get"} the label ${labelText(label)}`;
    // An owner that is not being deleted may stay after all: its status then shows that labels of ours must be removed.
    const isReported = deletedMs === undefined && (owner.status?.guard ?? "labels-withdrawn") === "labels-withdrawn";
    return { ...doing("labelling", message, { kind: "label", members: due, label }), isReported };
  }
  const obstacle = obstacleTo(snapshot, owner, living, missing);
  if (deletedMs === undefined) return decideStopping(snapshot, owner, obstacle);
  if (obstacle === undefined) return release(owner, releasedMessage(shown, living));
  const isOver = snapshot.nowMs >= deadlineOf(snapshot, owner, deletedMs, living);
  return isOver ? releaseUnready(owner, obstacle) : reporting(obstacle);
}

/** All its pods must stop, although it is not being deleted. It may still be deleted, and new pods may have come. */
function decideStopping(
  { isNamespaceEnding, keepsFinalizers }: OwnerSnapshot,
  owner: ReleasedOwner,
  obstacle: ReleaseObstacle | undefined,
): OwnerVerdict {
  const { shown, malformed } = owner;
  const blocked = isNamespaceEnding || malformed !== undefined ? undefined : changeFinalizer(keepsFinalizers, owner);
  if (blocked !== undefined) return blocked;
  if (obstacle !== undefined && obstacle.guard !== "marker-unseen") return reporting(obstacle);
  if (!isNamespaceEnding)
    return reporting({ guard: "stopping", message: `the pods of ${shown} have the label, and may all stop` });
  const message = `the namespace of ${shown} is being deleted, and its pods have the label`;
  return reporting({ guard: "namespace-ending", message });
}

/** The deadline has passed: its status first says what was not done, and then it is let go. */
function releaseUnready(owner: ReleasedOwner, obstacle: ReleaseObstacle): OwnerVerdict {
  const { shown } = owner;
  const message = `${shown} is let go all the same, ${owner.deadlineMs / 1000} s after its deletion: ${obstacle.message}`;
  if (owner.status?.guard !== "deadline-passed") return reporting({ guard: "deadline-passed", message });
  return release(owner, message, "deadline-passed");
}

/**
 * When an owner is let go whatever its pods have. Sweeps alone find some kinds, as late as that deadline: so their pods have the
 * time to see their labels all the same, but never for ever, however often pods are replaced.
 */
function deadlineOf(
  { waitMs }: OwnerSnapshot,
  { deadlineMs }: ReleasedOwner,
  deletedMs: number,
  living: readonly ReleasedPod[],
): number {
  const firstMs = Math.min(...living.map(({ labelledMs = Number.POSITIVE_INFINITY }) => labelledMs));
  const seenMs = Number.isFinite(firstMs) ? firstMs + Math.min(waitMs, deadlineMs) : deletedMs;
  return Math.min(Math.max(deletedMs + deadlineMs, seenMs), deletedMs + 2 * deadlineMs + waitMs);
}

/** True for a pod whose stop hook may not let go yet: no marker was read in it, and it has its label for less than `waitMs`. */
export function mayNotSee({ mayRun, hasSeen, labelledMs }: ReleasedPod, nowMs: number, waitMs: number): boolean {
  return mayRun && !hasSeen && (labelledMs ?? nowMs) + waitMs > nowMs;
}

type ReleaseObstacle = Pick<OwnerVerdict, "guard" | "message">;

/** Why the owner is not let go yet; undefined if it is. */
function obstacleTo(
  { nowMs, waitMs }: OwnerSnapshot,
  { shown, malformed }: ReleasedOwner,
  living: readonly ReleasedPod[],
  missing: readonly ReleasedPod[],
): ReleaseObstacle | undefined {
  if (malformed !== undefined && living.length > 0) return { guard: "skip-label-malformed", message: malformed };
  const [refused] = missing;
  const [taken] = missing.filter(({ hasLabel, taken }) => !hasLabel && taken !== undefined);
  if (taken !== undefined) return { guard: "label-taken", message: `${taken.name} gets no label: ${taken.taken}` };
  if (refused !== undefined) {
    const others = missing.length > 1 ? `, and so for ${missing.length - 1} more` : "";
    return { guard: "label-refused", message: `${refused.name} has no label: ${refused.refusal}${others}` };
  }
  const unseen = living.filter((one) => mayNotSee(one, nowMs, waitMs));
  if (unseen.length === 0) return undefined;
  const lastMs = Math.max(...unseen.map(({ labelledMs = nowMs }) => labelledMs)) + waitMs;
  const message = `${namesOf(unseen)} got the label less than ${waitMs / 1000} s ago: the stop hook may not see it yet. ${shown} is let go at ${formatTime(lastMs)} at the latest`;
  return { guard: "marker-unseen", message };
}

function release(owner: ReleasedOwner, message: string, guard = "released"): OwnerVerdict {
  if (!owner.hasOurFinalizer)
    return { ...done(message), requeueAfterMs: owner.deletedMs === undefined ? undefined : unfinalizedRequeueMs };
  return doing(guard, message, { kind: "remove-finalizer" });
}

function done(message: string): OwnerVerdict {
  return { guard: "done", message, step: undefined, isReported: false, requeueAfterMs: undefined };
}

function doing(guard: string, message: string, step: OwnerStep): OwnerVerdict {
  return { guard, message, step, isReported: false, requeueAfterMs: undefined };
}

function reporting({ guard, message }: ReleaseObstacle): OwnerVerdict {
  return { guard, message, step: undefined, isReported: true, requeueAfterMs: leavingRequeueMs };
}

/** The label as `kubectl label` writes it. */
export function labelText({ key, value = anyValue }: SkipLabel): string {
  return `${key}=${value}`;
}

function releasedMessage(shown: string, { length }: readonly ReleasedPod[]): string {
  if (length === 0) return `no pod of ${shown} is left to be labelled: it is let go`;
  return `${length === 1 ? "the one pod" : `all ${length} pods`} of ${shown} ${length === 1 ? "has" : "have"} the label: it is let go`;
}

function namesOf(members: readonly ReleasedPod[]): string {
  const names = members.map(({ name }) => name).sort();
  if (names.length <= mostNames) return names.join(", ");
  return `${names.slice(0, mostNames).join(", ")} and ${names.length - mostNames} more`;
}
