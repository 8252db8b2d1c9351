/** Every guard of the strategy node-deletion, by the snapshot that leads to it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { needsBound } from "../../../../functions/fence-node/decide.ts";
import type { DeletionView } from "../../../../functions/fence-node/node-backup.ts";
import type { FenceSnapshot, NodeSeen, RecordSeen } from "../../../../functions/fence-node/snapshot.ts";
import type { NodeBackup } from "../../../../functions/shared/annotations/fencing-deletion.ts";
import { back, decided, inPhase, othersTaint, shown, tainted } from "./fence-snapshots.ts";

const backup: NodeBackup = { uid: "node-uid", resourceVersion: "10", labels: {}, annotations: {}, spec: {} };
const asked: DeletionView = { isAsked: true, finalizers: [], backup, lack: undefined };
const down: NodeSeen = { ...tainted, isReady: false, confirmed: "fence-1" };
const changed: NodeSeen = { ...down, resourceVersion: "11" };
const another: NodeSeen = { ...down, uid: "node-2" };
const stopped: RecordSeen = inPhase("stopped");
const deleting: RecordSeen = { ...inPhase("deleting"), backup };
const deleted: RecordSeen = { ...inPhase("deleted"), backup };
const lack = { labels: { a: "1" }, annotations: {}, spec: {} };
const bound = ["pod db/a-0"];
/** A record whose Node shows the same hold. */
const waiting = (hold: string) => ({
  record: { ...stopped, hold },
  node: { ...shown("stopped", hold), isReady: false, confirmed: "fence-1" },
});
/** A backup of so many bytes. */
function backupOf(bytes: number): NodeBackup {
  const empty = JSON.stringify({ ...backup, labels: { a: "" } }).length;
  return { ...backup, labels: { a: "x".repeat(bytes - empty) } };
}

const cases: readonly [promise: string, snapshot: Partial<FenceSnapshot>, guard: string, step?: string][] = [
  [
    "a Node that asks for another strategy gets the taint",
    { record: stopped, deletion: { ...asked, isAsked: false } },
    "stopped",
    "set-out-of-service",
  ],
  ["a Node is backed up before it is deleted", { record: stopped }, "deleting", "enter"],
  [
    "a Node that is Ready is not deleted",
    { ...waiting("still-alive"), node: { ...shown("stopped", "still-alive"), confirmed: "fence-1" } },
    "still-alive",
  ],
  ["a Node that is back is not deleted", { record: stopped, node: back }, "recovering", "enter"],
  [
    "a Node that is out of service by others is not deleted",
    { record: inPhase("stopped", "out-of-service"), node: othersTaint() },
    "evacuating",
    "enter",
  ],
  [
    "a confirmation that was taken back is no evidence",
    { record: stopped, node: { ...down, confirmed: undefined } },
    "armed",
    "enter",
  ],
  [
    "our taint is on a Node that is deleted",
    { record: stopped, node: { ...down, hasFenceTaint: false } },
    "tainting",
    "taint",
  ],
  [
    "finalizers are waited for",
    { ...waiting("node-finalizers"), deletion: { ...asked, finalizers: ["a/b"] } },
    "node-finalizers",
  ],
  [
    "a backup of more than 128 KiB is waited for",
    { ...waiting("backup-too-large"), deletion: { ...asked, backup: backupOf(131_073) } },
    "backup-too-large",
  ],
  [
    "a backup of 128 KiB is not too large",
    { record: stopped, deletion: { ...asked, backup: backupOf(131_072) } },
    "deleting",
    "enter",
  ],
  ["a Node is deleted in the version that was backed up", { record: deleting }, "deleting", "delete-node"],
  ["a Node that has changed is decided on anew", { record: deleting, node: changed }, "stopped", "enter"],
  ["a Node that is gone is deleted", { record: deleting, node: undefined }, "deleted", "enter"],
  ["a Node whose name another one has is deleted", { record: deleting, node: another }, "deleted", "enter"],
  [
    "after a refusal the Node is written, so that no deletion of it is under way",
    { record: deleting, isRefused: true },
    "not-permitted",
    "show",
  ],
  ["pods of a deleted Node are waited for", { record: deleted, node: undefined, bound }, "deleted"],
  [
    "VolumeAttachments of a deleted Node are not waited for",
    { record: deleted, node: undefined, bound: ["VolumeAttachment a"] },
    "restoring",
    "restore-node",
  ],
  [
    "pods that stay for five minutes are named",
    { record: { ...deleted, hold: "stuck" }, node: undefined, bound, nowMs: deleted.sinceMs + 300_000 },
    "stuck",
  ],
  ["a Node without pods is made again", { record: deleted, node: undefined }, "restoring", "restore-node"],
  [
    "a Node that is there again gets what it lacks, whatever its pods",
    { record: deleted, node: another, bound, deletion: { ...asked, lack } },
    "restoring",
    "complete-node",
  ],
  ["a Node that lacks nothing has been made again", { record: deleted, node: another, bound }, "restored", "enter"],
  [
    "a Node that we may not make is waited for",
    { record: { ...deleted, hold: "not-permitted" }, node: undefined, isRefused: true },
    "not-permitted",
  ],
  [
    "a refusal does not hide that the Node is there",
    { record: deleted, node: another, isRefused: true },
    "restored",
    "enter",
  ],
  ["without a backup nothing can be made", { record: inPhase("deleted"), node: undefined }, "restored", "enter"],
];

