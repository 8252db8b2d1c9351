/** What a drawn history of a FoundationDBCluster is told, and what it tells. */
import type { History, HistoryOptions } from "./owned-history.ts";

/** What one of our functions has deleted. */
export interface Deletion {
  /** Since the beginning of the history. */
  readonly atMs: number;
  readonly resource: string;
  readonly zone: string;
}

export interface FoundationHistory extends History {
  readonly deletions: readonly Deletion[];
}

export interface FoundationOptions extends HistoryOptions {
  /** The cluster's own settings of removals, each from a moment on, in milliseconds since the beginning. */
  readonly settings?: readonly { readonly atMs: number; readonly automationOptions: object }[];
  /** Its annotation about the wait between removals; absent: 1s. */
  readonly wait?: string;
  /** The cluster asks that its volumes are protected, and its operator is faster than our blocks now and then. */
  readonly protects?: boolean;
}
