/** Whether the queues of a RabbitMQ cluster are to be rebalanced now, or what that waits for. Pure. */

import type { AuthorityRef, QuestionUrl } from "../shared/annotations/health.ts";
import type { RebalanceFailure, RebalanceState } from "../shared/annotations/rebalancing.ts";
import { clockSkewMs } from "../shared/clock/skew.ts";
import { type Wait, wait } from "../shared/contract/verdict.ts";

/** Where and with what a node is asked. */
export interface RebalanceEndpoint {
  readonly url: Pick<QuestionUrl, "scheme" | "port">;
  readonly service: string;
  /** The name of the Secret; undefined without one. */
  readonly secret: string | undefined;
  /** Whose certificates are trusted over https; undefined: those whom Node trusts. */
  readonly authority: AuthorityRef | undefined;
}

/** The pods of a cluster that is whole. */
export interface Nodes {
  /** Of who they are, and how often each has started: it changes with each node that was away. */
  readonly digest: string;
  /** Their names, from the lowest ordinal. */
  readonly pods: readonly string[];
  /** Some are of the wanted revision, and some are not. */
  readonly isMixed: boolean;
}

export interface RebalanceSnapshot {
  readonly name: string;
  readonly uid: string;
  readonly replicas: number;
  /** Where a node is asked; or why no node can be asked. */
  readonly endpoint: RebalanceEndpoint | Wait;
  readonly state: RebalanceState | undefined;
  /** Or what says that it is not whole. */
  readonly nodes: Nodes | string;
  /** Time since which a rebalance is wanted, by an annotation of the StatefulSet or of its owner; undefined for none. */
  readonly wantedMs: number | undefined;
  /** The same on the RabbitmqCluster alone, whose operator serves it. */
  readonly operatorMs: number | undefined;
  readonly nowMs: number;
  /** For so long a cluster must have been the same. */
  readonly settleMs: number;
}

export interface Rebalance {
  readonly kind: "rebalance";
  readonly pod: string;
  /** Says that it is claimed. */
  readonly state: RebalanceState & { readonly claimedMs: number };
  readonly because: string;
}

export type RebalanceStep =
  | Wait
  /** Nothing is to be done. */
  | { readonly kind: "rest"; readonly message: string; readonly requeueAfterMs: number | undefined }
  /** The nodes are others than were written down: these are. */
  | { readonly kind: "note"; readonly state: RebalanceState }
  | Rebalance;

/** A claim is over by then, whatever became of its process: all that it stands for takes less than half of that. */
export const claimMs = 60_000;
/** A rollout that has stood still for so long holds up nothing any more. */
const rolloutMs = 600_000;
/** For so long a mark of the operator's is left to the operator, once the cluster is whole. */
const operatorMs = 300_000;
const leastPauseMs = 30_000;
const mostPauseMs = 900_000;
/**
 * A time that lies further ahead is wrong, and does not count. It is twice what clocks differ: a claim that counts too long only
 * delays a rebalance, and one that does not count lets two processes ask at once.
 */
const mostAheadMs = 2 * clockSkewMs;

export function decide(snapshot: RebalanceSnapshot): RebalanceStep {
  const { name, uid, replicas, endpoint, nodes, nowMs } = snapshot;
  const zone = name;
  if (replicas < 2) return rest(`${name} has ${replicas} replicas, and nothing to spread`);
  if ("kind" in endpoint) return endpoint;
  if (typeof nodes === "string") return wait("pods-not-ready", `${name} waits until it is whole: ${nodes}`, { zone });
  const state = timely(snapshot.state, uid, nowMs);
  if (state?.members !== nodes.digest) return { kind: "note", state: noted(state, uid, nodes.digest, nowMs) };
  return decideWhole(snapshot, nodes, state);
}

function decideWhole(snapshot: RebalanceSnapshot, nodes: Nodes, state: RebalanceState): RebalanceStep {
  const { name, wantedMs, nowMs } = snapshot;
  const isChanged = state.balanced !== nodes.digest;
  const isAsked = wantedMs !== undefined && wantedMs <= nowMs && wantedMs >= wholeSeconds(state.balancedMs);
  if (!isChanged && !isAsked) {
    const dueMs = wantedMs !== undefined && wantedMs > nowMs ? wantedMs - nowMs : undefined;
    return rest(`${name} was rebalanced since its nodes were last away`, dueMs);
  }
  const claimed = waitForClaim(name, state, nowMs);
  if (claimed !== undefined) return claimed;
  const failed = failureOf(state);
  const blocked =
    waitToSettle(snapshot, nodes, state) ?? waitAfterFailure(name, failed, nowMs) ?? waitForOperator(snapshot, state);
  if (blocked !== undefined) return blocked;
  // Another one each time: the management plugin of one node may be broken alone.
  const pod = nodes.pods[(failed?.times ?? 0) % nodes.pods.length] ?? "";
  const because = isChanged ? `nodes of ${name} were away` : `a rebalance of ${name} is wanted`;
  return { kind: "rebalance", pod, because, state: { ...state, failed, claimedMs: nowMs } };
}

