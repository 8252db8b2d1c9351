/** The acts: what is done to a cluster once a verdict has been reserved. */
import { ClusterError, hasCode, isTransient } from "./cluster.ts";
import type { Context } from "./definition.ts";
import { type Announcement, announce } from "./events.ts";
import type { Pod } from "./pods.ts";
import type { ActReport } from "./report.ts";
import { finishAfterMs } from "./reservation.ts";
import type { GroupKey, StatefulSet } from "./statefulsets.ts";
import { eventReasons } from "./vocabulary.ts";

/** How soon to look at what is left when the last step of a zone is done, in milliseconds. */
const lookAgainMs = 20;

export type Target =
  /** Reserved first (rule R8), then deleted by uid (rule R9). */
  | { readonly action: "delete"; readonly statefulSet: StatefulSet; readonly pod: Pod }
  /**
   * Broken and outdated: deleted as it was seen, by uid and resourceVersion, without a reservation (rule R13). The cause
   * follows "the pod was".
   */
  | { readonly action: "repair"; readonly statefulSet: StatefulSet; readonly pod: Pod; readonly cause: string }
  /** All pods run the update revision: say so in `status.currentRevision`, which Kubernetes does not do for OnDelete. */
  | { readonly action: "record-revision"; readonly statefulSet: StatefulSet };

/** The uid of what a target changes: refusals are remembered by it. */
export function subjectOf(target: Target): string {
  return target.action === "record-revision" ? target.statefulSet.uid : target.pod.uid;
}

/**
 * Carries the targets out, all at once, and never starts one later than `deadlineMs` of the monotonic clock (rule R9).
 *
 * Resolves, never rejects: to when to look again, in milliseconds, if an act did not end as hoped.
 */
export async function act(
  context: Context,
  by: string,
  key: GroupKey,
  targets: readonly Target[],
  deadlineMs: number,
): Promise<number | undefined> {
  const rechecks = await Promise.all(targets.map((target) => actOn(context, by, key, target, deadlineMs)));
  const wanted = rechecks.filter((recheckMs) => recheckMs !== undefined);
  return wanted.length > 0 ? Math.min(...wanted) : undefined;
}

async function actOn(
  context: Context,
  by: string,
  key: GroupKey,
  target: Target,
  deadlineMs: number,
): Promise<number | undefined> {
  const { reporter } = context;
  const report: Omit<ActReport, "result" | "reason"> = {
    key,
    function: by,
    action: target.action,
    object: "pod" in target ? target.pod.name : target.statefulSet.name,
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
    const reason = error.message;
    if (hasCode(error, 404)) reporter.act({ ...report, result: "gone", reason });
    else if (hasCode(error, 409)) reporter.act({ ...report, result: "changed", reason });
    else if (isTransient(error)) reporter.act({ ...report, result: "failed", reason });
    else {
      reporter.act({ ...report, result: "refused", reason });
      await refuse(context, by, key, target, error);
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
  { cluster, reporter }: Context,
  by: string,
  key: GroupKey,
  statefulSet: StatefulSet,
  announcement: Omit<Announcement, "about">,
): Promise<void> {
  try {
    await announce(cluster, by, { about: { resource: "statefulsets", ...statefulSet }, ...announcement });
  } catch (failure) {
    reporter.problem(key, by, `no Event could be sent about ${statefulSet.name}`, failure);
  }
}

/** A refusal names itself on the StatefulSet and is remembered, so that its siblings go on (guard `delete-refused`). */
async function refuse(context: Context, by: string, key: GroupKey, target: Target, error: ClusterError): Promise<void> {
  const { cluster } = context;
  const object = "pod" in target ? target.pod.name : target.statefulSet.name;
  const rightMissing = error.code === 403 && / cannot (delete|patch) resource /.test(error.message);
  const sentence = rightMissing
    ? `Sluice lacks the right to ${error.verb} ${error.resource}: ${error.message}`
    : `${error.verb} of ${object} was refused with ${error.code}: ${error.message}`;
  const uid = subjectOf(target);
  context.memoryOf(key).refusals.set(uid, { uid, pod: object, sentence, stampMs: cluster.serverTimeMs() });
  const reason = rightMissing ? eventReasons.forbidden : eventReasons.refused;
  const identity = rightMissing ? `${error.verb} ${error.resource}` : object;
  await say(context, by, key, target.statefulSet, { type: "Warning", reason, message: sentence, identity });
}
