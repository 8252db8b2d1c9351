/** Whether a group concerns a function for which only some groups have settings. */

import { membersNeed } from "../cache/cache.ts";
import type { Context } from "../contract/context.ts";
import type { ReconcileResult } from "../contract/definition.ts";
import type { Claim } from "../ledger/claim.ts";
import { hasClaim } from "../transaction/claims.ts";
import { knownLedger } from "../transaction/ledger-copy.ts";
import { type GroupKey, isStatefulSet, type StatefulSet } from "../workloads/statefulsets.ts";
import { restMs, Throttle } from "./throttle.ts";

export interface Concern {
  /** Whether an object of the group asks for what the function does; `gone`: no object of it is left. Throws ClusterError. */
  asks(context: Context, key: GroupKey): Promise<"yes" | "no" | "gone">;
  /** A claim is the function's to end, although no object may ask for it any more. */
  isOwn(claim: Claim): boolean;
}

/** A {@link Concern} that the StatefulSets of a group decide by their settings. */
export function askedBy(isAsked: (statefulSet: StatefulSet) => boolean): Concern["asks"] {
  return async ({ cache }, key) => {
    const { workloads } = await cache.read(key, membersNeed);
    if (workloads.some((one) => isStatefulSet(one) && isAsked(one))) return "yes";
    return workloads.length === 0 ? "gone" : "no";
  };
}

/** The groups that did not concern the function. */
const throttle = new Throttle();

/**
 * Undefined for a group of concern; otherwise the result of its reconcile. If memory does not tell, a group that was of no
 * concern rests, except in a sweep, or if this process knows of an own claim in its ledger. Throws ClusterError.
 */
export async function skipUnconcerned(
  context: Context,
  key: GroupKey,
  { sweep }: { readonly sweep: boolean },
  concern: Concern,
): Promise<ReconcileResult | undefined> {
  const memory = context.memoryOf(key);
  const nowMs = context.cluster.monotonicMs();
  const postponed = context.cache.isLasting || sweep ? undefined : throttle.postpone(memory, nowMs);
  if (postponed !== undefined && !knownLedger(context, memory)?.claims.some(concern.isOwn)) return postponed;
  const asks = await concern.asks(context, key);
  const isOfConcern = asks === "no" ? await hasClaim(context, key, sweep, concern.isOwn) : asks === "yes";
  throttle.restUntil(memory, isOfConcern ? nowMs : nowMs + restMs);
  return isOfConcern ? undefined : { requeueAfterMs: undefined, pendingActs: undefined };
}
