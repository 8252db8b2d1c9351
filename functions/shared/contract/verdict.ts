/**
 * The only two answers that a decision may give: take these targets now, or wait behind a named guard.
 *
 * A guard is a stable kebab-case name; its message is for an operator at night. Both name their zone, and when to reconcile again
 * without an event: `requeueAfterMs`, which is absent where the next event is enough.
 */

/** When to reconcile again, in milliseconds, for a change that no event may report. */
export const requeueAfterMs = 30_000;
/** How soon to try again after a malformed value, or a final refusal by the API server: a user may have corrected it by then. */
export const refusedRequeueMs = 30_000;
/** How soon to reconcile again if other clients keep writing the same object, in milliseconds. */
export const contendedRequeueMs = 1_000;

interface Circumstance {
  readonly zone?: string;
  readonly requeueAfterMs?: number | undefined;
}

export interface Take<Target> {
  readonly kind: "take";
  /** Empty when there is nothing left to do. */
  readonly targets: readonly Target[];
  readonly message: string;
  readonly zone: string;
  readonly requeueAfterMs: number | undefined;
}

export interface Wait {
  readonly kind: "wait";
  readonly guard: string;
  readonly message: string;
  readonly zone: string;
  readonly requeueAfterMs: number | undefined;
}

export type Verdict<Target> = Take<Target> | Wait;

export function take<Target>(targets: readonly Target[], because: string, where: Circumstance = {}): Take<Target> {
  return { kind: "take", targets, message: because, zone: where.zone ?? "", requeueAfterMs: where.requeueAfterMs };
}

export function wait(guard: string, message: string, where: Circumstance = {}): Wait {
  return { kind: "wait", guard, message, zone: where.zone ?? "", requeueAfterMs: where.requeueAfterMs };
}

/**
 * The guards of a group that Sluice may not roll as it is, until a user corrects what is wrong. Such a reconcile has failed,
 * because rollout-operator's users alert on that: it is an error in the log, and counts as failed in the metrics.
 */
export const failingGuards: ReadonlySet<string> = new Set([
  "strategy-not-on-delete",
  "several-budgets",
  "invalid-budget",
  "budget-spans-groups",
]);