for (const [promise, snapshot, guard, step] of cases) {
  test(`${promise}: ${guard}`, () => {
    const verdict = decided({ node: down, deletion: asked, ...snapshot });
    assert.deepEqual([verdict.guard, verdict.step?.kind], [guard, step]);
  });
}

const stepOf = (snapshot: Partial<FenceSnapshot>) => decided({ node: down, deletion: asked, ...snapshot }).step;

test("the backup comes into the record with the phase, and the deletion is of the version in the record", () => {
  assert.deepEqual(stepOf({ record: stopped }), { kind: "enter", record: stopped, phase: "deleting", backup });
  assert.deepEqual(stepOf({ record: deleting }), { kind: "delete-node", backup });
});

test("a fence that goes back to stopped has its hold only after a refusal", () => {
  const enter = { kind: "enter", record: deleting, phase: "stopped" };
  assert.deepEqual(stepOf({ record: deleting, node: changed }), enter);
  assert.deepEqual(stepOf({ record: deleting, node: changed, isRefused: true }), { ...enter, hold: "not-permitted" });
});

test("the write after a refusal changes the Node, whatever it shows", () => {
  for (const hold of [undefined, "not-permitted"]) {
    const node = { ...down, shown: { fenceId: "fence-1", phase: "deleting", hold } };
    const step = stepOf({ record: deleting, node, isRefused: true });
    assert.notDeepEqual(step?.kind === "show" ? step.shown : node.shown, node.shown);
  }
});

test("not-permitted lasts for a minute, and then the deletion is tried again", () => {
  const given = { ...waiting("not-permitted"), deletion: asked };
  const { sinceMs } = stopped;
  const { guard, message, requeueAfterMs } = decided({ ...given, nowMs: sinceMs + 59_999 });
  assert.deepEqual([guard, requeueAfterMs], ["not-permitted", 10_000]);
  assert.match(message, /the rights to create and delete nodes/);
  assert.equal(decided({ ...given, nowMs: sinceMs + 60_000 }).guard, "deleting");
  assert.equal(decided({ ...given, nowMs: sinceMs + 60_000, isRefused: true }).guard, "not-permitted");
});

test("the waits of a deletion name what they wait for, and when the node is reconciled again", () => {
  const finalizers = decided({ ...waiting("node-finalizers"), deletion: { ...asked, finalizers: ["a/b", "c/d"] } });
  assert.deepEqual([finalizers.hold, finalizers.requeueAfterMs], ["node-finalizers", 10_000]);
  assert.match(finalizers.message, /\(a\/b, c\/d\)/);
  const large = decided({ ...waiting("backup-too-large"), deletion: { ...asked, backup: backupOf(131_073) } });
  assert.deepEqual([large.hold, large.requeueAfterMs], ["backup-too-large", 10_000]);
  assert.match(large.message, /131073 bytes.* 131072$/);
  const left = decided({ record: deleted, node: undefined, bound, nowMs: deleted.sinceMs + 299_999 });
  assert.deepEqual([left.guard, left.hold, left.requeueAfterMs], ["deleted", undefined, 3_000]);
  assert.match(left.message, /1 pods are bound to it: pod db\/a-0$/);
});

test("a Node that was made again and is not Ready is not taken for one with our taint", () => {
  const record = inPhase("recovering");
  const messageOf = (hasFenceTaint: boolean) => decided({ record, node: { ...down, hasFenceTaint } }).message;
  assert.equal(messageOf(false), "n is not Ready yet");
  assert.match(messageOf(true), /the taint keeps new pods away$/);
});

test("pods are listed while a deleted Node is gone", () => {
  assert.equal(needsBound({ record: deleted, node: undefined }), true);
  assert.equal(needsBound({ record: deleted, node: down }), false);
  assert.equal(needsBound({ record: deleting, node: undefined }), false);
});
