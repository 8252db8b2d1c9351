/**
 * What this process has just said on volume claims. Watches, lists and API servers show the pods of a group as of different
 * moments, so two observations may find two reasons in turn. If each wrote its own, the writes would go on without an end.
 */

import type { Context } from "../contract/context.ts";
import type { GroupMemory } from "../contract/memory.ts";
import type { GroupKey } from "../workloads/statefulsets.ts";
import { keptWordMs } from "./teller.ts";

/** When a word was written, by the uid of the volume claim and by the monotonic clock. Losing it costs one write. */
const memories = new WeakMap<GroupMemory, Map<string, number>>();

function wordsOf(context: Context, key: GroupKey): Map<string, number> {
  const group = context.memoryOf(key);
  const words = memories.get(group) ?? new Map<string, number>();
  memories.set(group, words);
  return words;
}

/** Remembers that a volume claim has just been told what it waits for. */
export function noteSaid(context: Context, key: GroupKey, { uid }: { readonly uid: string }): void {
  wordsOf(context, key).set(uid, context.cluster.monotonicMs());
}

/** The uids of the volume claims that this process told something in the last `keptWordMs`. */
export function saidLately(context: Context, key: GroupKey): ReadonlySet<string> {
  const words = wordsOf(context, key);
  const sinceMs = context.cluster.monotonicMs() - keptWordMs;
  for (const [uid, ms] of words) if (ms <= sinceMs) words.delete(uid);
  return new Set(words.keys());
}
