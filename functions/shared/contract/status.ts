/**
 * The status: one JSON document about all served groups. Fields that `kubectl sluice why -o json` has keep their names. Fields
 * are added, and neither renamed nor removed. Times are RFC 3339, by the API server's clock.
 */
import type { GuardExplanation } from "../base/guards.ts";

export interface Status {
  /** When all of it was read. */
  readonly at: string;
  /** Since when the API server has not answered; null while it answers. Then everything is as it was `at` that time. */
  readonly unansweredSince: string | null;
  readonly answeredBy: AnsweringProcess;
  readonly needsPerson: readonly PersonEntry[];
  /** Groups at work first, and idle ones last; then by namespace and name. */
  readonly groups: readonly GroupStatus[];
  /** At least these: Events report one reason for each zone and minute. Null if Events could not be listed. */
  readonly waiting: readonly WaitingEviction[] | null;
  /** What happened last, newest first; null if Events could not be listed. */
  readonly events: readonly EventStatus[] | null;
  /** Evictions that wait for their turn in the memory of the process that answers. Other processes may have more. */
  readonly parked: readonly ParkedStatus[];
  /** Volume claims that stay after their pods; null if no function for them is served, or if they could not be listed. */
  readonly volumes: readonly VolumeStatus[] | null;
  readonly leftOut: readonly { readonly part: string; readonly why: string; readonly since: string }[];
}

/** The process that answers: what another one parks in its memory it does not know. */
export interface AnsweringProcess {
  /** The name of its pod, or of its machine. */
  readonly replica: string;
  readonly version: string;
  readonly mode: "act" | "shadow";
  /** Null: all of them. */
  readonly namespaces: readonly string[] | null;
}

/**
 * `done`: every wanted pod is ready at the wanted revision. `idle`: also nothing is reserved or claimed, no restart of a process
 * waits or has failed, and no eviction waited or was refused in the last two minutes. `working`: neither.
 */
export type GroupState = "idle" | "done" | "working";

export interface GroupStatus {
  readonly namespace: string;
  readonly group: string;
  /** What controls its pods where no StatefulSet does, such as `FoundationDBCluster.apps.foundationdb.org/orders`; else null. */
  readonly owner: string | null;
  readonly state: GroupState;
  readonly wanted: number;
  /** Pods that are ready at the wanted revision. */
  readonly updated: number;
  readonly ready: number;
  /** When the last of its ready pods became so; null without one. */
  readonly lastReadyAt: string | null;
  readonly zones: readonly ZoneStatus[];
  /** The last verdict of each function. */
  readonly functions: readonly { readonly function: string; readonly recorded: RecordedStatus }[];
  /** The restarts of processes inside their pods that are under way, wait, or have failed: one for each zone and state. */
  readonly restarts: readonly RestartStatus[];
}

export interface RestartStatus extends GuardExplanation {
  readonly zone: string;
  /** The ordinals of its pods, such as `0-4,7`. */
  readonly pods: string;
  /**
   * `waiting`: a user asked for it, and it has not begun. `unserved`: it never begins, because no function begins any in such a
   * group. `parked`: the process stays stopped until its user wants it again.
   */
  readonly state: "at work" | "waiting" | "unserved" | "failed" | "parked";
  /** Null where no function has written why it waits. */
  readonly guard: string | null;
  readonly sentence: string;
  readonly since: string | null;
}

export interface RecordedStatus extends GuardExplanation {
  readonly guard: string;
  readonly zone: string;
  readonly sentence: string;
  readonly since: string;
  readonly at: string;
}

export interface ZoneStatus {
  readonly name: string;
  readonly wanted: number;
  readonly ready: number;
  readonly updated: number;
  readonly outdated: number;
  /** How many count as down now: those that are reserved or claimed are among them. Of another owner a claim names no ordinal. */
  readonly downCount: number;
  readonly maxUnavailable: number;
  readonly paused: boolean;
  /** `from` is null if no pod is outdated, `to` until the StatefulSet controller has seen the last change, and without one. */
  readonly revision: { readonly from: string | null; readonly to: string | null };
  /** All wanted ordinals, and those that are reserved beside them, in their order. */
  readonly cells: readonly CellRun[];
}

/** `reserved` and `claimed` are pods that are ready and may go at any moment. */
export type Cell = "ready" | "outdated" | "missing" | "terminating" | "not ready" | "reserved" | "claimed";

/** Neighbouring ordinals, both ends included, that are alike: a user may have asked for 2^31 of them. */
export interface CellRun {
  readonly first: number;
  readonly last: number;
  readonly cell: Cell;
}

export type PersonReason =
  | "guard"
  | "no-progress"
  | "pod-stuck"
  | "never-possible"
  | "ledger-unreadable"
  | "malformed-annotation"
  | "claim-overdue"
  | "restart-failed"
  | "restart-unserved"
  | "volume-removal-near"
  | "certificate-ends";

/** Something that needs a person. Null where nothing shows it. */
export interface PersonEntry {
  readonly reason: PersonReason;
  readonly namespace: string;
  readonly object: string;
  readonly since: string | null;
  readonly guard: string | null;
  readonly sentence: string;
  readonly todo: string | null;
}

export interface WaitingEviction {
  readonly namespace: string;
  readonly zone: string;
  readonly guard: string;
  readonly sentence: string;
  readonly at: string;
  /** True if it was refused; false if it waits for its turn. */
  readonly refused: boolean;
}

export interface EventStatus {
  readonly namespace: string;
  readonly object: string;
  readonly reason: string;
  readonly message: string;
  readonly at: string;
}

export interface ParkedStatus {
  readonly namespace: string;
  readonly group: string;
  readonly pod: string;
  /** Null for a pod that has no node or is gone, and while that is not known. */
  readonly node: string | null;
  /** Among the evictions of its group, from 1. */
  readonly place: number;
  readonly guard: string;
  readonly sentence: string;
  readonly since: string;
}

export interface VolumeStatus {
  readonly namespace: string;
  readonly name: string;
  /** The name of its StatefulSet; null for one whose StatefulSet is gone. */
  readonly zone: string | null;
  /** `Suspending`, `Suspended`, `Removing`, or `unknown`. */
  readonly state: string;
  readonly suspendedAt: string | null;
  /** From when on it may be removed; null if that is unknown, or if a user keeps or recovers it. */
  readonly removableAt: string | null;
}
