/**
 * One reconcile by a function that makes claims. It first ends its own claims that are over, because nothing is decided while
 * one stands without an act. Then it decides, writes and acts as every function does ({@link reconcileByKnown}).
 */

import type { Context } from "../contract/context.ts";
import type { ReconcileResult } from "../contract/definition.ts";
import { claimsBy, type KindName, type KnownClaim, madeBy } from "../ledger/claim.ts";
import type { LedgerTimes } from "../ledger/reservation.ts";
import { openTransaction, writeClaims } from "../transaction/claims.ts";
import { Conflict, forgetForSweep, forgetLedger, getLedger, waitForLedger } from "../transaction/ledger-copy.ts";
import type { GroupObservation } from "../transaction/observe-group.ts";
import type { GroupKey } from "../workloads/statefulsets.ts";
import { type Concern, skipUnconcerned } from "./concern.ts";
import { type GroupReconciler, reconcileByKnown } from "./perform.ts";

/** The decision about a claim of the function. */
export type OwnClaimEnd =
  /** It stays. `requeueAfterMs`: when it may be over at the latest, where no event reports that. */
  | { readonly kind: "stands"; readonly requeueAfterMs?: number }
  /** It is taken out, by a write that says this of times. */
  | { readonly kind: "over"; readonly times?: LedgerTimes }
  /** The function has written the ledger itself. */
  | { readonly kind: "undone" };

/** The result of a function's preparation, and when to go on with it. */
export interface Preparation {
  readonly requeueAfterMs: number | undefined;
}

/** A function's own part of such a reconcile. */
export interface ClaimingFunction<Snapshot, Target, Prepared extends Preparation = never>
  extends Omit<GroupReconciler<Snapshot, Target>, "observe"> {
  readonly claimKind: KindName;
  readonly asks: Concern["asks"];
  /** What becomes of a claim, by reads that are made after its ledger was read (rule R21). Throws as `openTransaction` does. */
  endOf(context: Context, observed: GroupObservation, claim: KnownClaim): Promise<OwnClaimEnd>;
  /** Done before the decision, also in shadow mode, by a ledger that is read anew; absent: nothing. Throws as `endOf` does. */
  prepare?(context: Context, observed: GroupObservation, trigger: { readonly sweep: boolean }): Promise<Prepared>;
  /** May read more than what was observed. `prepared`: undefined where that has failed. Throws ClusterError. */
  observe(observed: GroupObservation, context: Context, prepared: Prepared | undefined): Snapshot | Promise<Snapshot>;
  /** Done with the last snapshot that was decided on, whatever came of it. */
  after?(context: Context, key: GroupKey, last: Snapshot): Promise<void>;
}

/** The part of it that comes before the decision. */
type Beginning<Prepared extends Preparation> = Pick<
  ClaimingFunction<never, never, Prepared>,
  "name" | "claimKind" | "endOf" | "prepare"
> &
  Pick<Concern, "isOwn">;

interface BeginResult<Prepared> {
  readonly prepared?: Prepared | undefined;
  readonly requeueAfterMs?: number | undefined;
}

/** How soon to go on where the preparation has failed, in milliseconds. */
const unpreparedRequeueMs = 1_000;

/** Throws ClusterError if a later try can help. */
export async function reconcileClaims<Snapshot, Target, Prepared extends Preparation>(
  context: Context,
  claiming: ClaimingFunction<Snapshot, Target, Prepared>,
  key: GroupKey,
  trigger: { readonly sweep: boolean },
): Promise<ReconcileResult> {
  const concern = { asks: claiming.asks, isOwn: madeBy(claiming.name) };
  const idle = await skipUnconcerned(context, key, trigger, concern);
  if (idle !== undefined) return idle;
  if (trigger.sweep) forgetForSweep(context.memoryOf(key));
  const { prepared, requeueAfterMs } = await begin(context, { ...claiming, ...concern }, key, trigger);
  let last: Snapshot | undefined;
  const reconciler: GroupReconciler<Snapshot, Target> = {
    ...claiming,
    async observe(observed) {
      last = await claiming.observe(observed, context, prepared);
      return last;
    },
  };
  const outcome = await reconcileByKnown(context, reconciler, key, trigger);
  if (last !== undefined) await claiming.after?.(context, key, last);
  return requeueAfterMs === undefined
    ? outcome
    : { ...outcome, requeueAfterMs: Math.min(requeueAfterMs, outcome.requeueAfterMs ?? requeueAfterMs) };
}

/**
 * Ends claims and prepares. The group is observed only for that, because the reconcile observes it in any case, and reports the
 * reason if a ledger cannot be used.
 */
async function begin<Prepared extends Preparation>(
  context: Context,
  claiming: Beginning<Prepared>,
  key: GroupKey,
  trigger: { readonly sweep: boolean },
): Promise<BeginResult<Prepared>> {
  const { name, prepare, isOwn } = claiming;
  const memory = context.memoryOf(key);
  const unprepared = { requeueAfterMs: prepare && unpreparedRequeueMs };
  try {
    // Another function may have claimed the same pods.
    if (prepare !== undefined) forgetLedger(memory);
    else if (context.mode === "shadow" || !(await getLedger(context, key))?.claims.some(isOwn)) return {};
    const transaction = await openTransaction(context, key);
    if (transaction === undefined) return unprepared;
    const isEnding = context.mode === "act" && transaction.tooNew === undefined;
    const ended = isEnding
      ? await endClaims(context, claiming, transaction.observed)
      : { observed: transaction.observed };
    if (prepare === undefined) return { requeueAfterMs: ended.requeueAfterMs };
    const observed = ended.observed ?? (await openTransaction(context, key))?.observed;
    if (observed === undefined) return unprepared;
    const prepared = await prepare(context, observed, trigger);
    return { prepared, requeueAfterMs: prepared.requeueAfterMs };
  } catch (error) {
    forgetLedger(memory);
    if (error instanceof Conflict) context.reporter.conflict(key, name);
    else if (waitForLedger(error) === undefined) throw error;
    return unprepared;
  }
}

/** Removes the function's own claims that are over. `observed`: as it is now; undefined if the ledger was written since. */
async function endClaims(
  context: Context,
  { name, claimKind, endOf }: Beginning<Preparation>,
  first: GroupObservation,
): Promise<{ readonly observed: GroupObservation | undefined; readonly requeueAfterMs?: number }> {
  const { key } = first;
  let observed: GroupObservation | undefined = first;
  let soonestMs = Number.POSITIVE_INFINITY;
  for (const { id } of claimsBy(first.ledger.claims, claimKind, name)) {
    observed ??= (await openTransaction(context, key))?.observed;
    const claim = observed && claimsBy(observed.ledger.claims, claimKind, name).find((one) => one.id === id);
    if (observed === undefined || claim === undefined) continue;
    const end = await endOf(context, observed, claim);
    if (end.kind === "stands") {
      soonestMs = Math.min(soonestMs, end.requeueAfterMs ?? soonestMs);
      continue;
    }
    if (end.kind === "over") await writeClaims(context, observed, { out: [claim], into: [], ...end.times });
    context.memoryOf(key).withdrawnClaims.delete(id);
    observed = undefined;
  }
  return { observed, ...(Number.isFinite(soonestMs) ? { requeueAfterMs: soonestMs } : {}) };
}
