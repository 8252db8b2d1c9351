/** One reconcile: it ends each claim of a prepared downscale that is over, and takes back each that never came (rule R20). */

import type { Context } from "../shared/contract/context.ts";
import type { ReconcileResult } from "../shared/contract/definition.ts";
import { contendedRequeueMs, refusedRequeueMs, type Wait } from "../shared/contract/verdict.ts";
import type { NewEvent } from "../shared/events/event.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import { recordOnce } from "../shared/events/recorder.ts";
import { notifyPods } from "../shared/http/notify-pods.ts";
import { changeClaim, type KnownClaim } from "../shared/ledger/claim.ts";
import { type Blocked, describeClaim } from "../shared/ledger/claim-kinds.ts";
import { maxConflicts } from "../shared/ledger/reservation.ts";
import { askedBy, skipUnconcerned } from "../shared/reconcile/concern.ts";
import { Throttle } from "../shared/reconcile/throttle.ts";
import {
  addressOf,
  isPrepared,
  isTakenBack,
  podsToNotify,
  requestTo,
  undoEndpointOf,
} from "../shared/scaling/prepared.ts";
import { scaleDownPhases } from "../shared/scaling/size-changes.ts";
import { renewClaim, timesAfter, writeClaims } from "../shared/transaction/claims.ts";
import { Conflict, forgetLedger, waitForLedger } from "../shared/transaction/ledger-copy.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import type { GroupKey, StatefulSet } from "../shared/workloads/statefulsets.ts";
import { type ClaimDecision, decide, undoing } from "./decide.ts";
import { name, type ObservedClaim, observe, readPrepared } from "./observe.ts";
import { writeTimes } from "./write-times.ts";

/** How one claim ended, or what it waits for. */
interface End extends Blocked {
  readonly requeueAfterMs?: number;
}

const nothing: ReconcileResult = { requeueAfterMs: undefined, pendingActs: undefined };
/** How long a group rests whose ledger was read, in milliseconds: a GET of a Lease is cheap, and other zones wait for a claim. */
const ledgerRestMs = 5_000;
/** The same while a claim stands: what happens in the group may be its end. */
const claimRestMs = 500;
/** Of the groups that are of concern. One rests no longer than until its next claim is due. */
const throttle = new Throttle();
const untoldRequeueMs = 15_000;
/** After so long of failed tries a claim ends that no pod can answer for any more, in milliseconds. */
const giveUpAfterMs = 1_800_000;
/** The status 501; 404 and 405 say already that a pod has nothing to take back. */
const notImplemented = 501;
const asks = askedBy(({ scaling }) => scaling?.preparesDownscale === true);

/** Throws ClusterError where trying again can help. */
export async function reconcilePrepared(
  context: Context,
  key: GroupKey,
  { sweep }: { readonly sweep: boolean },
): Promise<ReconcileResult> {
  if (context.mode === "shadow") return nothing;
  const { cluster } = context;
  const memory = context.memoryOf(key);
  const postponed = sweep ? undefined : throttle.postpone(memory, cluster.monotonicMs());
  if (postponed !== undefined) return postponed;
  const idle = await skipUnconcerned(context, key, { sweep }, { asks, isOwn: isPrepared });
  if (idle !== undefined) return idle;
  const startedMs = cluster.monotonicMs();
  throttle.restUntil(memory, startedMs + ledgerRestMs);
  const requeues: number[] = [];
  let restMs = ledgerRestMs;
  try {
    await endAll(context, key, requeues);
    if (requeues.length > 0) restMs = claimRestMs;
    const writableMs = await writeTimes(context, key);
    if (writableMs !== undefined) requeues.push(writableMs);
  } catch (error) {
    // Of the times alone: what ends a claim has begun anew by itself.
    if (error instanceof Conflict) return { requeueAfterMs: contendedRequeueMs, pendingActs: undefined };
    const unusable = waitForLedger(error);
    if (unusable === undefined) throw error;
    report(context, key, unusable, cluster.serverTimeMs());
    requeues.push(refusedRequeueMs);
  }
  if (requeues.length === 0) return nothing;
  const requeueAfterMs = Math.min(...requeues);
  throttle.restUntil(memory, Math.min(startedMs + restMs, cluster.monotonicMs() + requeueAfterMs));
  return { requeueAfterMs, pendingActs: undefined };
}

/** Ends what is over, one claim after the other, and adds when to reconcile the claims that are left. */
async function endAll(context: Context, key: GroupKey, requeues: number[]): Promise<void> {
  for (const claim of await readPrepared(context, key)) {
    const end = await endClaim(context, key, claim);
    report(context, key, { ...end, zone: claim.zone }, claim.stampMs);
    if (end.requeueAfterMs !== undefined) requeues.push(end.requeueAfterMs);
  }
}

function report(
  { reporter }: Context,
  key: GroupKey,
  { guard, zone, message }: Pick<Wait, "guard" | "zone" | "message">,
  sinceMs: number,
): void {
  reporter.verdict({ key, function: name, guard, zone, message, sinceMs, shadow: false });
}

/** Rule R3: after a conflict it begins again, five times. */
async function endClaim(context: Context, key: GroupKey, claim: KnownClaim): Promise<End> {
  for (let conflicts = 0; conflicts < maxConflicts; conflicts++) {
    forgetLedger(context.memoryOf(key));
    try {
      return await endOne(context, key, claim.id);
    } catch (error) {
      if (!(error instanceof Conflict)) throw error;
      context.reporter.conflict(key, name);
    }
  }
  return { guard: "ledger-contended", message: describeClaim(claim), requeueAfterMs: contendedRequeueMs };
}

