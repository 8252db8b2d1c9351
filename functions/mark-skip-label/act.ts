/** The acts on an owner and its pods: each write is conditional on the uid and the revision on which the decision rests. */

import {
  anyValue,
  formatStamp,
  formatStatus,
  releaseFinalizer,
  type SkipLabel,
  skipLabelledAt,
  skipStatus,
} from "../shared/annotations/skip-labels.ts";
import { mapLimit } from "../shared/base/map-limit.ts";
import type { Context } from "../shared/contract/context.ts";
import type { NewEvent } from "../shared/events/event.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import { recordOnce } from "../shared/events/recorder.ts";
import type { Metadata } from "../shared/kubernetes/cluster.ts";
import {
  describeRefusal,
  type ObjectAttempt,
  reportWrite,
  type WriteResult,
} from "../shared/reconcile/reconcile-object.ts";
import { labelText, type OwnerStep, type OwnerVerdict, type ReleasedPod } from "./decide.ts";
import { kindOf, name, type OwnerObservation } from "./observe.ts";

/** One observation of an owner, and the decision about it. */
export type OwnerAttempt = ObjectAttempt<OwnerObservation, OwnerVerdict>;

/** The most pods that get their label at one time. */
const labelsAtOnce = 32;

/** Events are sent before the act, so that a release after the deadline has been reported (invariant M1). */
export async function recordVerdict(attempt: OwnerAttempt): Promise<WriteResult | "told"> {
  const { step, isReported, guard } = attempt.verdict;
  const recorded = isReported ? await writeStatus(attempt) : "told";
  // The process that wrote the status may have ended before it sent its Events.
  const isDue = recorded === "told" && (step === undefined || guard === "deadline-passed");
  if (recorded === "done" || isDue) await recordEvents(attempt);
  return recorded;
}

/** Writes the guard and the message to the owner unless it has them already. Throws ClusterError. */
async function writeStatus(attempt: OwnerAttempt): Promise<WriteResult | "told"> {
  const { context, observed, verdict } = attempt;
  const { owner } = observed.snapshot;
  const { guard, message } = verdict;
  if (owner?.status?.guard === guard && owner.status.message === message) return "told";
  const nowMs = context.cluster.serverTimeMs();
  const sinceMs = owner?.status?.guard === guard ? owner.status.sinceMs : nowMs;
  // The labels that pods got are removed, whatever the owner asks for now.
  const isWithdrawn = guard === "labels-withdrawn";
  const label = (isWithdrawn ? owner?.status?.label : undefined) ?? owner?.label?.key ?? owner?.status?.label;
  const annotations = { [skipStatus.key]: formatStatus({ guard, message, label, sinceMs }) };
  return patchOwner(attempt, "tell", { annotations });
}

export async function carryOut(attempt: OwnerAttempt, step: OwnerStep): Promise<WriteResult> {
  const became = await write(attempt, step);
  if (became === "done") await recordEvents(attempt);
  return became;
}

function write(attempt: OwnerAttempt, step: OwnerStep): Promise<WriteResult> {
  const { finalizers = [] } = attempt.observed.object?.metadata ?? {};
  switch (step.kind) {
    case "add-finalizer":
      return patchOwner(attempt, step.kind, { finalizers: [...finalizers, releaseFinalizer] });
    case "remove-finalizer":
      return patchOwner(attempt, step.kind, { finalizers: finalizers.filter((one) => one !== releaseFinalizer) });
    case "remove-status":
      return patchOwner(attempt, step.kind, { annotations: { [skipStatus.key]: null } });
    case "label":
      return patchPods(attempt, step.kind, step.members, (member) => labelled(attempt.context, step.label, member));
    case "unlabel":
      return patchPods(attempt, step.kind, step.members, ({ ourKey }) => ({
        ...(ourKey === undefined ? {} : { labels: { [ourKey]: null } }),
        annotations: { [skipLabelledAt.key]: null },
      }));
  }
}

/**
 * Keeps an existing label that serves, and writes only the time. The pod itself records which label Sluice added, and Sluice
 * removes only that label.
 */
function labelled({ cluster }: Context, { key, value = anyValue }: SkipLabel, { hasLabel }: ReleasedPod): object {
  const stamp = { atMs: cluster.serverTimeMs(), key: hasLabel ? undefined : key };
  const annotations = { [skipLabelledAt.key]: formatStamp(stamp) };
  return hasLabel ? { annotations } : { labels: { [key]: value }, annotations };
}

type OwnerChange = Pick<Metadata, "finalizers"> | { readonly annotations: Readonly<Record<string, string | null>> };

