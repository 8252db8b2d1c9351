/** What is done in a fence: each step is one write, on condition that its object is as it was read. */

import * as keys from "../shared/annotations/fencing.ts";
import { recordName } from "../shared/annotations/fencing-leases.ts";
import { agentPeersProposed, formatPeers } from "../shared/annotations/fencing-peers.ts";
import type { Context } from "../shared/contract/context.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import { recordOnce } from "../shared/events/recorder.ts";
import { markOf } from "../shared/fencing/mark.ts";
import type { NodeObject } from "../shared/kubernetes/cluster.ts";
import { describeRefusal, reportWrite, type WriteResult } from "../shared/reconcile/reconcile-object.ts";
import { arm, patchAgent } from "./agent-writes.ts";
import { textsOfDeletion, writeNode } from "./deletion.ts";
import { carryOutInLedger, isAboutLedger } from "./ledger-writes.ts";
import type { LedgerStep } from "./ledgers-seen.ts";
import { type FenceAttempt, fencingNamespace, name } from "./observe.ts";
import { beginningTexts, isOurOutOfService, outOfServiceValue, recordBody } from "./record.ts";
import { writeSlots } from "./slots.ts";
import type { AgentSeen, FenceStep, RecordSeen } from "./snapshot.ts";

type Taints = NonNullable<NonNullable<NodeObject["spec"]>["taints"]>;
/** By key; null removes an annotation. */
type FenceTexts = Readonly<Record<string, string | null>>;

/** Sends the write of one step. Throws ClusterError where trying again later can help. */
export async function carryOut(attempt: FenceAttempt, step: FenceStep): Promise<WriteResult> {
  if (isAboutLedger(step)) return carryOutInLedger(attempt, step);
  const { context, key, verdict } = attempt;
  const result = await reportWrite(
    context,
    { key, function: name, action: step.kind, object: key.name, reason: verdict.message },
    () => write(attempt, step),
    (error) => {
      const message = `${step.kind} of the fence of ${key.name} is refused: ${describeRefusal(error)}`;
      context.reporter.problem(key, name, message, error);
    },
  );
  if (result === "done" && step.kind === "enter" && step.phase === "stopped") reportEvidence(context, step);
  return result;
}

/** Of two processes one alone makes that write. A phase that is entered without evidence is an earlier one that goes on. */
function reportEvidence(
  { cluster, reporter }: Context,
  { record, evidence }: Extract<FenceStep, { readonly kind: "enter" }>,
): void {
  if (evidence === undefined) return;
  const seconds = record.phase === "armed" ? (cluster.serverTimeMs() - record.sinceMs) / 1_000 : undefined;
  reporter.evidence({ evidence, seconds });
}

