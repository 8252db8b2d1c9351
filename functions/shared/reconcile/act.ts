/** The acts on a cluster, once a verdict's reservations are written. */

import { messageOf } from "../base/error-message.ts";
import { cut } from "../base/truncate.ts";
import type { Context } from "../contract/context.ts";
import type { ActReport } from "../contract/reporter.ts";
import type { NewEvent } from "../events/event.ts";
import { eventReasons } from "../events/reasons.ts";
import { tryCreateEvent } from "../events/recorder.ts";
import { apiMessage, ClusterError, hasCode, isRightMissing, isTransient, lackOf } from "../kubernetes/cluster.ts";
import type { ClaimContent } from "../ledger/claim.ts";
import { finishAfterMs, type Reservation } from "../ledger/reservation.ts";
import type { Pod } from "../workloads/pods.ts";
import { type GroupKey, isStatefulSet, type StatefulSet, type ZoneWorkload } from "../workloads/statefulsets.ts";

/** How soon to reconcile again for the siblings of a pod that stays, or for what no reservation holds, in milliseconds. */
const endedRequeueMs = 1_000;

/** A pod that an act takes from the group's budget: a reservation is made of it. */
export type PodClaim = Pick<Reservation, "statefulSet" | "ordinal" | "uid">;
/** What else an act takes from it. Its function decides whether that may be claimed. */
export type OtherClaim = Omit<ClaimContent, "by" | "stampMs">;

/** One act of a function: its object, its share of the budget, and its call. */
export interface Act {
  /** Stable kebab-case, for logs and metrics. */
  readonly name: string;
  /** The name of what it changes. */
  readonly object: string;
  /** The uid of what it changes: refusals are remembered by it. */
  readonly subjectUid: string;
  /** The zone that its reports name. */
  readonly workload: ZoneWorkload;
  /** What is written to the ledger before it is carried out (rule R8). Empty: it needs no reservation. */
  readonly claims: readonly (PodClaim | OtherClaim)[];
  /** True: it needs none, but the ledger is read again before it and must be as it was decided on (rules R13 and R18). */
  readonly confirmsLedger?: true;
  /** True: it takes no pod, so that a ledger which is too new to permit anything does not hold it (rule R4). */
  readonly takesNothing?: true;
  /** Sends no request later than `deadlineMs` of the monotonic clock (rule R9). Throws ClusterError. */
  carryOut(context: Context, deadlineMs: number): Promise<void>;
  /** The Event that says that it is done; absent: the verdict's own is enough. */
  readonly event?: Omit<NewEvent, "about">;
  /** Remembers by itself that it was refused, or that all has changed; absent: it is remembered as a deletion is. */
  refused?(context: Context, key: GroupKey, error: ClusterError): void;
  /** How soon to reconcile again once it is done, in milliseconds; absent: an event reports what becomes of it. */
  readonly requeueAfterDoneMs?: number;
}

/** A pod is reserved (rule R8), and then deleted by uid (rule R9). */
export function deletionOf(statefulSet: StatefulSet, pod: Pod): Act {
  return {
    name: "delete",
    object: pod.name,
    subjectUid: pod.uid,
    workload: statefulSet,
    claims: [{ statefulSet: statefulSet.name, ordinal: pod.ordinal, uid: pod.uid }],
    carryOut: ({ cluster }, deadlineMs) => cluster.delete("pods", pod, { uid: pod.uid }, { notAfterMs: deadlineMs }),
  };
}

/** For which function acts are carried out, and under which reservations. */
export interface ActRun {
  readonly context: Context;
  readonly by: string;
  readonly key: GroupKey;
  /** No act is started later than this moment of the monotonic clock (rule R9). */
  readonly deadlineMs: number;
  /** By pod uid the reservations that renew no other: what is sent now is the first that was ever sent for them. */
  readonly sole: ReadonlyMap<string, Reservation>;
  /** True for an error that says that the ledger cannot be used as it is. */
  readonly isOfLedger: (error: unknown) => boolean;
}

/**
 * Carries the acts out, all at once, and starts none too late (rule R9).
 *
 * Resolves to when to reconcile again, in milliseconds, if an act did not end as hoped, because of the API server or the ledger.
 * Rejects for a fault of the program alone.
 */
