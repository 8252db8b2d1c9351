/** A fence after the evidence: the pods go elsewhere unless the machine is back, and the Node is given back. Pure. */

import { decideDeletion } from "./decide-deletion.ts";
import { hasAnotherBoot, isBack } from "./decide-evidence.ts";
import { decideReturning, decideSettling, decideWithdrawing } from "./decide-ledgers.ts";
import { decideLeftover } from "./decide-leftover.ts";
import { decideRelapse } from "./decide-relapse.ts";
import { tainting } from "./decide-stopping.ts";
import { decideUnmarking } from "./decide-unmarking.ts";
import type { FenceSnapshot, FenceVerdict, NodeSeen, RecordSeen } from "./snapshot.ts";
import { enter, namesOf, onRecord, wait } from "./verdicts.ts";

/** How often a node is reconciled whose pods are going, in milliseconds. */
const evacuatingRequeueMs = 3_000;
/** How soon a node is reconciled again that has to come back, in milliseconds: its own events come sooner. */
const awayRequeueMs = 10_000;
/** Pods and VolumeAttachments that take longer than this to go are named, in milliseconds. */
const stuckAfterMs = 300_000;

/**
 * After a new boot id nothing is deleted: the kubelet has its pods. Otherwise Kubernetes is told that they have ended, as long
 * as the evidence stands: a person may take a confirmation back, and another client its taint. That is not
 * done while its kubelet reports, because Kubernetes would detach volumes that are still mounted.
 */
export function decideStopped(snapshot: FenceSnapshot, record: RecordSeen): FenceVerdict {
  const { node, name, deletion } = snapshot;
  // Evidence by boot id outlasts what the Node shows now: another client may make it anew, while its kubelet has the pods.
  if (record.evidence === "boot-id" || isBack(node, record))
    return enter(record, "recovering", `${name} is back with another boot: its pods stay`);
  if (node === undefined) return enter(record, "evacuating", `the Node ${name} is gone: Kubernetes deletes its pods`);
  if (isTakenBack(node, record)) return enter(record, "armed", `what showed that ${name} had stopped was taken back`);
  if (hasAnotherBoot(node, record)) return enter(record, "recovering", `another machine is called ${name} now`);
  if (node.outOfService !== undefined) return enter(record, "evacuating", `Kubernetes deletes the pods of ${name}`);
  // A person who confirms knows better than the last report of a kubelet, which may be a minute old.
  if (node.isReady || (record.evidence === "time" && node.isReporting)) {
    const message = `there is evidence that ${name} has stopped (${record.evidence}), and its kubelet reports: its pods stay as long as it does`;
    return onRecord(wait("still-alive", message, evacuatingRequeueMs));
  }
  if (deletion?.isAsked) return decideDeletion(snapshot, record, node, deletion);
  // The policy takes out-of-service only under the taint of a fence, which another client may have removed (A2).
  if (!node.hasFenceTaint) return tainting(name, node, record);
  const message = `${name} gets the taint out-of-service: Kubernetes deletes its pods, and detaches their volumes`;
  const step = { kind: "set-out-of-service", node, fenceId: record.fenceId } as const;
  return { guard: "stopped", message, step, requeueAfterMs: undefined };
}

function isTakenBack({ outOfService, confirmed }: NodeSeen, { evidence, fenceId }: RecordSeen): boolean {
  if (outOfService !== undefined) return false;
  return evidence === "confirmed" ? confirmed !== fenceId : evidence === "out-of-service";
}

export function decideEvacuating(snapshot: FenceSnapshot, record: RecordSeen): FenceVerdict {
  const { node, name, bound, nowMs } = snapshot;
  const isHome = hasAnotherBoot(node, record) && node?.isReady === true;
  if (isHome || bound.length === 0) {
    if (node?.outOfService === "ours") {
      const message = `${name} loses the taint out-of-service that we gave it`;
      return { guard: "evacuated", message, step: { kind: "remove-out-of-service", node }, requeueAfterMs: undefined };
    }
    return isHome
      ? enter(record, "recovering", `${name} is back with another boot`)
      : enter(record, "fenced", `no pod is bound to ${name} any more`);
  }
  const settling = decideSettling(snapshot, undefined);
  if (settling?.step !== undefined) return settling;
  const left = `${bound.length} are left on ${name}: ${namesOf(bound)}`;
  if (nowMs < record.sinceMs + stuckAfterMs) return wait("evacuating", left, evacuatingRequeueMs);
  const message = `${left}. They have not gone for ${stuckAfterMs / 60_000} minutes: look for their finalizers`;
  return onRecord(wait("stuck", message, evacuatingRequeueMs));
}

