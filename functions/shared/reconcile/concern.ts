/** Whether a group is of any concern to a function for which only some groups ask. */

import { membersNeed } from "../cache/cache.ts";
import type { Context } from "../contract/context.ts";
import type { ReconcileResult } from "../contract/definition.ts";
import type { GroupMemory } from "../contract/memory.ts";
import type { Claim } from "../ledger/claim.ts";
import { holdsClaim } from "../transaction/claims.ts";
import { knownLedger } from "../transaction/ledger-copy.ts";
import { type GroupKey, isStatefulSet, type StatefulSet } from "../workloads/statefulsets.ts";

export interface Concern {
  /** Whether an object of the group asks for what the function does; `gone`: no object of it is left. Throws ClusterError. */
  asks(context: Context, key: GroupKey): Promise<"yes" | "no" | "gone">;
  /** A claim is the function's to end, although no object may ask for it any more. */
  isOwn(claim: Claim): boolean;
}

/** A {@link Concern} about which the StatefulSets of a group say whether they ask. */
export function askedBy(isAsked: (statefulSet: StatefulSet) => boolean): Concern["asks"] {
  return async ({ cache }, key) => {
    const { statefulSets } = await cache.read(key, membersNeed);
    if (statefulSets.some((one) => isStatefulSet(one) && isAsked(one))) return "yes";
    return statefulSets.length === 0 ? "gone" : "no";
  };
}

/** Where each look at a group is a LIST, one that was of no concern is not looked at again for this long; in milliseconds. */
const lookEveryMs = 30_000;
const idleSinceMs = new WeakMap<GroupMemory, number>();

/**
 * Undefined for a group that is of concern; otherwise what a pass over it comes to. A sweep always looks, and so does a process
 * that knows of an own claim in the ledger: to know that costs no read. Throws ClusterError.
 */
export async function skipUnconcerned(
  context: Context,
  key: GroupKey,
  { sweep }: { readonly sweep: boolean },
  concern: Concern,
): Promise<ReconcileResult | undefined> {
  const memory = context.memoryOf(key);
  const nowMs = context.cluster.monotonicMs();
  const idleMs = (idleSinceMs.get(memory) ?? Number.NEGATIVE_INFINITY) + lookEveryMs - nowMs;
  const isIdle = !context.cache.isLasting && !sweep && idleMs > 0;
  if (isIdle && !knownLedger(context, memory)?.claims.some(concern.isOwn))
    return { requeueAfterMs: idleMs, absorbsEvents: true, acting: undefined };
  if (await concerns(context, key, sweep, concern)) {
    idleSinceMs.delete(memory);
    return undefined;
  }
  idleSinceMs.set(memory, nowMs);
  return { requeueAfterMs: undefined, acting: undefined };
}

async function concerns(context: Context, key: GroupKey, sweep: boolean, concern: Concern): Promise<boolean> {
  const asks = await concern.asks(context, key);
  return asks === "no" ? holdsClaim(context, key, sweep, concern.isOwn) : asks === "yes";
}