async function write(attempt: FenceAttempt, step: Exclude<FenceStep, LedgerStep>): Promise<unknown> {
  const { context, key, observed } = attempt;
  switch (step.kind) {
    case "claim": {
      const { newFenceId, nowMs } = observed.snapshot;
      const body = recordBody(key.name, step.node, newFenceId, nowMs);
      return context.cluster.create("leases", fencingNamespace(context), body);
    }
    case "taint":
      return patchNode(attempt, shownTexts(step.record.fenceId, step.record.phase, undefined), (taints) => [
        ...taints.filter(isNotOurs),
        keys.fenceTaint,
      ]);
    case "note-agent":
      return patchRecord(attempt, step.record, { [keys.recordAgent.key]: notedAgent(step.agent) });
    case "arm":
      return arm(attempt, step);
    case "enter":
      return patchRecord(attempt, step.record, entering(context, step));
    case "note-hold":
      return patchRecord(attempt, step.record, { [keys.fenceHold.key]: step.hold ?? null });
    case "note-settling":
      return patchRecord(attempt, step.record, { [keys.recordSettling.key]: now(context, step.record.sinceMs) });
    case "show":
      return patchNode(attempt, shownTexts(step.shown.fenceId, step.shown.phase, step.shown.hold));
    case "set-out-of-service":
      return patchNode(attempt, {}, (taints) => [
        ...taints,
        { ...keys.outOfServiceTaint, value: outOfServiceValue(step.fenceId) },
      ]);
    case "remove-out-of-service":
      return patchNode(attempt, {}, (taints) => taints.filter((one) => !isOurOutOfService(one)));
    case "empty-node":
      return patchNode(attempt, {}, (taints) => [...taints.filter(isNotOurs), keys.fenceTaint, keys.emptyingTaint]);
    case "fence-again": {
      const { newFenceId, nowMs } = observed.snapshot;
      // The evidence stays: it shows that the fence began again.
      const before = { [keys.fenceHold.key]: null, [keys.recordAgent.key]: null };
      return patchRecord(attempt, step.record, { ...before, ...beginningTexts(step.node, newFenceId, nowMs) });
    }
    case "take-slot":
    case "release-slot":
    case "note-storm":
      return writeSlots(attempt, fencingNamespace(context), step);
    case "delete-node":
    case "restore-node":
    case "complete-node":
      return writeNode(context.cluster, key, step, attempt.notAfterMs);
    case "clean-node":
      return cleanNode(attempt, step.keepsMark);
    case "unmark-machine": {
      const { resource, namespace, name: machine, uid, resourceVersion } = step.machine;
      const body = { metadata: { uid, resourceVersion, annotations: { [markOf(context).key]: null } } };
      return context.cluster.patch(resource, { namespace, name: machine }, body, { notAfterMs: attempt.notAfterMs });
    }
    case "disarm":
      return patchAgent(attempt, step.agent, { [keys.fenceArmed.key]: null });
    case "propose":
      return patchAgent(attempt, step.agent, { [agentPeersProposed.key]: formatPeers(step.peers) });
    case "end": {
      const { uid, resourceVersion } = step.record;
      return context.cluster.delete("leases", leaseKey(context, recordName(key.name)), { uid, resourceVersion });
    }
  }
}

/** The phase, since when, and what was waited for before it goes. Evidence that was taken back goes as well. */
function entering({ cluster }: Context, step: Extract<FenceStep, { readonly kind: "enter" }>): FenceTexts {
  const { phase, evidence } = step;
  return {
    [keys.fencePhase.key]: phase,
    [keys.recordSince.key]: now({ cluster }),
    ...textsOfDeletion(step),
    ...(evidence === undefined ? {} : { [keys.recordEvidence.key]: evidence }),
    ...(phase === "armed" ? { [keys.recordEvidence.key]: null } : {}),
  };
}

/** By the API server's clock, and no earlier than it was: a clock may be set back. */
const now = ({ cluster }: Pick<Context, "cluster">, leastMs = 0): string =>
  new Date(Math.max(leastMs, cluster.serverTimeMs())).toISOString();

function notedAgent({
  uid,
  resourceVersion,
  mode = "disarmed",
  bootId,
  permitMs,
  watchdogMs,
  peers,
}: AgentSeen): string {
  return keys.formatNotedAgent({ uid, resourceVersion, mode, bootId, permitMs, watchdogMs, peers });
}

function shownTexts(fenceId: string | undefined, phase: string | undefined, hold: string | undefined): FenceTexts {
  return {
    [keys.fenceId.key]: fenceId ?? null,
    [keys.fencePhase.key]: phase ?? null,
    [keys.fenceHold.key]: hold ?? null,
  };
}

const isNotOurs = ({ key }: Taints[number]): boolean => key !== keys.fenceTaint.key;

/** One write takes away everything of ours: taints, texts, and the mark of a fence that has ended. */
function cleanNode(attempt: FenceAttempt, keepsMark: boolean): Promise<unknown> {
  const texts = {
    ...shownTexts(undefined, undefined, undefined),
    [keys.fenceConfirmed.key]: null,
    ...(keepsMark ? {} : { [markOf(attempt.context).key]: null }),
  };
  return patchNode(attempt, texts, (taints) => taints.filter((one) => isNotOurs(one) && !isOurOutOfService(one)));
}

