/** The progress of one watch: the revision that it has reached, and when it last delivered anything. */
import type { Fields } from "../base/fields.ts";
import type { Cluster, WatchEvent } from "../kubernetes/cluster.ts";

/** How long a decision waits for a watch to tell what the ledger has accounted for, before it asks the API server for a LIST. */
const catchUpMs = 250;

export interface WatchProgress {
  /** The revision up to which every change of the resource type is known. */
  reached: number;
  /** When it last told anything that is not older than what is known: a list, an event, a bookmark. */
  lastEventMs: number;
  readonly waiting: Set<() => void>;
  /** Aborted to begin the watch again with a list. */
  relist: AbortController;
}

export function newProgress(nowMs: number): WatchProgress {
  return { reached: 0, lastEventMs: nowMs, waiting: new Set(), relist: new AbortController() };
}

/**
 * Notes that a watch has reached a revision. An older revision than the known one proves nothing, because the API server that
 * sent it is behind, or was restored to an earlier state.
 */
export function noteRevision(progress: WatchProgress, revision: number, nowMs: number): void {
  if (revision >= progress.reached) noteRelist(progress, revision, nowMs);
}

/** Notes a list that took the place of all that was known: what is known is as new as the list, and no newer. */
export function noteRelist(progress: WatchProgress, revision: number, nowMs: number): void {
  progress.reached = revision;
  progress.lastEventMs = nowMs;
  for (const waiting of progress.waiting) waiting();
}

/** Waits up to 250 ms for a watch to report what is missing. Resolves to whether it has. */
export async function awaitProgress(
  cluster: Pick<Cluster, "sleep">,
  progress: WatchProgress,
  isThere: () => boolean,
): Promise<boolean> {
  if (isThere()) return true;
  const givingUp = new AbortController();
  const check = () => {
    if (isThere()) givingUp.abort("reached");
  };
  progress.waiting.add(check);
  await cluster.sleep(catchUpMs, givingUp.signal);
  progress.waiting.delete(check);
  return isThere();
}

/**
 * True when nothing changed that a decision reads: heartbeats and counters enqueue nothing. One parser has made both, so that
 * they have the same fields.
 */
export function sameButRevision<T extends object>(one: T | undefined, other: T): boolean {
  if (one === undefined) return false;
  for (const field in other) if (field !== "resourceVersion" && !isSame(one[field], other[field])) return false;
  return true;
}

/** Whether two JSON values are equal; the order of an object's fields does not count. */
export function isSame(one: unknown, other: unknown): boolean {
  if (Object.is(one, other)) return true;
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return false;
  const fields = Object.keys(one);
  return (
    fields.length === Object.keys(other).length &&
    fields.every((field) => isSame((one as Fields)[field], (other as Fields)[field]))
  );
}

/** A memory that a watch feeds: first with a whole list, then with each change. */
export interface Store<T> {
  replace(objects: readonly T[], resourceVersion: string): void;
  apply(event: WatchEvent<T>): void;
}
