/** Which pods leave with a smaller size: their claim, their answers (Q1), and the zones that block them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  decide,
  type FollowerResize,
  type FollowSnapshot,
  leaversBy,
} from "../../../../functions/follow-replicas/decide.ts";
import { parseQuestion } from "../../../../functions/shared/annotations/parse-health.ts";
import type { Questions } from "../../../../functions/shared/health/permit.ts";
import { largestOrdinal } from "../../../../functions/shared/workloads/pods.ts";
import { nowMs, statefulSet } from "../advance-zone-rollout/given.ts";
import { follower, outcomeOf, reviewed, snapshotOf } from "./given.ts";

const annotations = { "sluice.dev/health-question": "http", "sluice.dev/health-url": "http://:80/" };
const question = parseQuestion({ name: "b", uid: "uid-of-b", resourceVersion: "5", annotations }, "nodes");

/** Each pod may leave but these. */
function needed(...names: readonly string[]): Questions {
  return {
    answers: new Map(),
    refuse: ({ name }) => (names.includes(name) ? { guard: "health-bad", message: "it says no" } : undefined),
    isOver: false,
  };
}

function resizeOf(snapshot: FollowSnapshot): FollowerResize {
  const verdict = decide(snapshot);
  assert.ok(verdict.kind === "take");
  return verdict.targets[0] ?? assert.fail();
}

test("a smaller size is claimed with the uids of its StatefulSet and of each pod that leaves, from the first ordinal on", () => {
  for (const [start, wanted, last, leaving] of [
    [5, 2, 8, [7, 8]],
    [5, 0, 8, [5, 6, 7, 8]],
    [0, 3, 3, [3]],
  ] as const) {
    const snapshot = snapshotOf([follower("a", "oooo", 4), follower("b", "oooo", wanted, { start })]);
    const resize = resizeOf(snapshot);
    const uids = leaving.map((ordinal) => [`b-${ordinal}`, `uid-of-b-${ordinal}`] as const);
    assert.deepEqual(resize.claim, {
      id: `scale-down b ${nowMs}`,
      kind: "scale-down",
      zone: "b",
      members: [{ first: leaving[0], last }],
      uids: { b: "uid-of-b", ...Object.fromEntries(uids) },
      phase: "confirmed",
      terms: "asked",
    });
    assert.deepEqual(
      leaversBy(snapshot, resize).map(({ ordinal }) => ordinal),
      leaving,
    );
  }
});

test("health-bad: the highest pod of a zone with a question leaves alone, and its answer counts, also where a webhook reviews the size", () => {
  for (const labels of [{}, reviewed]) {
    const followers = [follower("b", "oooo", 1, { question, labels })];
    const blocked = decide(snapshotOf(followers, { questions: needed("b-3") }));
    assert.deepEqual([outcomeOf(blocked), blocked.zone, blocked.requeueAfterMs], ["health-bad", "b", 30_000]);
    const permitted = snapshotOf(followers, { questions: needed("b-0", "b-1", "b-2") });
    assert.equal(outcomeOf(decide(permitted)), "b to 3");
    assert.equal(resizeOf(permitted).claim === undefined, labels === reviewed);
    assert.deepEqual(
      leaversBy(permitted, resizeOf(permitted)).map(({ name }) => name),
      ["b-3"],
    );
  }
});

test("zones-down: a webhook decides about other zones where it reviews the size, and follow-replicas does so elsewhere", () => {
  const broken = follower("a", "xooo", 4);
  assert.equal(outcomeOf(decide(snapshotOf([broken, follower("b", "oooo", 2)]))), "zones-down");
  assert.equal(outcomeOf(decide(snapshotOf([broken, follower("b", "oooo", 2, { labels: reviewed })]))), "b to 2");
});

test("ordinal-not-ready: a pod that is down blocks the pods above it in its own zone, also where a webhook reviews the size", () => {
  for (const labels of [{}, reviewed]) {
    const verdict = decide(snapshotOf([follower("b", "xooo", 2, { labels, isOrdered: true })]));
    const expected = ["ordinal-not-ready", "b", 30_000];
    assert.deepEqual([outcomeOf(verdict), verdict.zone, verdict.requeueAfterMs], expected);
  }
});

test("min-time-between-zones: a follower that a webhook reviews waits to the millisecond for the time after another zone", () => {
  const paused = follower("a", "oooo", 4, { labels: { "min-time-between-zones-downscale": "1h" } });
  const own = follower("b", "oooo", 2, { labels: { ...reviewed, "min-time-between-zones-downscale": "2h" } });
  for (const [ageMs, expected, requeueAfterMs] of [
    [3_600_000 - 1_500, "min-time-between-zones", 1_501],
    [3_600_000, "b to 2", 30_000],
  ] as const) {
    const ledger = { a: nowMs - ageMs, b: nowMs };
    const times = { ledger, isMalformed: false, ledgerSinceMs: nowMs - 7_200_000 };
    const verdict = decide(snapshotOf([paused, own], { times }));
    assert.deepEqual([outcomeOf(verdict), verdict.zone, verdict.requeueAfterMs], [expected, "b", requeueAfterMs]);
  }
});

test("zone-departed: where the snapshot lacks the zone of a follower, a webhook decides about the size, or the follower keeps it", () => {
  const departed = (labels: Readonly<Record<string, string>>) =>
    snapshotOf([follower("b", "ooo", 2, { labels })], { zones: [follower("a", "ooo", 3).own] });
  assert.equal(outcomeOf(decide(departed({}))), "zone-departed");
  assert.equal(outcomeOf(decide(departed(reviewed))), "b to 2");
  assert.deepEqual(leaversBy(departed(reviewed), { statefulSet: statefulSet("b"), target: 0, claim: undefined }), []);
});

test("a zone whose size a webhook reviews gives up an ordinal above the largest one without a check, because no pod can have it", () => {
  const last = follower("b", "o.", 1, { start: largestOrdinal, labels: reviewed });
  assert.equal(last.own.pods[0]?.ordinal, largestOrdinal);
  assert.equal(outcomeOf(decide(snapshotOf([last]))), "b to 1");
});