async function endOne(context: Context, key: GroupKey, id: string): Promise<End> {
  const seen = await observe(context, key, id);
  if (seen === undefined) {
    const message = `the claim ${id} is gone, or the ledger is new`;
    return { guard: "claim-gone", message, requeueAfterMs: ledgerRestMs };
  }
  const { observed, claim } = seen;
  const decision = decide(seen);
  if (decision.kind === "stands")
    return { guard: "downscale-under-way", message: describeClaim(claim), requeueAfterMs: decision.requeueAfterMs };
  if (decision.kind === "undo") return undo(context, key, seen, decision);
  await writeClaims(context, observed, { out: [claim], into: [], ...timesAfter(observed, [claim]) });
  return { guard: "downscale-done", message: `${claim.zone} is smaller, and its claim is over` };
}

/** Marks the claim so that no review joins it; tells the pods that stay; then it goes, or shrinks to the pods that leave. */
async function undo(
  context: Context,
  key: GroupKey,
  seen: ObservedClaim,
  { stay, leave }: Extract<ClaimDecision, { kind: "undo" }>,
): Promise<End> {
  const { claim, where, observed } = seen;
  const nowMs = context.cluster.serverTimeMs();
  // A claim that shrank to the pods that leave keeps the time of an earlier undo, which does not count.
  const undoneMs = claim.phase === undoing ? (claim.undoneMs ?? nowMs) : nowMs;
  const marked = changeClaim(renewClaim(claim, nowMs, undoing), { undoneMs });
  const deadlineMs = await writeClaims(context, observed, { out: [claim], into: [marked] });
  const due = podsToNotify(stay, where.statefulSet);
  const untold = await notifyStaying(context, where.statefulSet, claim, due, deadlineMs);
  const isVain = untold?.isVain === true && nowMs - undoneMs >= giveUpAfterMs;
  if (untold !== undefined && !isVain) {
    const message = `the downscale of ${claim.zone} never came, and its pods are not all told that they stay: ${untold.why}`;
    const end = { guard: "prepared-untold", message, requeueAfterMs: untoldRequeueMs };
    return recordEnd(context, key, seen, end, { type: "Warning", reason: eventReasons.preparedUntold });
  }
  const again = await observe(context, key, claim.id);
  if (again?.claim.line !== marked.line) throw new Conflict();
  // An allowance let the pods go that leave: its stamp counts for the time between zones.
  const rest = { phase: scaleDownPhases.confirmed, stampMs: claim.stampMs, members: leave };
  const shrunk = leave.length === 0 ? [] : [changeClaim(marked, rest)];
  await writeClaims(context, again.observed, { out: [again.claim], into: shrunk });
  if (untold !== undefined) {
    const message = `the downscale of ${claim.zone} never came, and its claim ends after ${giveUpAfterMs / 60_000} minutes of failed tries: each pod that was told to leave is gone, is another one, or knows no such request; ${untold.why}`;
    const end = { guard: "prepared-given-up", message };
    return recordEnd(context, key, seen, end, { type: "Warning", reason: eventReasons.preparedGivenUp });
  }
  const message = `the downscale of ${claim.zone} never came: its pods were told that they stay`;
  const end = { guard: "downscale-taken-back", message };
  return recordEnd(context, key, seen, end, { type: "Normal", reason: eventReasons.downscaleTakenBack });
}

/** Sends an Event about how a claim ended, or what it waits for: once for each. Resolves to `end`. */
async function recordEnd(
  context: Context,
  key: GroupKey,
  { claim, where: { statefulSet } }: ObservedClaim,
  end: End,
  event: Pick<NewEvent, "type" | "reason">,
): Promise<End> {
  if (statefulSet === undefined) return end;
  const about = { resource: "statefulsets", ...statefulSet } as const;
  const [message, identity] = [`${end.guard}: ${end.message}`, `${end.guard} ${claim.id}`];
  await recordOnce(context, name, key, { about, ...event, message, identity });
  return end;
}

/** Why pods do not know that they stay. */
interface UntoldPod {
  readonly why: string;
  /** None of them has anything to take back: each is another pod than was told, or knows no such request. */
  readonly isVain: boolean;
}

/** Undefined where each of them has confirmed it. */
async function notifyStaying(
  { pods, cluster }: Context,
  statefulSet: StatefulSet | undefined,
  claim: KnownClaim,
  stay: readonly Pod[],
  deadlineMs: number,
): Promise<UntoldPod | undefined> {
  if (stay.length === 0) return undefined;
  if (pods === undefined || statefulSet === undefined) return { why: "this process calls no pods", isVain: false };
  const others = new Set(stay.filter((pod) => isOther(claim, pod)).map(({ name: pod }) => pod));
  const endpoint = undoEndpointOf(claim, statefulSet);
  if ("guard" in endpoint) return { why: endpoint.message, isVain: others.size === stay.length };
  const addresses = stay.map((pod) => addressOf(endpoint, pod.name));
  const request = requestTo(endpoint, "DELETE");
  const how = { isAccepted: isTakenBack, deadlineMs, isAllOrNone: false };
  const notified = await notifyPods({ pods, clock: cluster, addresses, request, ...how });
  const silent = notified.filter(({ accepted }) => !accepted);
  const [first] = silent;
  const isVain = silent.every(({ pod, status }) => others.has(pod) || status === notImplemented);
  return first && { why: first.why, isVain };
}

/** True for another pod than was told; where the claim names none, Sluice does not know it. */
function isOther({ uids = {} }: KnownClaim, { name: pod, uid }: Pod): boolean {
  return uids[pod] !== undefined && uids[pod] !== uid;
}
