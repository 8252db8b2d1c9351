/** What an agent answers a peer that asks for its permit, and whether answers excuse the agent that asked. Pure. */

import type { ArmedFence } from "../../shared/annotations/fencing.ts";
import { excusingPeers } from "../decide-quorum.ts";

/**
 * - `alive`: the Lease is of the boot that asks, and no fence is armed for it.
 * - `stop`: a fence is armed for that boot, and its Node has the taint.
 * - `no-api`: the peer itself has not reached the API server for longer than X.
 * - `unknown`: anything else, which shows nothing.
 */
export type PeerAnswer = "alive" | "stop" | "no-api" | "unknown";

/** The contact of the peer that is asked, when the question came. Times are of its boottime clock, in milliseconds. */
export interface ContactView {
  readonly nowMs: number;
  /** When its agent started: a new process knows of no failure before that. */
  readonly startedMs: number;
  readonly lastSuccessMs: number | undefined;
  /** For how long one success is contact (X). */
  readonly freshMs: number;
}

/** The Lease of the agent that asks, by a read that was sent after its question came. */
export interface AskedLease {
  /** The boot that the Lease names. */
  readonly bootId: string | undefined;
  /** The fence that is armed for the boot that asks. */
  readonly fence: ArmedFence | undefined;
  /** Whether the Node has the taint, by a read of the same kind. Undefined if it was not read, or could not be. */
  readonly hasTaint: boolean | undefined;
}

export interface AskedView extends ContactView {
  /** The boot that asks. */
  readonly bootId: string;
  /** `unread`: the read failed, took too long, or there were too many. `missing`: there is no such Lease. */
  readonly lease: AskedLease | "unread" | "missing";
}

/** True for a peer whose answer needs no read: it is `no-api`. */
export function isOutOfContact({ nowMs, startedMs, lastSuccessMs, freshMs }: ContactView): boolean {
  return nowMs - Math.max(startedMs, lastSuccessMs ?? startedMs) > freshMs;
}

export function decideAnswer(view: AskedView): PeerAnswer {
  const { lease, bootId } = view;
  if (isOutOfContact(view)) return "no-api";
  if (typeof lease === "string" || lease.bootId !== bootId) return "unknown";
  if (lease.fence === undefined) return "alive";
  return lease.hasTaint === true ? "stop" : "unknown";
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
