import type { Wait } from "./verdict.ts";

/** A wait of all functions in a namespace, because rollout-operator acts there, or may. */
export interface StandBy extends Wait {
  /** Identifies the cause for an Event. Absent: it passes within seconds. */
  readonly identity?: string;
}

/** Knows where rollout-operator runs, so that it and Sluice never act on the same pods. */
export interface OtherOperator {
  /**
   * Why no function may act in a namespace now; undefined if they may. For an object that is of no namespace, "", it is the first
   * wait of those that are served. It costs a LIST at most each 30 s. Never rejects.
   */
  standBy(namespace: string): Promise<StandBy | undefined>;
  /** Identities of the Events about it, each with its group: one Event is enough for all functions of a process. */
  readonly sentEvents: Set<string>;
}
