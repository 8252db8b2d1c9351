/** Which node gets the mark, which loses it, and why another one does not. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decide, type HealthSnapshot } from "../../../../functions/watch-node-health/decide.ts";
import { longestGapMs } from "../../../../functions/watch-node-health/decide-counts.ts";
import { countedFor, foreignMark, listAt, ownMark, ready, silent, snapshotOf, unready } from "./views.ts";

function outcome(snapshot: HealthSnapshot) {
  const { guard, step, requeueAfterMs } = decide(snapshot);
  assert.equal(requeueAfterMs, undefined, "the next list leads to the node again");
  return [guard, step?.kind];
}

const minuteMs = 60_000;

test("a node is marked that was not Ready for the whole time, and not a millisecond sooner", () => {
  for (const node of [silent, unready]) {
    assert.deepEqual(outcome(snapshotOf(node, countedFor(node, minuteMs - 1))), ["counting", undefined]);
    assert.deepEqual(outcome(snapshotOf(node, countedFor(node, minuteMs))), ["marking", "mark"]);
    assert.deepEqual(outcome(snapshotOf(node, undefined)), ["counting", undefined]);
  }
});

test("the mark says that it is of this function, and why; the step rests on the Node that was read", () => {
  const { step, message } = decide(snapshotOf(silent, countedFor(silent, 61_999)));
  const text = "watch-node-health: Ready is Unknown, and was not True for 61 s";
  assert.deepEqual(step, { kind: "mark", node: silent, text });
  assert.equal(message, "n is marked: Ready is Unknown, and was not True for 61 s");
  const { message: counting } = decide(snapshotOf(unready, countedFor(unready, 5_000)));
  assert.equal(counting, "Ready of n is False for 5 s of 60 s");
});

test("the mark of this function goes once the node was Ready for the whole time", () => {
  const marked = { ...ready, ...ownMark };
  assert.deepEqual(outcome(snapshotOf(marked, countedFor(marked, minuteMs - 1))), ["returning", undefined]);
  assert.deepEqual(decide(snapshotOf(marked, countedFor(marked, minuteMs))).step, { kind: "unmark", node: marked });
  assert.equal(outcome(snapshotOf(marked, countedFor(marked, minuteMs)))[0], "unmarking");
  assert.deepEqual(outcome(snapshotOf({ ...silent, ...ownMark }, undefined)), ["marked", undefined]);
  const message = (status: string | undefined) =>
    decide(snapshotOf({ ...silent, ...ownMark, status }, undefined)).message;
  assert.match(message("False"), /Ready is False$/);
  assert.match(message(undefined), /Ready is missing$/);
});

test("the mark of another client is neither taken away nor replaced", () => {
  for (const node of [ready, silent]) {
    const marked = { ...node, ...foreignMark };
    assert.deepEqual(outcome(snapshotOf(marked, countedFor(marked, minuteMs))), ["marked-by-others", undefined]);
  }
});

test("while a fence is under way the mark stays, and a fence that has done nothing yet loses it", () => {
  const marked = { ...ready, ...ownMark };
  const fenced = (fence: "claimed" | "going-on") =>
    outcome(snapshotOf({ ...marked, fence }, countedFor(marked, minuteMs)));
  assert.deepEqual(fenced("going-on"), ["fencing", undefined]);
  assert.deepEqual(fenced("claimed"), ["unmarking", "unmark"]);
});

test("a node without a mark gets none before its fence has ended", () => {
  for (const fence of ["claimed", "going-on"] as const) {
    const node = { ...silent, fence };
    assert.deepEqual(outcome(snapshotOf(node, countedFor(node, minuteMs))), ["fencing", undefined]);
  }
});

test("a node that is excluded, is Ready, has never reported or is gone gets no mark", () => {
  const excluded = { ...silent, excluded: { guard: "cordoned", message: "n is cordoned" } };
  assert.deepEqual(outcome(snapshotOf(excluded, countedFor(silent, minuteMs))), ["cordoned", undefined]);
  assert.match(decide(snapshotOf(excluded, undefined)).message, /^n is cordoned, so that it gets no mark$/);
  assert.deepEqual(outcome(snapshotOf(ready, countedFor(ready, minuteMs))), ["ready", undefined]);
  const fresh = { ...silent, status: undefined };
  assert.deepEqual(outcome(snapshotOf(fresh, countedFor(fresh, minuteMs))), ["never-reported", undefined]);
  assert.deepEqual(outcome(snapshotOf(undefined, undefined)), ["node-gone", undefined]);
});

test("in a storm no node gets a mark, and one that has it loses it as always", () => {
  const storm = ["n", "m", "o"];
  const { guard, message, step } = decide(snapshotOf(silent, countedFor(silent, minuteMs), { storm }));
  assert.deepEqual([guard, step], ["storm", undefined]);
  assert.match(message, /3 of 5 nodes are marked or not Ready/);
  const marked = { ...ready, ...ownMark };
  assert.equal(outcome(snapshotOf(marked, countedFor(marked, minuteMs), { storm }))[0], "unmarking");
});

test("nothing is done where the function is off, whatever the node shows", () => {
  assert.deepEqual(outcome(snapshotOf(silent, countedFor(silent, minuteMs), { afterMs: "off" })), ["off", undefined]);
});

test("a count does not stand for a Node that has changed since the list, nor once that list is too old", () => {
  const counted = countedFor(silent, minuteMs);
  for (const change of [{ uid: "uid-2" }, { bootId: "boot-2" }, { changedAt: "2026-01-01T00:02:00Z" }])
    assert.equal(outcome(snapshotOf({ ...silent, ...change }, counted))[0], "counting", JSON.stringify(change));
  assert.equal(outcome(snapshotOf(silent, { ...counted, state: "ready" }))[0], "counting");
  for (const known of [undefined, { ...counted, uid: "uid-2" }])
    assert.equal(outcome(snapshotOf(silent, known, { afterMs: 1 }))[0], "counting", "not a millisecond counts");
  assert.equal(outcome(snapshotOf(silent, counted, { counts: undefined, afterMs: 1 }))[0], "counting");
  const endedMs = listAt(99_990).endedMs;
  assert.equal(outcome(snapshotOf(silent, counted, { nowMs: endedMs + longestGapMs }))[0], "marking");
  assert.equal(outcome(snapshotOf(silent, counted, { nowMs: endedMs + longestGapMs + 1 }))[0], "counting");
});