/** The pods run elsewhere. The machine may come back, or a person takes the mark away. */
export function decideFenced(snapshot: FenceSnapshot, record: RecordSeen): FenceVerdict {
  const { node, name } = snapshot;
  if (node === undefined) return enter(record, "recovering", `the Node ${name} is gone`);
  if (node.mark === undefined) return enter(record, "recovering", `the mark of ${name} was removed`);
  if (hasAnotherBoot(node, record) && node.isReady)
    return enter(record, "recovering", `${name} is back with another boot`);
  const settling = decideSettling(snapshot, record.sinceMs);
  if (settling?.step !== undefined) return settling;
  const message = `${name} is down, and its pods may run elsewhere. The fence ends when it is back, or when its mark is removed`;
  return wait("fenced", message, settling?.requeueAfterMs ?? awayRequeueMs);
}

/**
 * The Node is given back once it is Ready. A mark that comes while claims settle asks for another fence: this one waits for
 * nothing any more.
 */
export function decideRecovering(snapshot: FenceSnapshot, record: RecordSeen): FenceVerdict {
  const { node, name } = snapshot;
  if (node?.outOfService === "ours") {
    const message = `${name} loses the taint out-of-service that we gave it: another boot has not stopped`;
    return { guard: "evacuated", message, step: { kind: "remove-out-of-service", node }, requeueAfterMs: undefined };
  }
  const isMarkedAnew = record.settlingMs !== undefined && node?.mark !== undefined;
  const returning = snapshot.isReturnRefused ? undefined : decideReturning(snapshot, record);
  const waiting = returning ?? (isMarkedAnew ? undefined : notWell(snapshot, record));
  return waiting ?? givingBack(snapshot, record, isMarkedAnew);
}

/** A marked node that is back, and stays as it is: claims that have settled go meanwhile. Undefined where it may recover. */
function notWell(snapshot: FenceSnapshot, record: RecordSeen): FenceVerdict | undefined {
  const { node, name } = snapshot;
  const relapse = decideRelapse(snapshot, record);
  if (relapse !== undefined) return settlingBefore(relapse, decideSettling(snapshot, record.sinceMs));
  if (node?.mark === undefined || node.isReady) return undefined;
  const why = node.hasFenceTaint ? "is back and not Ready: the taint keeps new pods away" : "is not Ready yet";
  // The pods of a Node that was made again run elsewhere, as those of a fenced one.
  const sinceMs = record.evidence === "boot-id" ? undefined : record.sinceMs;
  return settlingBefore(wait("not-ready", `${name} ${why}`, awayRequeueMs), decideSettling(snapshot, sinceMs));
}

/** A fence that waits lets the claims go that have settled meanwhile. */
function settlingBefore(verdict: FenceVerdict, settling: FenceVerdict | undefined): FenceVerdict {
  return verdict.step === undefined && settling?.step !== undefined ? settling : verdict;
}

/**
 * The mark of its Machine goes, the Node is cleaned, the claims of its pods leave the ledgers, the agent's Lease is cleaned, and
 * the record goes last.
 */
function givingBack(snapshot: FenceSnapshot, record: RecordSeen, isMarkedAnew: boolean): FenceVerdict {
  const { name } = snapshot;
  const unmarking = isMarkedAnew ? undefined : decideUnmarking(snapshot, "recovering");
  if (unmarking !== undefined) return unmarking;
  const leftover = decideLeftover(snapshot, { fenceId: record.fenceId, keepsMark: isMarkedAnew });
  const settling = isMarkedAnew ? decideWithdrawing(snapshot) : decideSettling(snapshot, record.settlingMs);
  if (leftover?.step?.kind !== "clean-node" && settling !== undefined) {
    const isBegun = settling.step !== undefined || record.settlingMs !== undefined;
    if (isBegun) return { guard: "settling", requeueAfterMs: undefined, ...settling };
    const message = `${name} is given back: the claims of its pods have to settle`;
    return { guard: "recovering", message, step: { kind: "note-settling", record }, requeueAfterMs: undefined };
  }
  const { message, step } = leftover ?? { message: `the fence of ${name} has ended`, step: { kind: "end", record } };
  return { guard: "recovering", message, step, requeueAfterMs: undefined };
}
