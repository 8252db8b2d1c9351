/** What an agent answers a peer that asks for its permit, and whether answers excuse the agent that asked. Pure. */

import type { ArmedFence } from "../../shared/annotations/fencing.ts";
import { excusingPeers } from "../decide-quorum.ts";

/**
 * - `alive`: no fence is armed for the boot of the agent that asks.
 * - `stop`: one is.
 * - `no-api`: the peer has not reached the API server for longer than X either.
 * - `unknown`: its failure is shorter, so that it shows nothing.
 */
export type PeerAnswer = "alive" | "stop" | "no-api" | "unknown";

export interface AskedView {
  /** Times are of the boottime clock of the peer that is asked, in milliseconds. */
  readonly nowMs: number;
  /** When its agent started: a new process knows of no failure before that. */
  readonly startedMs: number;
  readonly lastSuccessMs: number | undefined;
  /** For how long one success is contact (X). */
  readonly freshMs: number;
  /** The Lease of the agent that asks, read after its question came; undefined if the API server did not show it. */
  readonly lease: { readonly fence: ArmedFence | undefined } | undefined;
}

export function decideAnswer({ nowMs, startedMs, lastSuccessMs, freshMs, lease }: AskedView): PeerAnswer {
  if (lease !== undefined) return lease.fence === undefined ? "alive" : "stop";
  return nowMs - Math.max(startedMs, lastSuccessMs ?? startedMs) > freshMs ? "no-api" : "unknown";
}

/**
 * True where most peers of each list answered `no-api` in one round: then the API server has failed, and not the node. There
 * are two lists while the write of a new one is not acknowledged, because the fence may count by either. An empty list excuses
 * nothing.
 */
export function isExcused(lists: readonly (readonly string[])[], answers: ReadonlyMap<string, PeerAnswer>): boolean {
  const excuses = (list: readonly string[]): boolean =>
    list.filter((peer) => answers.get(peer) === "no-api").length >= excusingPeers(list.length);
  return lists.length > 0 && lists.every(excuses);
}
