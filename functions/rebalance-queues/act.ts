/** One reconcile: it writes down what is known, claims a rebalance, asks for it, and writes down its end. */

import {
  formatRebalanceState,
  queueRebalanceNeededAt,
  type RebalanceState,
  rebalanceState,
} from "../shared/annotations/rebalancing.ts";
import { read } from "../shared/annotations/table.ts";
import { valuesOf } from "../shared/base/settings.ts";
import type { Context } from "../shared/contract/context.ts";
import type { ReconcileResult } from "../shared/contract/definition.ts";
import type { ObjectRef } from "../shared/contract/keys.ts";
import type { GroupMemory } from "../shared/contract/memory.ts";
import { contendedRequeueMs, type Wait, wait } from "../shared/contract/verdict.ts";
import type { NewEvent } from "../shared/events/event.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import { recordOnce } from "../shared/events/recorder.ts";
import {
  apiMessage,
  ClusterError,
  hasCode,
  isRightMissing,
  isTransient,
  type StatefulSetObject,
} from "../shared/kubernetes/cluster.ts";
import { maxConflicts } from "../shared/ledger/reservation.ts";
import { reportVerdict, warnOfMalformed } from "../shared/reconcile/record.ts";
import { askedGroupOf, groupKeyOf } from "../shared/workloads/group-key.ts";
import { ask } from "./ask.ts";
import { decide, failure, pauseMs, type Rebalance, type RebalanceStep } from "./decide.ts";
import { isOfOperator, name, observe, type QueueObservation, settings } from "./observe.ts";

const nothing: ReconcileResult = { requeueAfterMs: undefined, pendingActs: undefined };
/** Longer than for other refusals: only the time between two rebalances waits for it. */
const stateRefusedMs = 60_000;

/** In shadow mode nothing is written: what would be is remembered by the process. */
const unwritten = new WeakMap<GroupMemory, RebalanceState>();

/** Guards that end by themselves, or that other objects show: no Event reports them. */
const quietGuards: ReadonlySet<string> = new Set([
  "pods-not-ready",
  "settling",
  "rollout-under-way",
  "rebalance-under-way",
  "operator-first",
  "state-contended",
]);

/** Throws ClusterError where trying again can help. */
export async function reconcile(context: Context, key: ObjectRef): Promise<ReconcileResult> {
  const first = await observe(context, key);
  if (first === undefined) return nothing;
  const { statefulSet, malformed } = first;
  warnOfMalformed(context, name, key, groupKeyOf(statefulSet), statefulSet, malformed);
  let seen = remembered(context, key, first);
  let step = decideNow(context, seen);
  if (step.kind === "note") {
    const written = await write(context, key, seen.object, step.state);
    if ("guard" in written) return reportStep(context, key, seen, written);
    seen = { ...seen, object: written, snapshot: { ...seen.snapshot, state: step.state } };
    step = decideNow(context, seen);
  }
  if (step.kind === "rebalance") return rebalance(context, key, seen, step);
  // What was noted a moment ago is what there is.
  return step.kind === "note"
    ? { requeueAfterMs: contendedRequeueMs, pendingActs: undefined }
    : reportStep(context, key, seen, step);
}

function decideNow(context: Context, { snapshot }: QueueObservation): RebalanceStep {
  const { rebalanceAfterMs } = valuesOf(settings, context.settings);
  return decide({ ...snapshot, settleMs: rebalanceAfterMs });
}

/** What a shadow would have written counts for it. */
function remembered(context: Context, key: ObjectRef, seen: QueueObservation): QueueObservation {
  const state = context.mode === "shadow" ? unwritten.get(context.memoryOf(key)) : undefined;
  return state === undefined ? seen : { ...seen, snapshot: { ...seen.snapshot, state } };
}

/** Claims it, asks one node, and writes down what that said. */
async function rebalance(
  context: Context,
  key: ObjectRef,
  seen: QueueObservation,
  step: Rebalance,
): Promise<ReconcileResult> {
  const { statefulSet, snapshot } = seen;
  const { endpoint, nodes } = snapshot;
  const { namespace, name: zone } = statefulSet;
  if ("kind" in endpoint || typeof nodes === "string") return nothing;
  const { pod, state, because } = step;
  const claimed = await write(context, key, seen.object, state);
  if ("guard" in claimed) return reportStep(context, key, seen, claimed);
  const well = { balanced: nodes.digest, balancedMs: state.claimedMs, failed: undefined };
  const message = `${pod} was told to spread the queue leaders of ${zone} over ${nodes.pods.length} nodes: ${because}`;
  if (context.mode === "shadow") {
    unwritten.set(context.memoryOf(key), { ...state, ...well, claimedMs: undefined });
    const wouldTake = [{ action: "rebalance", object: pod }];
    reportVerdict(context, name, key, { guard: "rebalanced", zone, message, wouldTake });
    return nothing;
  }
  const refusal = await ask(context, { namespace, group: askedGroupOf(statefulSet), pod, endpoint });
  const times = (state.failed?.times ?? 0) + 1;
  const failed = refusal && { ...refusal, times, lastMs: context.cluster.serverTimeMs() };
  const { balanced, balancedMs } = state;
  const how = failed === undefined ? well : { balanced, balancedMs, failed };
  await end(context, key, { seen, claimed, state, end: how });
  const result = refusal === undefined ? "done" : refusal.guard === "rebalance-refused" ? "refused" : "failed";
  const reason = refusal?.why ?? because;
  context.reporter.act({ key, function: name, action: "rebalance", object: pod, zone, result, reason });
  if (failed !== undefined) return reportStep(context, key, seen, failure(zone, failed, pauseMs(failed.times)));
  reportVerdict(context, name, key, { guard: "rebalanced", zone, message });
  const identity = `rebalanced ${state.claimedMs}`;
  await sendEvent(context, key, seen, { type: "Normal", reason: eventReasons.rebalanced, message, identity });
  return nothing;
}

