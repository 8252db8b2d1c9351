/** A node that is back and not well: fenced again for its new boot, or emptied because it was fenced too often. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { BrakesView } from "../../../../functions/fence-node/brakes-view.ts";
import { isUnknownAgain } from "../../../../functions/fence-node/decide-relapse.ts";
import type { NodeSeen, RecordSeen } from "../../../../functions/fence-node/snapshot.ts";
import { back, brakesWith, decided, inPhase, shownNothing } from "./fence-snapshots.ts";

const record: RecordSeen = inPhase("recovering");
const { sinceMs } = record;
const minuteMs = 60_000;
const hourMs = 3_600_000;
const nowMs = sinceMs + minuteMs;
const silent: NodeSeen = { ...back, isReady: false, isUnknown: true, unknownSinceMs: sinceMs };
const stranded = brakesWith({}, { stranded: ["db/a-0", "db/a-1"] });
const fenced = (...times: readonly number[]): BrakesView => brakesWith({ fencedMs: new Map([["n", times]]) });
const often = fenced(nowMs - hourMs + 1, nowMs - 2, nowMs - 1);

function outcome(node: NodeSeen | undefined, brakes: BrakesView, atMs = nowMs) {
  const { guard, step, hold } = decided({ record, node, brakes, nowMs: atMs });
  return [guard, step?.kind, hold];
}

test("a node that falls silent for a minute after its new boot is fenced again while pods are bound to it", () => {
  assert.deepEqual(outcome(silent, stranded), ["claiming", "fence-again", undefined]);
  assert.match(decided({ record, node: silent, brakes: stranded, nowMs }).message, /n for 60 s.*: db\/a-0, db\/a-1\. /);
  assert.equal(outcome(silent, stranded, nowMs - 1)[0], "not-ready");
  assert.equal(outcome(silent, brakesWith())[0], "not-ready");
});

test("a node is not fenced again while something is known of it, in its first boot, or without its mark", () => {
  const known = (changes: Partial<NodeSeen>) => isUnknownAgain({ node: { ...silent, ...changes }, record, nowMs });
  assert.equal(known({}), true);
  assert.equal(known({ isUnknown: false }), false);
  assert.equal(known({ mark: undefined }), false);
  assert.equal(known({ bootId: record.bootId }), false);
  assert.equal(known({ unknownSinceMs: sinceMs + 1 }), false);
  assert.equal(known({ unknownSinceMs: undefined }), true);
  // A time of another clock that is far behind is not enough.
  assert.equal(isUnknownAgain({ node: { ...silent, unknownSinceMs: 0 }, record, nowMs: nowMs - 1 }), false);
  assert.equal(isUnknownAgain({ node: silent, record: inPhase("fenced"), nowMs }), false);
  assert.equal(isUnknownAgain({ node: undefined, record, nowMs }), false);
  for (const none of [undefined, "unreadable"] as const)
    assert.equal(isUnknownAgain({ node: silent, record: none, nowMs }), false);
});

test("our out-of-service goes before all else once another boot is there: that has not stopped", () => {
  const ours = { outOfService: "ours" } as const;
  const removed = ["evacuated", "remove-out-of-service", undefined];
  assert.deepEqual(outcome({ ...silent, ...ours }, stranded), removed);
  assert.deepEqual(outcome({ ...silent, ...ours }, brakesWith()), removed);
  assert.deepEqual(outcome({ ...back, ...ours, isEmptied: true }, often), removed);
});

test("the claims of the fence that has ended leave the ledgers before the node is fenced again", () => {
  const key = { namespace: "db", group: "a" };
  const claim = { key, id: "fence-1/a", isReturned: true, isSettled: false };
  const ledgers = { claims: [claim], awaited: undefined, passed: [] };
  const { step } = decided({ record, node: silent, brakes: stranded, nowMs, ledgers });
  assert.deepEqual(step, { kind: "take-claims", key, ids: ["fence-1/a"] });
});

test("a node that was fenced three times within an hour is emptied once it is back, and stays out", () => {
  assert.deepEqual(outcome(back, often), ["loop", "empty-node", undefined]);
  assert.match(decided({ record, node: back, brakes: often, nowMs }).message, /^n was fenced 3 times within an hour: /);
  const out = decided({ record, node: { ...back, isEmptied: true }, brakes: often, nowMs });
  assert.deepEqual([out.guard, out.hold, out.step?.kind], ["loop", "loop", "note-hold"]);
  assert.match(out.message, /until its mark is removed$/);
  const bare = { ...back, isEmptied: true, hasFenceTaint: false };
  assert.equal(outcome(bare, often)[1], "empty-node");
});

test("a node that stays out is reconciled again after 10 seconds, and what cannot be read makes no loop", () => {
  const out = decided({
    record: { ...record, hold: "loop" },
    node: { ...back, isEmptied: true },
    brakes: often,
    nowMs,
  });
  assert.equal(out.requeueAfterMs, 10_000);
  const slots = { lease: { uid: "u", resourceVersion: "1" }, contents: "unreadable" } as const;
  const settings = { ...brakesWith().settings, fenceMostPerHour: 1 };
  const notReady = { ...back, isReady: false };
  assert.equal(outcome(notReady, brakesWith({}, { slots, settings }))[0], "not-ready");
});

test("fences that are an hour old, or of another node, do not make a loop", () => {
  for (const brakes of [fenced(nowMs - hourMs, nowMs - 2, nowMs - 1), fenced(nowMs - 1), brakesWith()])
    assert.equal(outcome(back, brakes)[1], "clean-node");
  const slots = { lease: undefined, contents: "unreadable" } as const;
  assert.equal(outcome(back, brakesWith({}, { slots }))[1], "clean-node");
});

test("a node that was emptied stays out after the hour, until its mark is removed: then both taints go", () => {
  const emptied = { ...back, isEmptied: true };
  assert.equal(outcome(emptied, brakesWith())[0], "loop");
  assert.deepEqual(outcome({ ...emptied, mark: undefined }, often).slice(0, 2), ["recovering", "clean-node"]);
  const alone: NodeSeen = { ...emptied, mark: undefined, hasFenceTaint: false, shown: shownNothing };
  assert.equal(outcome(alone, brakesWith())[1], "clean-node");
});

test("a node that was fenced too often is emptied, and not fenced again", () => {
  const both = { ...often, stranded: ["db/a-0"] };
  assert.equal(outcome(silent, both)[1], "empty-node");
  assert.equal(outcome({ ...silent, isEmptied: true }, both)[2], "loop");
  assert.equal(outcome({ ...silent, isEmptied: true }, stranded)[1], "fence-again");
});