/** A list is replaced as a whole: a write of another client since the read is a 409, and its taints stay. */
function patchNode(
  { context, key, observed, notAfterMs }: FenceAttempt,
  annotations: FenceTexts,
  change?: (taints: Taints) => Taints,
): Promise<unknown> {
  const { metadata, spec } = observed.object ?? {};
  if (metadata === undefined) throw new Error(`a step about the Node ${key.name} was decided on without one`);
  const { uid, resourceVersion } = metadata;
  const taints = change === undefined ? {} : { spec: { taints: change(spec?.taints ?? []) } };
  const body = { metadata: { uid, resourceVersion, annotations }, ...taints };
  return context.cluster.patch("nodes", key, body, { notAfterMs });
}

const leaseKey = (context: Context, lease: string) => ({ namespace: fencingNamespace(context), name: lease });

function patchRecord(
  { context, key, notAfterMs }: FenceAttempt,
  { uid, resourceVersion }: RecordSeen,
  annotations: FenceTexts,
): Promise<unknown> {
  const body = { metadata: { uid, resourceVersion, annotations } };
  return context.cluster.patch("leases", leaseKey(context, recordName(key.name)), body, { notAfterMs });
}

const reasons: Readonly<Record<string, { readonly type: "Normal" | "Warning"; readonly reason: string }>> = {
  armed: { type: "Normal", reason: eventReasons.fenceArmed },
  stopped: { type: "Normal", reason: eventReasons.fenceStopped },
  evacuating: { type: "Normal", reason: eventReasons.fenceEvacuating },
  deleting: { type: "Normal", reason: eventReasons.nodeDeleted },
  restored: { type: "Normal", reason: eventReasons.nodeRestored },
  stuck: { type: "Warning", reason: eventReasons.fenceStuck },
  "never-fenced": { type: "Warning", reason: eventReasons.fenceRefused },
  "machine-unclear": { type: "Warning", reason: eventReasons.fenceRefused },
  "name-reserved": { type: "Warning", reason: eventReasons.fenceRefused },
  "name-too-long": { type: "Warning", reason: eventReasons.fenceRefused },
  "record-unreadable": { type: "Warning", reason: eventReasons.fenceWaiting },
};

/** Sends an Event about the Node, once for each fence and cause. Without a Node there is nothing to send it about. */
export async function recordVerdict(attempt: FenceAttempt): Promise<"told"> {
  const { verdict, observed } = attempt;
  const { record, node } = observed.snapshot;
  const { guard, message, hold, step } = verdict;
  const waits = hold === undefined ? undefined : ({ type: "Warning", reason: eventReasons.fenceWaiting } as const);
  const ended = step?.kind === "end" ? ({ type: "Normal", reason: eventReasons.fenceDone } as const) : undefined;
  const how = ended ?? reasons[guard] ?? waits;
  const fenceId = record === undefined || record === "unreadable" ? "" : record.fenceId;
  // The record is there by now: of several processes that claim the node, one has made it, and each knows the id of the fence.
  if (typeof record === "object" && record.phase === "claimed")
    await recordNodeEvent(
      attempt,
      { type: "Normal", reason: eventReasons.fenceRequested },
      `a fence of ${attempt.key.name} begins: ${node?.mark ?? "its mark is gone"}`,
      `${fenceId} ${eventReasons.fenceRequested}`,
    );
  if (how !== undefined)
    await recordNodeEvent(attempt, how, `${guard}: ${message}`, `${fenceId} ${how.reason} ${guard}`);
  for (const passed of observed.snapshot.ledgers?.passed ?? [])
    await recordNodeEvent(
      attempt,
      { type: "Warning", reason: eventReasons.fenceUnannounced },
      passed,
      `${fenceId} ${passed}`,
    );
  for (const { message: wrong } of observed.malformed) {
    await recordNodeEvent(attempt, { type: "Warning", reason: eventReasons.malformed }, wrong, wrong);
  }
  return "told";
}

async function recordNodeEvent(
  { context, key, observed }: FenceAttempt,
  how: { readonly type: "Normal" | "Warning"; readonly reason: string },
  message: string,
  identity: string,
): Promise<void> {
  const { object } = observed;
  if (object === undefined) return;
  const about = { resource: "nodes", namespace: "", name: key.name, uid: object.metadata.uid } as const;
  await recordOnce(context, name, key, { about, ...how, message, identity: `${object.metadata.uid} ${identity}` });
}