/**
 * Writes the state under uid and resourceVersion, so that of several processes that would ask at one time only one does. Resolves
 * to the StatefulSet as it was written, or to what keeps it from being written.
 */
async function write(
  context: Context,
  key: ObjectRef,
  { metadata }: StatefulSetObject,
  state: RebalanceState,
  more: Readonly<Record<string, null>> = {},
): Promise<StatefulSetObject | Wait> {
  const { cluster, mode, reporter } = context;
  const { name: zone, uid, resourceVersion } = metadata;
  if (mode === "shadow") {
    unwritten.set(context.memoryOf(key), state);
    return { metadata };
  }
  const annotations = { [rebalanceState.key]: formatRebalanceState(state), ...more };
  try {
    const object = await cluster.patch("statefulsets", key, { metadata: { uid, resourceVersion, annotations } });
    context.cache.learn(object);
    return object;
  } catch (error) {
    if (!(error instanceof ClusterError) || isTransient(error) || isRightMissing(error)) throw error;
    if (hasCode(error, 404, 409)) {
      reporter.conflict(key, name);
      const message = `others change ${zone} at this moment; it is tried again in a second`;
      return wait("state-contended", message, { zone, requeueAfterMs: contendedRequeueMs });
    }
    const message = `the annotation ${rebalanceState.key} of ${zone} is refused, and without it no node is asked: ${apiMessage(error)}`;
    return wait("state-refused", message, { zone, requeueAfterMs: stateRefusedMs });
  }
}

interface EndedRebalance {
  readonly seen: QueueObservation;
  /** As the claim left it. */
  readonly claimed: StatefulSetObject;
  readonly state: RebalanceState;
  /** What is different when it is over. */
  readonly end: Pick<RebalanceState, "balanced" | "balancedMs" | "failed">;
}

/** Ends a claim that is still ours. A claim that its process does not end is over by its age, and counts as a failure. */
async function end(context: Context, key: ObjectRef, { seen, claimed, state, end }: EndedRebalance): Promise<void> {
  const { cluster, reporter } = context;
  const served = seen.object.metadata.annotations?.[queueRebalanceNeededAt.key];
  // What lies ahead was not served, and what an operator copies is copied again.
  const isServed = end.failed === undefined && !isOfOperator(claimed) && hasCome(seen);
  let [at, current] = [claimed, state];
  try {
    for (let conflicts = 0; conflicts < maxConflicts; conflicts++) {
      // What was written after the claim is yet to be served.
      const isThere = at.metadata.annotations?.[queueRebalanceNeededAt.key] === served;
      const more = isServed && isThere ? { [queueRebalanceNeededAt.key]: null } : {};
      const written = await write(context, key, at, { ...current, ...end, claimedMs: undefined }, more);
      if (!("guard" in written) || written.guard !== "state-contended") return;
      at = await cluster.get("statefulsets", key);
      // Others may have noted other nodes meanwhile.
      const found = read(rebalanceState, at.metadata);
      const isOurs = at.metadata.uid === claimed.metadata.uid && found?.claimedMs === state.claimedMs;
      if (found === undefined || !isOurs) return;
      current = found;
    }
  } catch (error) {
    const message = `the end of a rebalance of ${seen.statefulSet.name} could not be written down; it may be asked for again`;
    reporter.problem(key, name, message, error);
  }
}

/** A mark that lies ahead asks for nothing yet; one that cannot be read is for its owner to mend. */
function hasCome({ object, snapshot }: QueueObservation): boolean {
  const neededMs = read(queueRebalanceNeededAt, object.metadata);
  return neededMs !== undefined && neededMs <= snapshot.nowMs;
}

/** Reports what the function waits for, and sends an Event where that does not end by itself. */
async function reportStep(
  context: Context,
  key: ObjectRef,
  seen: QueueObservation,
  step: Exclude<RebalanceStep, Rebalance>,
): Promise<ReconcileResult> {
  const { statefulSet } = seen;
  const zone = statefulSet.name;
  if (step.kind === "note") return nothing;
  if (step.kind === "rest") {
    reportVerdict(context, name, key, { guard: "done", zone, message: step.message });
    return { requeueAfterMs: step.requeueAfterMs, pendingActs: undefined };
  }
  const { guard, message: why, requeueAfterMs } = step;
  reportVerdict(context, name, key, { guard, zone, message: why });
  const identity = `${guard} ${statefulSet.uid} ${seen.snapshot.state?.sinceMs ?? ""}`;
  if (!quietGuards.has(guard)) {
    const message = `${guard}: ${why}`;
    await sendEvent(context, key, seen, { type: "Warning", reason: eventReasons.rebalanceWaiting, message, identity });
  }
  return { requeueAfterMs, pendingActs: undefined };
}

function sendEvent(
  context: Context,
  key: ObjectRef,
  { statefulSet }: QueueObservation,
  event: Omit<NewEvent, "about">,
): Promise<void> {
  return recordOnce(context, name, key, { about: { resource: "statefulsets", ...statefulSet }, ...event });
}