function rest(message: string, requeueAfterMs?: number): RebalanceStep {
  return { kind: "rest", message, requeueAfterMs };
}

/** What of a state may be believed: another StatefulSet's is none, and what lies ahead was never so. */
function timely(state: RebalanceState | undefined, uid: string, nowMs: number): RebalanceState | undefined {
  const isAhead = (ms: number | undefined) => ms !== undefined && ms > nowMs + mostAheadMs;
  if (state === undefined || state.uid !== uid || isAhead(state.sinceMs)) return undefined;
  return {
    ...state,
    balancedMs: isAhead(state.balancedMs) ? undefined : state.balancedMs,
    claimedMs: isAhead(state.claimedMs) ? undefined : state.claimedMs,
    failed: isAhead(state.failed?.lastMs) ? undefined : state.failed,
  };
}

/**
 * A claim stays, because the process that made it may be asking at this moment. What has failed stays, too: nodes that come and
 * go would be asked each time without it.
 */
function noted(state: RebalanceState | undefined, uid: string, members: string, nowMs: number): RebalanceState {
  const before = state ?? { balanced: undefined, balancedMs: undefined, claimedMs: undefined, failed: undefined };
  return { ...before, uid, members, sinceMs: nowMs };
}

/** People write whole seconds: what they wrote in the second of a rebalance may have come after it. */
function wholeSeconds(ms: number | undefined): number {
  return ms === undefined ? Number.NEGATIVE_INFINITY : Math.floor(ms / 1000) * 1000;
}

function waitForClaim(zone: string, { claimedMs }: RebalanceState, nowMs: number): Wait | undefined {
  const leftMs = claimedMs === undefined ? 0 : claimedMs + claimMs - nowMs;
  if (leftMs <= 0) return undefined;
  const message = `a replica is asking for a rebalance of ${zone}, or has ended over it; that is over in ${seconds(leftMs)} s`;
  return wait("rebalance-under-way", message, { zone, requeueAfterMs: leftMs });
}

/** A claim that its process did not end is a failure like others, because the next process may end over it as well. */
function failureOf({ claimedMs, failed }: RebalanceState): RebalanceFailure | undefined {
  if (claimedMs === undefined) return failed;
  const why = "the replica that asked has ended, or could not write down what it was told";
  return { times: (failed?.times ?? 0) + 1, lastMs: claimedMs, guard: "rebalance-unanswered", why };
}

function waitToSettle(
  { name: zone, nowMs, settleMs }: RebalanceSnapshot,
  { isMixed }: Nodes,
  { sinceMs, balancedMs }: RebalanceState,
): Wait | undefined {
  const settledMs = Math.max(sinceMs, balancedMs ?? Number.NEGATIVE_INFINITY) + settleMs;
  if (nowMs < settledMs) {
    const message = `${zone} has to stay as it is for another ${seconds(settledMs - nowMs)} s`;
    return wait("settling", message, { zone, requeueAfterMs: settledMs - nowMs });
  }
  const restedMs = sinceMs + Math.max(rolloutMs, settleMs);
  if (!isMixed || nowMs >= restedMs) return undefined;
  const message = `a rollout of ${zone} is under way: it ends first, or stands still for another ${seconds(restedMs - nowMs)} s`;
  return wait("rollout-under-way", message, { zone, requeueAfterMs: restedMs - nowMs });
}

function waitAfterFailure(zone: string, failed: RebalanceFailure | undefined, nowMs: number): Wait | undefined {
  if (failed === undefined) return undefined;
  const leftMs = failed.lastMs + pauseMs(failed.times) - nowMs;
  return leftMs <= 0 ? undefined : failure(zone, failed, leftMs);
}

/** What is reported about a failure, until it is tried again. */
export function failure(zone: string, { guard, why, times }: RebalanceFailure, leftMs: number): Wait {
  const message = `${zone} could not be rebalanced (${times} in a row): ${why}; tried again in ${seconds(leftMs)} s`;
  // Another version of Sluice may have written a guard that this one does not have.
  const isKnown = ["rebalance-refused", "credentials-missing"].includes(guard);
  return wait(isKnown ? guard : "rebalance-unanswered", message, { zone, requeueAfterMs: leftMs });
}

/** How long no node is asked after so many failures in a row. */
export function pauseMs(times: number): number {
  return Math.min(mostPauseMs, leastPauseMs * 2 ** Math.min(times - 1, 20));
}

/** A mark that lies ahead is not waited for, and one that the operator never takes away is not waited for long. */
function waitForOperator(
  { name: zone, operatorMs: markedMs, nowMs }: RebalanceSnapshot,
  { sinceMs }: RebalanceState,
): Wait | undefined {
  if (markedMs === undefined) return undefined;
  const leftMs = Math.max(sinceMs, markedMs > nowMs ? sinceMs : markedMs) + operatorMs - nowMs;
  if (leftMs <= 0) return undefined;
  const message = `the operator of ${zone} is about to rebalance it; it has another ${seconds(leftMs)} s for that`;
  return wait("operator-first", message, { zone, requeueAfterMs: Math.min(leftMs, 30_000) });
}

function seconds(ms: number): number {
  return Math.ceil(ms / 1000);
}
