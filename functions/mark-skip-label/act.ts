/** What is done to an owner and to its pods: each write is conditional on the uid and the revision that was decided on. */

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
import { type ObjectAttempt, reportWrite, sayRefusal, type WriteResult } from "../shared/reconcile/reconcile-object.ts";
import { labelText, type OwnerStep, type OwnerVerdict, type ReleasedPod } from "./decide.ts";
import { kindOf, name, type OwnerObservation } from "./observe.ts";

/** One look at an owner, and what was decided on it. */
export type OwnerAttempt = ObjectAttempt<OwnerObservation, OwnerVerdict>;

/** So many pods get their label at one time. */
const labelsAtOnce = 32;

/** What is told is told before anything is done: a release after the deadline has been said aloud (invariant M1). */
export async function announce(looked: OwnerAttempt): Promise<WriteResult | "told"> {
  const { step, isTold, guard } = looked.verdict;
  const told = isTold ? await tell(looked) : "told";
  // The process that wrote the status may have ended before it sent its Events.
  const isDue = told === "told" && (step === undefined || guard === "deadline-passed");
  if (told === "done" || isDue) await recordEvents(looked);
  return told;
}

/** Writes the guard and the sentence to the owner where they are not there yet. Throws ClusterError. */
async function tell(looked: OwnerAttempt): Promise<WriteResult | "told"> {
  const { context, observed, verdict } = looked;
  const { owner } = observed.snapshot;
  const { guard, sentence } = verdict;
  if (owner?.status?.guard === guard && owner.status.sentence === sentence) return "told";
  const nowMs = context.cluster.serverTimeMs();
  const sinceMs = owner?.status?.guard === guard ? owner.status.sinceMs : nowMs;
  // What is taken back is what pods got, whatever is asked for by now.
  const isWithdrawn = guard === "labels-withdrawn";
  const label = (isWithdrawn ? owner?.status?.label : undefined) ?? owner?.label?.key ?? owner?.status?.label;
  const annotations = { [skipStatus.key]: formatStatus({ guard, sentence, label, sinceMs }) };
  return patchOwner(looked, "tell", { annotations });
}

export async function carryOut(looked: OwnerAttempt, step: OwnerStep): Promise<WriteResult> {
  const became = await write(looked, step);
  if (became === "done") await recordEvents(looked);
  return became;
}

function write(looked: OwnerAttempt, step: OwnerStep): Promise<WriteResult> {
  const { finalizers = [] } = looked.observed.object?.metadata ?? {};
  switch (step.kind) {
    case "add-finalizer":
      return patchOwner(looked, step.kind, { finalizers: [...finalizers, releaseFinalizer] });
    case "remove-finalizer":
      return patchOwner(looked, step.kind, { finalizers: finalizers.filter((one) => one !== releaseFinalizer) });
    case "remove-status":
      return patchOwner(looked, step.kind, { annotations: { [skipStatus.key]: null } });
    case "label":
      return patchPods(looked, step.kind, step.members, (member) => labelled(looked.context, step.label, member));
    case "unlabel":
      return patchPods(looked, step.kind, step.members, ({ ourKey }) => ({
        ...(ourKey === undefined ? {} : { labels: { [ourKey]: null } }),
        annotations: { [skipLabelledAt.key]: null },
      }));
  }
}

/** A label that does is left as it is, and only timed. The pod itself says which label we added: that alone goes again. */
function labelled({ cluster }: Context, { key, value = anyValue }: SkipLabel, { hasLabel }: ReleasedPod): object {
  const stamp = { atMs: cluster.serverTimeMs(), key: hasLabel ? undefined : key };
  const annotations = { [skipLabelledAt.key]: formatStamp(stamp) };
  return hasLabel ? { annotations } : { labels: { [key]: value }, annotations };
}

type OwnerChange = Pick<Metadata, "finalizers"> | { readonly annotations: Readonly<Record<string, string | null>> };

