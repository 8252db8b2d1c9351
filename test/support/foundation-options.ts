/** Options and results of a drawn history of a FoundationDBCluster. */
import type { History, HistoryOptions } from "./owned-history.ts";

/** A deletion by one of our functions. */
export interface Deletion {
  /** Time since the beginning of the history, in milliseconds. */
  readonly atMs: number;
  readonly resource: string;
  readonly zone: string;
}

export interface FoundationHistory extends History {
  readonly deletions: readonly Deletion[];
}

export interface FoundationOptions extends HistoryOptions {
  /** Settings of removals of the cluster itself, each from a time on, in milliseconds since the beginning. */
  readonly settings?: readonly { readonly atMs: number; readonly automationOptions: object }[];
  /** The cluster's annotation about the wait between removals; absent: 1s. */
  readonly wait?: string;
  /** True: the cluster asks for protection of its volumes, and its operator is sometimes faster than our blocks. */
  readonly protects?: boolean;
}