export async function carryOutAll(run: ActRun, acts: readonly Act[]): Promise<number | undefined> {
  const requeues = await Promise.all(acts.map((act) => carryOut(run, act)));
  const wanted = requeues.filter((requeueAfterMs) => requeueAfterMs !== undefined);
  return wanted.length > 0 ? Math.min(...wanted) : undefined;
}

async function carryOut(run: ActRun, act: Act): Promise<number | undefined> {
  const { context, by, key, deadlineMs } = run;
  const { reporter } = context;
  const isReserved = act.claims.length > 0;
  const report: Omit<ActReport, "result" | "reason"> = {
    key,
    function: by,
    action: act.name,
    object: act.object,
    zone: act.workload.name,
  };
  if (context.cluster.monotonicMs() > deadlineMs) {
    reporter.act({ ...report, result: "late", reason: "its reservation is no longer fresh enough to act on" });
    return finishAfterMs;
  }
  try {
    await act.carryOut(context, deadlineMs);
    reporter.act({ ...report, result: "done", reason: "as decided" });
    if (act.event !== undefined) await recordAbout(run, act, act.event);
    return act.requeueAfterDoneMs;
  } catch (error) {
    if (!(error instanceof ClusterError)) return endByLedger(run, report, error);
    act.refused?.(context, key, error);
    const result = resultOf(error);
    reporter.act({ ...report, result, reason: apiMessage(error) });
    if (result === "refused") return (await refuse(run, act, error)) ? endedRequeueMs : finishAfterMs;
    // An event reports the end of a reservation; anything else may have no event.
    if (!isReserved) return endedRequeueMs;
    return result === "failed" ? finishAfterMs : undefined;
  }
}

/** The result of an act that the API server did not carry out. */
function resultOf(error: ClusterError): "gone" | "changed" | "failed" | "refused" {
  if (hasCode(error, 404)) return "gone";
  if (hasCode(error, 409)) return "changed";
  return isTransient(error) ? "failed" : "refused";
}

/** A ledger that an act cannot use ends only this act, and the next reconcile reports the reason. Throws bugs of the program. */
function endByLedger(run: ActRun, report: Omit<ActReport, "result" | "reason">, error: unknown): number {
  if (!run.isOfLedger(error)) throw error;
  run.context.reporter.act({ ...report, result: "failed", reason: messageOf(error) });
  return finishAfterMs;
}

/** A zone of another owner is no object that could have an Event. */
async function recordAbout(
  { context, by, key }: ActRun,
  { workload }: Act,
  event: Omit<NewEvent, "about">,
): Promise<void> {
  if (!isStatefulSet(workload)) return;
  await tryCreateEvent(context, by, key, { about: { resource: "statefulsets", ...workload }, ...event });
}

/**
 * A reservation whose only attempt was answered with a refusal protects nothing: nothing is under way. Its maker takes it out
 * with the next write, if the ledger still holds that very stamp. Where a try was repeated, or the reservation renews another,
 * an earlier one may still arrive, and rule R10 alone ends it.
 */
function withdraw({ context, key, sole }: ActRun, { claims }: Act, error: ClusterError): boolean {
  // Rule R10a: only its own function ends a claim.
  const reservations = claims
    .map((claim) => ("uid" in claim ? sole.get(claim.uid) : undefined))
    .filter((one) => one !== undefined);
  if (reservations.length === 0 || reservations.length < claims.length || error.attempts > 1) return false;
  for (const one of reservations) context.memoryOf(key).refusedOnce.set(one.uid, one);
  return true;
}

/**
 * A refusal is recorded on the StatefulSet and remembered, so that its siblings go on (guard `delete-refused`). Resolves to
 * true if the act has nothing left to wait for.
 */
async function refuse(run: ActRun, act: Act, error: ClusterError): Promise<boolean> {
  if (act.refused !== undefined) return true;
  const { context, key } = run;
  const isOver = withdraw(run, act, error);
  const { object, subjectUid: uid } = act;
  const rightMissing: boolean = isRightMissing(error);
  const message = cut(
    rightMissing ? lackOf(error) : `${error.verb} of ${object} was refused with ${error.code}: ${error.message}`,
  );
  context.memoryOf(key).refusals.set(uid, { uid, pod: object, message, stampMs: context.cluster.serverTimeMs() });
  const reason = rightMissing ? eventReasons.forbidden : eventReasons.refused;
  const identity = rightMissing ? `${error.verb} ${error.resource}` : object;
  await recordAbout(run, act, { type: "Warning", reason, message, identity });
  return isOver;
}
