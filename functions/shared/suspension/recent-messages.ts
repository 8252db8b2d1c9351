/**
 * The recent messages of this process on volume claims. Watches, lists and API servers show the pods of a group as of different
 * moments, so two observations may find two reasons in turn. If each wrote its own, the writes would go on without an end.
 */

import type { Context } from "../contract/context.ts";
import type { GroupMemory } from "../contract/memory.ts";
import type { GroupKey } from "../workloads/statefulsets.ts";
import { keptMessageMs } from "./message-reporter.ts";

/** When a message was written, by the uid of the volume claim and by the monotonic clock. Losing it costs one write. */
const memories = new WeakMap<GroupMemory, Map<string, number>>();

function messageTimesOf(context: Context, key: GroupKey): Map<string, number> {
  const group = context.memoryOf(key);
  const times = memories.get(group) ?? new Map<string, number>();
  memories.set(group, times);
  return times;
}

/** Remembers that a volume claim has just got a message about its wait. */
export function noteMessage(context: Context, key: GroupKey, { uid }: { readonly uid: string }): void {
  messageTimesOf(context, key).set(uid, context.cluster.monotonicMs());
}

/** The uids of the volume claims that got a message from this process in the last `keptMessageMs`. */
export function recentMessages(context: Context, key: GroupKey): ReadonlySet<string> {
  const times = messageTimesOf(context, key);
  const sinceMs = context.cluster.monotonicMs() - keptMessageMs;
  for (const [uid, ms] of times) if (ms <= sinceMs) times.delete(uid);
  return new Set(times.keys());
}
