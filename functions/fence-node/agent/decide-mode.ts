/** Whether isolation resets this node, or a fence alone: the mode of the agent. Pure. */

import { excusingPeers } from "../decide-quorum.ts";

/** Why an agent is `explicit-only`: for people. */
export type ExplicitOnlyReason =
  | "no-watchdog"
  | "watchdog-busy"
  | "watchdog-time-unknown"
  | "no-contact"
  | "no-peers"
  | "peers-silent"
  | "node-unknown"
  | "never-fenced"
  | "maintenance"
  | "short-boots";

/** What the agent's own Node says for its mode. */
export interface OwnNode {
  /** It is never fenced. */
  readonly isExcluded: boolean;
  readonly isInMaintenance: boolean;
}

export interface ModeView {
  /** Time of the watchdog in milliseconds, or why there is none. */
  readonly watchdog: number | ExplicitOnlyReason;
  /** The API server has shown this boot its Lease: before that nothing runs here that needs a fence. */
  readonly hasSucceeded: boolean;
  /** Each list by which a fence may count, as names with fingerprints. */
  readonly lists: readonly (readonly string[])[];
  /** The peers that have answered each of the last three drills. Empty until this process has drilled. */
  readonly drills: readonly ReadonlySet<string>[];
  /** Undefined until this process has read it. */
  readonly node: OwnNode | undefined;
  /** Boots of this machine end so soon that they are a loop. */
  readonly isLoop: boolean;
  /** The agent behaves as `armed` now. */
  readonly isArmed: boolean;
}

/**
 * Undefined: `armed`. A process that takes over from another one of this boot has drilled nothing yet, and keeps the mode.
 */
export function whyExplicitOnly(view: ModeView): ExplicitOnlyReason | undefined {
  const { watchdog, hasSucceeded, lists, drills, node, isArmed } = view;
  if (typeof watchdog !== "number") return watchdog;
  if (!hasSucceeded) return "no-contact";
  if (view.isLoop) return "short-boots";
  if (node?.isExcluded === true) return "never-fenced";
  if (node?.isInMaintenance === true) return "maintenance";
  if (lists.length === 0 || lists.some((list) => list.length === 0)) return "no-peers";
  if (drills.length === 0) return isArmed ? undefined : "peers-silent";
  if (node === undefined) return isArmed ? undefined : "node-unknown";
  const answers = (peer: string): boolean => drills.some((answered) => answered.has(peer));
  const isReached = (list: readonly string[]): boolean => list.filter(answers).length >= excusingPeers(list.length);
  return lists.every(isReached) ? undefined : "peers-silent";
}
