/** The strategy `node-deletion`: the Node is backed up and deleted, and made again once its pods have gone. Pure. */

import { formatBackup, mostBackupBytes, type NodeBackup } from "../shared/annotations/fencing-deletion.ts";
import type { DeletionView } from "./node-backup.ts";
import type { FenceSnapshot, FenceStep, FenceVerdict, NodeSeen, RecordSeen } from "./snapshot.ts";
import { enter, onRecord, wait } from "./verdicts.ts";

/** How often a node is reconciled whose pods are going, in milliseconds. */
const deletedRequeueMs = 3_000;
/** How soon a fence is reconciled again that waits for a person, in milliseconds. */
const blockedRequeueMs = 10_000;
/** After a refusal the deletion is tried again so much later, in milliseconds: each try writes the record and the Node. */
const refusedForMs = 60_000;
/** Pods that take longer than this to go are named, in milliseconds. */
const stuckAfterMs = 300_000;
const notPermitted = "not-permitted";
const missingRight =
  "Sluice needs the rights to create and delete nodes for this strategy, and to patch all of their labels and annotations. Its log has the answer of the API server";

/** There is evidence, and the Node is not Ready: the backup comes into the record before the Node may go. */
export function decideDeletion(
  { name, nowMs, isRefused = false }: FenceSnapshot,
  record: RecordSeen,
  node: NodeSeen,
  { finalizers, backup }: DeletionView,
): FenceVerdict {
  const isRecent = record.hold === notPermitted && nowMs < record.sinceMs + refusedForMs;
  if (isRefused || isRecent) {
    const message = `the API server refuses to delete the Node ${name}: ${missingRight}`;
    return onRecord(wait(notPermitted, message, blockedRequeueMs));
  }
  if (!node.hasFenceTaint) {
    const message = `${name} gets its taint back before its Node is deleted`;
    return { guard: "tainting", message, step: { kind: "taint", node, record }, requeueAfterMs: undefined };
  }
  if (finalizers.length > 0) {
    const message = `the Node ${name} has finalizers (${finalizers.join(", ")}): a controller would end the machine with it`;
    return onRecord(wait("node-finalizers", message, blockedRequeueMs));
  }
  const bytes = Buffer.byteLength(formatBackup(backup));
  if (bytes > mostBackupBytes) {
    const message = `the backup of the Node ${name} has ${bytes} bytes, and a record has room for ${mostBackupBytes}`;
    return onRecord(wait("backup-too-large", message, blockedRequeueMs));
  }
  const message = `the Node ${name} is to be deleted, and made again once its pods have gone: its record has the backup`;
  return entering(record, "deleting", message, { backup });
}

/**
 * The Node is deleted as long as it is in the version that was backed up. Where it has changed, everything is decided anew: no
 * deletion of the earlier version can be carried out any more. Where it is gone, or another one has its name, this process or
 * an earlier one may have deleted it, so that it counts as deleted by us.
 */
export function decideDeleting({ node, name, isRefused = false }: FenceSnapshot, record: RecordSeen): FenceVerdict {
  const { backup } = record;
  if (node === undefined) return enter(record, "deleted", `the Node ${name} is deleted`);
  if (node.uid !== backup?.uid)
    return enter(record, "deleted", `the Node ${name} is deleted, and another one is there`);
  if (node.resourceVersion !== backup.resourceVersion) {
    const message = `the Node ${name} has changed since it was backed up: its deletion is decided anew`;
    return entering(record, "stopped", message, isRefused ? { hold: notPermitted } : {});
  }
  if (isRefused) return showing(name, node, record);
  const message = `the Node ${name} is deleted`;
  return { guard: "deleting", message, step: { kind: "delete-node", backup }, requeueAfterMs: undefined };
}

/**
 * A write of the Node ends every deletion of its last version that may still be under way. So the record may lose the backup,
 * and what another client does to the Node counts as its own again. The text differs from the last one, because a write without
 * a change has no effect.
 */
function showing(name: string, node: NodeSeen, { fenceId, phase }: RecordSeen): FenceVerdict {
  const hold = node.shown.hold === notPermitted ? undefined : notPermitted;
  const message = `the API server refuses to delete the Node ${name}: ${missingRight}`;
  const step = { kind: "show", node, shown: { fenceId, phase, hold } } as const;
  return { guard: notPermitted, message, step, requeueAfterMs: undefined };
}

/** Kubernetes deletes the pods of a Node that is gone. Then it is made again, unless its kubelet has registered meanwhile. */
export function decideDeleted(snapshot: FenceSnapshot, record: RecordSeen): FenceVerdict {
  const { node, name, nowMs, deletion, isRefused = false } = snapshot;
  const { backup } = record;
  const lack = deletion?.lack;
  const { fenceId } = record;
  // The write that completes the Node names the fence: what other clients change after it stays.
  const isComplete = node !== undefined && (lack === undefined || node.shown.fenceId === fenceId);
  if (backup === undefined || isComplete)
    return { ...enter(record, "recovering", `the Node ${name} is there again`), guard: "restored" };
  const pods = node === undefined ? snapshot.bound.filter((one) => one.startsWith("pod ")) : [];
  if (pods.length > 0) {
    const left = `the Node ${name} is deleted, and ${pods.length} pods are bound to it: ${pods.slice(0, 5).join(", ")}`;
    if (nowMs < record.sinceMs + stuckAfterMs) return wait("deleted", left, deletedRequeueMs);
    const message = `${left}. They have not gone for ${stuckAfterMs / 60_000} minutes: look for their finalizers`;
    return onRecord(wait("stuck", message, deletedRequeueMs));
  }
  if (isRefused) {
    const message = `the API server refuses to make the Node ${name} again: ${missingRight}`;
    return onRecord(wait(notPermitted, message, blockedRequeueMs));
  }
  const step: FenceStep =
    node === undefined || lack === undefined
      ? { kind: "restore-node", backup, fenceId }
      : { kind: "complete-node", node, lack, fenceId };
  return { guard: "restoring", message: `the Node ${name} is made again`, step, requeueAfterMs: undefined };
}

function entering(
  record: RecordSeen,
  phase: "deleting" | "stopped",
  message: string,
  more: { readonly backup?: NodeBackup; readonly hold?: string },
): FenceVerdict {
  return { guard: phase, message, step: { kind: "enter", record, phase, ...more }, requeueAfterMs: undefined };
}
