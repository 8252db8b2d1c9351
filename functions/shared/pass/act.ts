/** The acts: what is done to a cluster once a verdict has been reserved. */

import type { Announcement } from "../kubernetes/announcements.ts";
import { ClusterError, hasCode, isRightMissing, isTransient, lackOf, wordsOf } from "../kubernetes/cluster.ts";
import { finishAfterMs, type Reservation } from "../ledger/reservation.ts";
import { cut } from "../ledger/size.ts";
import type { GroupKey, StatefulSet } from "../objects/statefulsets.ts";
import { eventReasons } from "../objects/vocabulary.ts";
import type { Context } from "./definition.ts";
import { tryToAnnounce } from "./record.ts";
import type { ActReport } from "./report.ts";
import { nameOf, subjectOf, type Target } from "./target.ts";

/** How soon to look at what is left when the last step of a zone is done, in milliseconds. */
const lookAgainMs = 20;
/** How soon to look at the siblings of a pod that stays, in milliseconds. */
const goOnMs = 1_000;

/** On whose behalf targets are carried out, and under which reservations. */
export interface Errand {
  readonly context: Context;
  readonly by: string;
  readonly key: GroupKey;
  /** No act is started later than this moment of the monotonic clock (rule R9). */
  readonly deadlineMs: number;
  /** By pod uid the reservations that renew no other: what is sent now is the first that was ever sent for them. */
  readonly sole: ReadonlyMap<string, Reservation>;
}

/**
 * Carries the targets out, all at once, and starts none too late (rule R9).
 *
 * Resolves, never rejects: to when to look again, in milliseconds, if an act did not end as hoped.
 */
export async function act(errand: Errand, targets: readonly Target[]): Promise<number | undefined> {
  const rechecks = await Promise.all(targets.map((target) => actOn(errand, target)));
  const wanted = rechecks.filter((recheckMs) => recheckMs !== undefined);
  return wanted.length > 0 ? Math.min(...wanted) : undefined;
}

async function actOn(errand: Errand, target: Target): Promise<number | undefined> {
  const { context, by, key, deadlineMs } = errand;
  const { reporter } = context;
  const report: Omit<ActReport, "result" | "reason"> = {
    key,
    function: by,
    ...nameOf(target),
    zone: target.statefulSet.name,
  };
  if (context.cluster.monotonicMs() > deadlineMs) {
    reporter.act({ ...report, result: "late", reason: "its reservation is no longer fresh enough to act on" });
    return finishAfterMs;
  }
  try {
    await carryOut(context, target, deadlineMs);
    reporter.act({ ...report, result: "done", reason: "as decided" });
    if (target.action === "repair") await sayRepaired(context, by, key, target);
    // What a status write was answered is known already, so that no event of it wakes anybody: what holds now is said next.
    return target.action === "record-revision" ? lookAgainMs : undefined;
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    const reason = wordsOf(error);
    if (hasCode(error, 404)) reporter.act({ ...report, result: "gone", reason });
    else if (hasCode(error, 409)) reporter.act({ ...report, result: "changed", reason });
    else if (isTransient(error)) reporter.act({ ...report, result: "failed", reason });
    else {
      reporter.act({ ...report, result: "refused", reason });
      const isOver = withdraw(errand, target, error);
      await refuse(context, by, key, target, error);
      if (isOver) return goOnMs;
    }
    if (hasCode(error, 404, 409)) return target.action === "delete" ? undefined : 1_000;
    return isTransient(error) && target.action !== "delete" ? 1_000 : finishAfterMs;
  }
}

async function carryOut({ cluster, views }: Context, target: Target, deadlineMs: number): Promise<void> {
  const { namespace, name, resourceVersion } = target.statefulSet;
  switch (target.action) {
    case "delete":
      return cluster.delete("pods", target.pod, { uid: target.pod.uid }, { notAfterMs: deadlineMs });
    case "repair": {
      const seen = { uid: target.pod.uid, resourceVersion: String(target.pod.resourceVersion) };
      return cluster.delete("pods", target.pod, seen, { notAfterMs: deadlineMs });
    }
    case "record-revision": {
      const body = { metadata: { resourceVersion }, status: { currentRevision: target.statefulSet.updateRevision } };
      const call = { subresource: "status", notAfterMs: deadlineMs } as const;
      views.learn(await cluster.patch("statefulsets", { namespace, name }, body, call));
    }
  }
}

/** A repair is no part of a zone's turn, and of no ledger write: it says itself that it happened. */
async function sayRepaired(
  context: Context,
  by: string,
  key: GroupKey,
  { pod, statefulSet, cause }: Extract<Target, { action: "repair" }>,
): Promise<void> {
  const message = `pod ${pod.name} was ${cause} on revision ${pod.revision} and is replaced by ${statefulSet.updateRevision}`;
  await say(context, by, key, statefulSet, {
    type: "Normal",
    reason: eventReasons.repaired,
    message,
    identity: pod.uid,
  });
}

/** Sends an Event about a StatefulSet; that it cannot be sent is a log line and nothing more. */
async function say(
  context: Context,
  by: string,
  key: GroupKey,
  statefulSet: StatefulSet,
  announcement: Omit<Announcement, "about">,
): Promise<void> {
  await tryToAnnounce(context, by, key, { about: { resource: "statefulsets", ...statefulSet }, ...announcement });
}

/**
 * A reservation whose only attempt was answered with a refusal protects nothing: nothing is under way. Its maker takes it out
 * with the next write, if the ledger still holds that very stamp. Where a try was repeated, or the reservation renews another,
 * an earlier one may still arrive, and rule R10 alone ends it.
 */
function withdraw({ context, key, sole }: Errand, target: Target, error: ClusterError): boolean {
  const reservation = target.action === "delete" ? sole.get(target.pod.uid) : undefined;
  if (reservation === undefined || error.attempts > 1) return false;
  context.memoryOf(key).refusedOnce.set(reservation.uid, reservation);
  return true;
}

/** A refusal names itself on the StatefulSet and is remembered, so that its siblings go on (guard `delete-refused`). */
async function refuse(context: Context, by: string, key: GroupKey, target: Target, error: ClusterError): Promise<void> {
  const { cluster } = context;
  const object = "pod" in target ? target.pod.name : target.statefulSet.name;
  const rightMissing: boolean = isRightMissing(error);
  const sentence = cut(
    rightMissing ? lackOf(error) : `${error.verb} of ${object} was refused with ${error.code}: ${error.message}`,
  );
  const uid = subjectOf(target);
  context.memoryOf(key).refusals.set(uid, { uid, pod: object, sentence, stampMs: cluster.serverTimeMs() });
  const reason = rightMissing ? eventReasons.forbidden : eventReasons.refused;
  const identity = rightMissing ? `${error.verb} ${error.resource}` : object;
  await say(context, by, key, target.statefulSet, { type: "Warning", reason, message: sentence, identity });
}