/** A merge patch under uid and resourceVersion: it creates nothing that is gone, and overwrites nothing that has changed. */
async function patchOwner(attempt: OwnerAttempt, action: string, change: OwnerChange): Promise<WriteResult> {
  const { context, key, observed, verdict, notAfterMs } = attempt;
  // No write is decided for an owner that is gone.
  if (observed.object === undefined) return "changed";
  const { uid, resourceVersion } = observed.object.metadata;
  const body = { metadata: { uid, resourceVersion, ...change } };
  return reportWrite(
    context,
    { key, function: name, action, object: key.name, reason: verdict.message },
    () => context.cluster.patch(key.resource, key, body, { notAfterMs }),
    async (error) => {
      const message = `${observed.snapshot.owner?.shown} cannot be written: ${describeRefusal(error)}`;
      context.reporter.problem(key, name, message, error);
      await recordOwnerEvent(attempt, {
        type: "Warning",
        reason: eventReasons.skipWaiting,
        message: `owner-refused: ${message}`,
      });
    },
  );
}

/**
 * Writes all of them, some at a time. When all were tried, it throws the first error that shows that the API server was not
 * reached.
 */
async function patchPods(
  attempt: OwnerAttempt,
  action: string,
  members: readonly ReleasedPod[],
  changeOf: (member: ReleasedPod) => object,
): Promise<WriteResult> {
  const results = await mapLimit(members, labelsAtOnce, (member) =>
    patchPod(attempt, action, member, changeOf(member)),
  );
  // A refusal is remembered, and the next observation has it.
  return results.includes("done") ? "done" : "changed";
}

async function patchPod(
  attempt: OwnerAttempt,
  action: string,
  member: ReleasedPod,
  change: object,
): Promise<WriteResult> {
  const { context, key, verdict, notAfterMs } = attempt;
  const { cluster } = context;
  const { name: pod, uid, resourceVersion } = member;
  const { refusals } = context.memoryOf(key);
  const body = { metadata: { uid, resourceVersion, ...change } };
  return reportWrite(
    context,
    { key, function: name, action, object: pod, reason: verdict.message },
    async () => {
      await cluster.patch("pods", { namespace: key.namespace, name: pod }, body, { notAfterMs });
      refusals.delete(uid);
    },
    (error) => {
      refusals.set(uid, { uid, pod, message: describeRefusal(error), stampMs: cluster.serverTimeMs() });
    },
  );
}

/** Without an identity of its own the Event is identified by its reason and its message. */
type OwnerEvent = Omit<NewEvent, "about" | "identity"> & Partial<Pick<NewEvent, "identity">>;

/**
 * Sends an Event about the owner, once. In a namespace that is being deleted the API server accepts none, and the status and
 * the log report it instead.
 */
async function recordOwnerEvent({ context, key, observed }: OwnerAttempt, event: OwnerEvent): Promise<void> {
  const { object, snapshot } = observed;
  if (object === undefined || snapshot.isNamespaceEnding) return;
  const { uid } = object.metadata;
  const about = { ...key, kind: kindOf(key.resource, object), uid };
  const identity = `${uid} ${event.reason} ${event.message}`;
  await recordOnce(context, name, key, { about, identity, ...event });
}

const reasons: Readonly<Record<string, Pick<OwnerEvent, "type" | "reason">>> = {
  labelling: { type: "Normal", reason: eventReasons.skipLabelled },
  "labels-withdrawn": { type: "Normal", reason: eventReasons.skipWithdrawn },
  "marker-unseen": { type: "Normal", reason: eventReasons.skipWaiting },
  "label-refused": { type: "Warning", reason: eventReasons.skipWaiting },
  "label-taken": { type: "Warning", reason: eventReasons.skipWaiting },
  "skip-label-malformed": { type: "Warning", reason: eventReasons.malformed },
  "deadline-passed": { type: "Warning", reason: eventReasons.skipDeadlinePassed },
  released: { type: "Normal", reason: eventReasons.stopHooksReleased },
};

/** Sends the Events of an attempt: its verdict, values that do not parse, and pods that no label reaches any more. */
async function recordEvents(attempt: OwnerAttempt): Promise<void> {
  const { verdict, observed } = attempt;
  const { snapshot, malformed } = observed;
  const how = reasons[verdict.guard];
  if (how !== undefined) await recordOwnerEvent(attempt, { ...how, message: `${verdict.guard}: ${verdict.message}` });
  for (const { message, misplaced } of malformed) {
    const reason = misplaced === undefined ? eventReasons.malformed : eventReasons.misplaced;
    await recordOwnerEvent(attempt, { type: "Warning", reason, message });
  }
  if (snapshot.owner?.deletedMs === undefined) return;
  const { label } = snapshot.owner;
  for (const { name: pod, uid, isTerminating, hasLabel, mayRun } of snapshot.members) {
    // Kubelet shows a terminating pod no new label.
    if (!isTerminating || hasLabel || !mayRun) continue;
    const message = `${pod} was terminating before it had the label${label === undefined ? "" : ` ${labelText(label)}`}: no label reaches its stop hook any more, which ends with its grace period, or by a marker that a user writes in the container`;
    const identity = `unreachable ${uid}`;
    await recordOwnerEvent(attempt, { type: "Warning", reason: eventReasons.markerUnreachable, message, identity });
  }
}
