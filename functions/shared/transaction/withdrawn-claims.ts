/** Claims under which a process knows that nothing is on its way, because the only attempt was refused. */

import type { Context } from "../contract/context.ts";
import type { GroupMemory } from "../contract/memory.ts";
import type { KnownClaim } from "../ledger/claim.ts";
import type { GroupKey } from "../workloads/statefulsets.ts";

/** Their ids, as a function remembers them of a group. Losing one costs the time of rule R10a or R20. */
const memories = new WeakMap<GroupMemory, Set<string>>();

function idsOf(context: Context, key: GroupKey): Set<string> {
  const memory = context.memoryOf(key);
  const ids = memories.get(memory) ?? new Set<string>();
  memories.set(memory, ids);
  return ids;
}

/** Remembers that nothing is done under a claim. */
export function noteWithdrawn(context: Context, key: GroupKey, id: string): void {
  idsOf(context, key).add(id);
}

/**
 * True for a claim under which nothing is on its way, as this process knows. One that was renewed since is none: an attempt of
 * before may still arrive, and the change of a review that has joined it may be another's (rule R19).
 */
export function isWithdrawn(context: Context, key: GroupKey, { id, sinceMs }: KnownClaim): boolean {
  return sinceMs === undefined && idsOf(context, key).has(id);
}

/** The claim has been taken out. */
export function forgetWithdrawn(context: Context, key: GroupKey, { id }: KnownClaim): void {
  idsOf(context, key).delete(id);
}