/** A merge patch under uid and resourceVersion: it makes nothing that is gone, and overwrites nothing that has changed. */
async function patchOwner(looked: OwnerAttempt, action: string, change: OwnerChange): Promise<WriteResult> {
  const { context, key, observed, verdict, notAfterMs } = looked;
  // Nothing is decided to be written to an owner that is gone.
  if (observed.object === undefined) return "changed";
  const { uid, resourceVersion } = observed.object.metadata;
  const body = { metadata: { uid, resourceVersion, ...change } };
  return reportWrite(
    context,
    { key, function: name, action, object: key.name, reason: verdict.sentence },
    () => context.cluster.patch(key.resource, key, body, { notAfterMs }),
    async (error) => {
      const sentence = `${observed.snapshot.owner?.shown} cannot be written: ${sayRefusal(error)}`;
      context.reporter.problem(key, name, sentence, error);
      await say(looked, { type: "Warning", reason: eventReasons.skipWaiting, message: `owner-refused: ${sentence}` });
    },
  );
}

/** All of them, some at a time; throws when all were tried: the first error that says that the API server was not there. */
async function patchPods(
  looked: OwnerAttempt,
  action: string,
  members: readonly ReleasedPod[],
  changeOf: (member: ReleasedPod) => object,
): Promise<WriteResult> {
  const results = await mapLimit(members, labelsAtOnce, (member) => patchPod(looked, action, member, changeOf(member)));
  // What was refused is remembered, and the next look says so.
  return results.includes("done") ? "done" : "changed";
}

async function patchPod(
  looked: OwnerAttempt,
  action: string,
  member: ReleasedPod,
  change: object,
): Promise<WriteResult> {
  const { context, key, verdict, notAfterMs } = looked;
  const { cluster } = context;
  const { name: pod, uid, resourceVersion } = member;
  const { refusals } = context.memoryOf(key);
  const body = { metadata: { uid, resourceVersion, ...change } };
  return reportWrite(
    context,
    { key, function: name, action, object: pod, reason: verdict.sentence },
    async () => {
      await cluster.patch("pods", { namespace: key.namespace, name: pod }, body, { notAfterMs });
      refusals.delete(uid);
    },
    (error) => {
      refusals.set(uid, { uid, pod, sentence: sayRefusal(error), stampMs: cluster.serverTimeMs() });
    },
  );
}

/** Without an identity of its own it is one and the same by its reason and its message. */
type OwnerEvent = Omit<NewEvent, "about" | "identity"> & Partial<Pick<NewEvent, "identity">>;

/**
 * Sends an Event about the owner, once. In a namespace that is being deleted the API server takes none: there the status says it,
 * and the log.
 */
async function say({ context, key, observed }: OwnerAttempt, event: OwnerEvent): Promise<void> {
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

/** The Events of a look: its verdict, values that do not parse, and pods that no label reaches any more. */
async function recordEvents(looked: OwnerAttempt): Promise<void> {
  const { verdict, observed } = looked;
  const { snapshot, malformed } = observed;
  const how = reasons[verdict.guard];
  if (how !== undefined) await say(looked, { ...how, message: `${verdict.guard}: ${verdict.sentence}` });
  for (const { sentence } of malformed)
    await say(looked, { type: "Warning", reason: eventReasons.malformed, message: sentence });
  if (snapshot.owner?.deletedMs === undefined) return;
  const { label } = snapshot.owner;
  for (const { name: pod, uid, isTerminating, hasLabel, mayRun } of snapshot.members) {
    // Kubelet shows a terminating pod no new label.
    if (!isTerminating || hasLabel || !mayRun) continue;
    const message = `${pod} was terminating before it had the label${label === undefined ? "" : ` ${labelText(label)}`}: no label reaches its stop hook any more, which ends with its grace period, or by a marker that a user writes in the container`;
    const identity = `unreachable ${uid}`;
    await say(looked, { type: "Warning", reason: eventReasons.markerUnreachable, message, identity });
  }
}
