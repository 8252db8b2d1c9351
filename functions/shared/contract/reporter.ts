/** A function's reports to operators besides Kubernetes Events: metrics and log lines. */

import type { FenceEvidence } from "../annotations/fencing.ts";
import type { GroupKey } from "../workloads/statefulsets.ts";
import type { Key } from "./keys.ts";

/** How one reconcile of a key ended, for counting and logging. */
export interface ReconcileReport {
  readonly key: Key;
  readonly function: string;
  readonly guard: string;
  readonly zone: string;
  readonly message: string;
  /** Since when the guard has held, in milliseconds since the epoch. */
  readonly sinceMs: number;
  readonly shadow: boolean;
  /** In shadow mode: what would be done now, as {@link ActReport} would name it. Absent: nothing. */
  readonly wouldTake?: readonly Pick<ActReport, "action" | "object">[];
}

/** How an act on one object ended. */
export interface ActReport {
  readonly key: Key;
  readonly function: string;
  readonly action: string;
  readonly object: string;
  readonly zone: string;
  readonly result: "done" | "gone" | "changed" | "late" | "refused" | "failed";
  readonly reason: string;
}

/** The answer of a pod to a health question before it goes. */
export interface HealthReport {
  readonly key: GroupKey;
  readonly function: string;
  /** A row of the table of products. */
  readonly product: string;
  readonly state: "good" | "bad" | "unknown";
}

/** How a review ended that had waited its turn: `over` has waited as long as it may, and before `behind` there are too many. */
export const parkedOutcomes = ["allowed", "refused", "over", "gone", "stopped", "behind"] as const;

/** Reviews of one function that wait their turn in this process: one more, or one fewer. */
export interface ParkedReport {
  readonly function: string;
  /** How many there are now. */
  readonly parked: number;
  /** How one of them ended, and how long it has waited; absent: it has begun to wait. */
  readonly ended?: { readonly outcome: (typeof parkedOutcomes)[number]; readonly seconds: number };
}

/** A fenced machine has stopped. */
export interface EvidenceReport {
  readonly evidence: FenceEvidence;
  /** From arming to the evidence; undefined where the machine stopped before its fence was armed. */
  readonly seconds: number | undefined;
}

/** All fences of the cluster that have not ended. */
export interface FencesReport {
  /** How many are in each phase. */
  readonly phases: ReadonlyMap<string, number>;
  /** Those that a guard blocks. `sinceMs`: since when the first of them is in its phase, in milliseconds since the epoch. */
  readonly waiting: readonly { readonly guard: string; readonly fences: number; readonly sinceMs: number }[];
}

/** The agents of all nodes, and the slots of fences. */
export interface AgentsReport {
  /** How many nodes have an agent in each mode, or none that renews. */
  readonly modes: ReadonlyMap<string, number>;
  /** How many slots are taken; undefined where that cannot be read. */
  readonly slots: number | undefined;
}

export interface Reporter {
  verdict(report: ReconcileReport): void;
  act(report: ActReport): void;
  conflict(key: Key, by: string): void;
  /** Something went wrong that no verdict says: the message names the object and what is done about it. */
  problem(key: Key, by: string, message: string, error?: unknown): void;
  malformed(key: GroupKey, statefulSet: string, annotation: string, message: string): void;
  health(report: HealthReport): void;
  parked(report: ParkedReport): void;
  evidence(report: EvidenceReport): void;
  fences(report: FencesReport): void;
  agents(report: AgentsReport): void;
  /** How many nodes `watch-node-health` has listed, by its guards. */
  nodeHealth(nodes: ReadonlyMap<string, number>): void;
}

/** Reports nothing: for tests about something else. */
export const silentReporter: Reporter = {
  verdict() {},
  act() {},
  conflict() {},
  problem() {},
  malformed() {},
  health() {},
  parked() {},
  evidence() {},
  fences() {},
  agents() {},
  nodeHealth() {},
};
