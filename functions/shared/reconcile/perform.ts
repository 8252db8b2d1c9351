/**
 * One reconcile of a group: read the ledger or use the copy of our own last write, take a view at least that new, settle, decide,
 * and conclude. Every function that takes pods down goes through here.
 */

import type { Context } from "../contract/context.ts";
import type { ReconcileResult } from "../contract/definition.ts";
import { contendedRequeueMs, type Verdict, type Wait } from "../contract/verdict.ts";
import { type Ledger, maxConflicts } from "../ledger/reservation.ts";
import { refuseNewLedger } from "../transaction/ledger-age.ts";
import { Conflict, forgetForSweep, forgetLedger, takeLedger, waitForLedger } from "../transaction/ledger-copy.ts";
import { type GroupObservation, type Notes, observeGroup } from "../transaction/observe-group.ts";
import type { GroupKey } from "../workloads/statefulsets.ts";
import type { Act } from "./act.ts";
import { conclude } from "./conclude.ts";
import { type EventSource, reportVerdict } from "./record.ts";

/** A function's own part of a reconcile: its observation, its decision, and its acts. */
export interface GroupReconciler<Snapshot, Target> extends EventSource {
  /** True where what was observed is to be listed consistently before anything is decided by it. Absent: it never is. */
  needsList?(observed: GroupObservation, context: Context): boolean;
  /** May read more than what was observed. Throws ClusterError. */
  observe(observed: GroupObservation, context: Context): Snapshot | Promise<Snapshot>;
  decide(snapshot: Snapshot): Verdict<Target>;
  /** Asks pods what a verdict rests on (rule R22): the snapshot with their answers; undefined where no pod is to be asked. */
  ask?(context: Context, observed: GroupObservation, snapshot: Snapshot): Promise<Snapshot> | undefined;
  /** What is done to a target of a verdict on this observation. */
  actOn(target: Target, observed: GroupObservation): Act;
  /** What each write of the ledger says of times besides. */
  notesOn?(snapshot: Snapshot): Notes | undefined;
}

/**
 * One reconcile of a group by a function. Throws ClusterError for a failure of the API server: nothing is lost, and the same
 * reconcile can be run again.
 */
export async function reconcileGroup<Snapshot, Target>(
  context: Context,
  reconciler: GroupReconciler<Snapshot, Target>,
  key: GroupKey,
  trigger: { readonly sweep: boolean },
): Promise<ReconcileResult> {
  if (trigger.sweep) forgetForSweep(context.memoryOf(key));
  return reconcileByKnown(context, reconciler, key, trigger);
}

/** The same for a reconcile that has already begun: its read of the ledger serves, in a sweep as well. */
export async function reconcileByKnown<Snapshot, Target>(
  context: Context,
  reconciler: GroupReconciler<Snapshot, Target>,
  key: GroupKey,
  trigger: { readonly sweep: boolean },
): Promise<ReconcileResult> {
  const memory = context.memoryOf(key);
  const waiting = memory.waiting;
  for (let conflicts = 0; conflicts < maxConflicts; conflicts++) {
    let taken: Awaited<ReturnType<typeof takeLedger>>;
    try {
      taken = await takeLedger(context, key);
      if (taken === undefined) return { requeueAfterMs: undefined, pendingActs: undefined, isGone: true };
      return await attempt(context, reconciler, taken.ledger, trigger.sweep);
    } catch (error) {
      forgetLedger(memory, taken?.copy);
      const unusable = waitForLedger(error);
      if (unusable !== undefined) {
        // The ledger has no record of this wait, and its guard may have held before: this attempt's decision is void.
        memory.waiting = waiting;
        reportVerdict(context, reconciler.name, key, unusable);
        return { requeueAfterMs: unusable.requeueAfterMs, pendingActs: undefined };
      }
      if (!(error instanceof Conflict)) throw error;
      context.reporter.conflict(key, reconciler.name);
    }
  }
  return { requeueAfterMs: contendedRequeueMs, pendingActs: undefined };
}

async function attempt<Snapshot, Target>(
  context: Context,
  reconciler: GroupReconciler<Snapshot, Target>,
  ledger: Ledger,
  sweep: boolean,
): Promise<ReconcileResult> {
  const current = await observeToPermit(context, reconciler, ledger, sweep);
  const { observed, snapshot, tooNew } = current;
  const asking = mayPermit(current) ? reconciler.ask?.(context, observed, snapshot) : undefined;
  const verdict = asking === undefined ? current.verdict : verdictBy(reconciler, observed, await asking);
  const notes = tooNew === undefined ? reconciler.notesOn?.(snapshot) : undefined;
  const outcome = await conclude(context, reconciler, { ...observed, notes }, verdict, tooNew);
  return { ...outcome, isGone: observed.view.workloads.length === 0 };
}

/** A reconciler's decision about one observation. `tooNew`: why nothing may be permitted yet (rule R4). */
interface GroupAttempt<Snapshot> {
  readonly observed: GroupObservation;
  readonly snapshot: Snapshot;
  readonly verdict: Verdict<Act>;
  readonly tooNew: Wait | undefined;
}

/**
 * Rule R5: what a watch remembers of StatefulSets will do to wait; to permit, they are read, and those who joined are listed.
 * Until a ledger's first decision every observation is a consistent LIST (rule R4): one that may permit saves a second one.
 */
async function observeToPermit<Snapshot, Target>(
  context: Context,
  reconciler: GroupReconciler<Snapshot, Target>,
  ledger: Ledger,
  consistent: boolean,
): Promise<GroupAttempt<Snapshot>> {
  const memory = context.memoryOf(ledger.key);
  const decideOn = async (permitSinceMs: number | undefined): Promise<GroupAttempt<Snapshot>> => {
    const seen = await observeGroup(context, ledger, { permitSinceMs, consistent });
    const needsList = !consistent && reconciler.needsList?.(seen, context) === true;
    // The write rests on this observation as well, so that nothing of the older one is kept.
    const observed = needsList ? await observeGroup(context, ledger, { permitSinceMs, consistent: true }) : seen;
    const snapshot = await reconciler.observe(observed, context);
    const verdict = verdictBy(reconciler, observed, snapshot);
    return { observed, snapshot, verdict, tooNew: refuseNewLedger(context, observed) };
  };
  const first = await decideOn(ledger.settledThrough === undefined ? memory.ledgerReadMs : undefined);
  const { view, joining } = first.observed;
  const isRead = view.statefulSetsReadMs !== undefined && !joining.needsList;
  return mayPermit(first) && !isRead ? decideOn(memory.ledgerReadMs) : first;
}

function mayPermit({ verdict, tooNew }: Pick<GroupAttempt<unknown>, "verdict" | "tooNew">): boolean {
  return verdict.kind === "take" && verdict.targets.length > 0 && tooNew === undefined;
}

/** The verdict of a reconciler, whose targets are its acts. */
function verdictBy<Snapshot, Target>(
  reconciler: GroupReconciler<Snapshot, Target>,
  observed: GroupObservation,
  snapshot: Snapshot,
): Verdict<Act> {
  const verdict = reconciler.decide(snapshot);
  if (verdict.kind === "wait") return verdict;
  return { ...verdict, targets: verdict.targets.map((target) => reconciler.actOn(target, observed)) };
}
