/** Reconciles one key by a function for the queue. It times and counts the reconcile, and reports a missing right. */

import { messageOf } from "../../functions/shared/base/error-message.ts";
import { listStatefulSets } from "../../functions/shared/cache/listing.ts";
import type { Context } from "../../functions/shared/contract/context.ts";
import type { FunctionDefinition, ReconcileResult } from "../../functions/shared/contract/definition.ts";
import { isGroup, type Key } from "../../functions/shared/contract/keys.ts";
import type { StandBy } from "../../functions/shared/contract/stand-by.ts";
import type { NewEvent } from "../../functions/shared/events/event.ts";
import { eventReasons } from "../../functions/shared/events/reasons.ts";
import { isNewEvent, isNewIn, recordEvent, tryCreateEvent } from "../../functions/shared/events/recorder.ts";
import {
  apiMessage,
  ClusterError,
  hasCode,
  isRightMissing,
  lackOf,
} from "../../functions/shared/kubernetes/cluster.ts";
import { ledgerName } from "../../functions/shared/ledger/lease-name.ts";
import { reportVerdict } from "../../functions/shared/reconcile/record.ts";
import { type GroupKey, groupPathOf } from "../../functions/shared/workloads/statefulsets.ts";
import type { Reporting } from "../telemetry/logs-and-metrics.ts";
import type { Trigger } from "./queue.ts";

/** A function with the context that its reconciles share. */
export interface ServedFunction {
  readonly definition: FunctionDefinition;
  readonly context: Context;
}

/** A right is not given within seconds: this long until the next try, in milliseconds. */
const rightMissingBackoffMs = 30_000;

/** The guard of each {@link StandBy}. */
const otherOperatorGuard = "other-operator";

/** The shortest useful wait after an error, in milliseconds. */
export function leastBackoffMs(error: unknown): number {
  if (hasCode(error, 403)) return rightMissingBackoffMs;
  return error instanceof ClusterError ? (error.retryAfterMs ?? 0) : 0;
}

/** Reconciles a key. Throws what the function throws. */
export async function runReconcile(
  { definition, context }: ServedFunction,
  reporting: Pick<Reporting, "reconciled" | "forget">,
  key: Key,
  trigger: Trigger,
): Promise<ReconcileResult> {
  const startedMs = context.cluster.monotonicMs();
  const ended = (failure?: unknown) => {
    if (!definition.isReconcile || !isGroup(key)) return;
    reporting.reconciled(key, (context.cluster.monotonicMs() - startedMs) / 1000, failure);
  };
  try {
    const stands = await standByFor({ definition, context }, namespaceOf(key));
    if (stands !== undefined) return await waitBesideOperator({ definition, context }, key, stands);
    const outcome = await definition.reconcile(context, key, trigger);
    endWaitBesideOperator({ definition, context }, key);
    ended(outcome.failure);
    if (outcome.isGone && isGroup(key)) reporting.forget(key);
    return outcome;
  } catch (error) {
    ended(error);
    if (isRightMissing(error)) await recordRightMissing({ definition, context }, key, error);
    throw error;
  }
}

/**
 * Why a function may do nothing in a namespace for now, neither in reconciles nor in sweeps; undefined if it may. "": the wait
 * of any served namespace. Never rejects.
 */
export async function standByFor(
  { definition, context: { otherOperator } }: ServedFunction,
  namespace: string,
): Promise<StandBy | undefined> {
  return definition.standsBy === false ? undefined : otherOperator?.standBy(namespace);
}

/** The namespace of a key, or "" for a cluster-scoped object. */
function namespaceOf(key: Key): string {
  return !isGroup(key) && key.resource === "namespaces" ? key.name : key.namespace;
}

/** Reports the wait. The ledger keeps no record of it, because rollout-operator acts meanwhile. */
async function waitBesideOperator(
  { definition, context }: ServedFunction,
  key: Key,
  stands: StandBy,
): Promise<ReconcileResult> {
  reportVerdict(context, definition.name, key, stands);
  if (isGroup(key) && stands.identity !== undefined) await recordStandBy({ definition, context }, key, stands);
  return { requeueAfterMs: stands.requeueAfterMs, pendingActs: undefined };
}

/** A function without work reports nothing, because metrics would show for ever that it waits for rollout-operator. */
function endWaitBesideOperator({ definition, context }: ServedFunction, key: Key): void {
  if (context.memoryOf(key).waiting?.guard !== otherOperatorGuard) return;
  const message = "rollout-operator is gone, and there is nothing to do";
  reportVerdict(context, definition.name, key, { guard: "done", zone: "", message });
}

/** Sends an Event about the group, once for all functions of this process. Resolves, never rejects. */
async function recordStandBy(
  { definition, context }: ServedFunction,
  key: GroupKey,
  { guard, message, identity = "" }: StandBy,
): Promise<void> {
  const { sentEvents } = context.otherOperator ?? { sentEvents: new Set<string>() };
  const what = `${groupPathOf(key)} ${identity}`;
  if (!isNewIn(sentEvents, what)) return;
  const text = { type: "Warning", reason: eventReasons.standingBy, message: `${guard}: ${message}` } as const;
  const about = await objectToBlame(context, key);
  const isSent = await tryCreateEvent(context, definition.name, key, { about, ...text, identity });
  if (!isSent) sentEvents.delete(what);
}

/** The message for operators about a run that failed. */
export function failureMessage(error: unknown, retryMs: number | undefined): string {
  const next = retryMs === undefined ? "not tried again before the end" : `tried again in ${Math.ceil(retryMs)} ms`;
  return `${causeOf(error)}; ${next}`;
}

/** The error; a missing right is named first. */
export function causeOf(error: unknown): string {
  if (isRightMissing(error)) return lackOf(error);
  return error instanceof ClusterError ? apiMessage(error) : messageOf(error);
}

/** Sends an Event, once while the same right is missing. Resolves, never rejects. */
async function recordRightMissing(
  { definition, context }: ServedFunction,
  key: Key,
  error: ClusterError,
): Promise<void> {
  if (context.mode === "shadow") return;
  const identity = `right ${error.verb} ${error.resource}`;
  if (!isNewEvent(context, key, identity)) return;
  await recordEvent(context, definition.name, key, {
    about: await objectToBlame(context, key),
    type: "Warning",
    reason: eventReasons.forbidden,
    message: lackOf(error),
    identity,
  });
}

/** A StatefulSet of the group, because users read its Events; the ledger if no StatefulSet can be read. */
async function objectToBlame(context: Context, key: Key): Promise<NewEvent["about"]> {
  if (!isGroup(key)) return { ...key, uid: "" };
  const ledger = { resource: "leases", namespace: key.namespace, name: ledgerName(key.group), uid: "" } as const;
  try {
    const { statefulSets: all } = await listStatefulSets(context.cluster, key.namespace);
    const first = all.find(({ group }) => group === key.group);
    return first === undefined ? ledger : { resource: "statefulsets", ...first };
  } catch {
    return ledger;
  }
}
