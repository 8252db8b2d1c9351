/** Whether a group is of any concern to a function for which only some groups ask. */

import { membersNeed } from "../cache/cache.ts";
import type { Context } from "../contract/context.ts";
import type { ReconcileResult } from "../contract/definition.ts";
import type { GroupMemory } from "../contract/memory.ts";
import type { Claim } from "../ledger/claim.ts";
import { knownLedger, waitForLedger } from "../transaction/ledger-copy.ts";
import type { GroupKey, StatefulSet } from "../workloads/statefulsets.ts";

export interface Concern {
  /** A StatefulSet asks for what the function does. */
  isAsked(statefulSet: StatefulSet): boolean;
  /** A claim is the function's to end, although no StatefulSet may ask for it any more. */
  isOwn(claim: Claim): boolean;
}

/** Where each look at a group is a LIST, one that was of no concern is not looked at again for this long; in milliseconds. */
const lookEveryMs = 30_000;
const idleSinceMs = new WeakMap<GroupMemory, number>();

/**
 * Undefined for a group that is of concern; otherwise what a pass over it comes to. It costs nothing where a process remembers
 * the group, and a read of the ledger in a sweep. Throws ClusterError.
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
  if (!context.views.isLasting && !sweep && idleMs > 0)
    return { requeueAfterMs: idleMs, absorbsEvents: true, acting: undefined };
  if (await concerns(context, key, sweep, concern)) {
    idleSinceMs.delete(memory);
    return undefined;
  }
  idleSinceMs.set(memory, nowMs);
  return { requeueAfterMs: undefined, acting: undefined };
}

async function concerns(
  context: Context,
  key: GroupKey,
  sweep: boolean,
  { isAsked, isOwn }: Concern,
): Promise<boolean> {
  const { views, cluster, protocol } = context;
  const view = await views.read(key, membersNeed);
  if (view.statefulSets.some(isAsked)) return true;
  if (view.statefulSets.length === 0) return false;
  try {
    const known = knownLedger(context, context.memoryOf(key));
    const ledger = known ?? (sweep ? await protocol.readLedger(cluster, key) : undefined);
    return ledger?.claims.some(isOwn) ?? false;
  } catch (error) {
    // The functions that decide by the ledger say so.
    if (waitForLedger(error) !== undefined) return false;
    throw error;
  }
}
