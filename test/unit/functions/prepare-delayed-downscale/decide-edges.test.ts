/** A downscale with a delay at the edges of its conditions: which pods are told, which answers count, and how many go at once. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type DelaySnapshot, decide } from "../../../../functions/prepare-delayed-downscale/decide.ts";
import {
  choosePods,
  type DelayedSet,
  leavingRun,
  readAnswer,
} from "../../../../functions/prepare-delayed-downscale/decide-leaving.ts";
import { makeClaim } from "../../../../functions/shared/ledger/claim.ts";
import type { Pod } from "../../../../functions/shared/workloads/pods.ts";
import { delayedOf, type Given, hourMs, nowMs, snapshotOf, statefulSetOf } from "./given.ts";

/** All pods from ordinal 4 on were told two hours ago. */
const ready: Given = { notified: Object.fromEntries([4, 5, 6, 7, 8, 9].map((ordinal) => [ordinal, 2 * hourMs])) };

const verdictOf = (given: Given, changes: Partial<DelaySnapshot> = {}) =>
  decide(snapshotOf([delayedOf(given)], changes));

/** The requested size, or the guard. */
function outcomeOf(verdict: ReturnType<typeof decide>): number | string {
  return verdict.kind === "wait" ? verdict.guard : (verdict.targets[0]?.target ?? "done");
}

function withPod(set: DelayedSet, ordinal: number, changes: Partial<Pod>): DelayedSet {
  const pods = new Map([...set.pods].map(([at, pod]) => [at, at === ordinal ? { ...pod, ...changes } : pod]));
  return { ...set, pods };
}

test("pods before the first ordinal and pods that have ended are not told that they leave", () => {
  const set = { ...delayedOf({ replicas: 6, wanted: 1 }), statefulSet: statefulSetOf({ replicas: 4, start: 2 }) };
  const ordinals = (of: DelayedSet) => {
    const { stay, leave } = choosePods(of);
    return [stay, leave].map((pods) => pods.map(({ ordinal }) => ordinal));
  };
  assert.deepEqual(ordinals(set), [[2], [5, 4, 3]]);
  assert.deepEqual(ordinals(withPod(set, 4, { finished: true })), [[2], [5, 3]]);
});

test("409 is locked, 299 is the last good answer, and the first second of 1970 is a time", () => {
  const why = (status: number, timestamp: unknown = nowMs / 1_000) => {
    const answer = readAnswer({ status, body: JSON.stringify({ timestamp }) }, nowMs);
    return answer.kind === "failed" ? answer.why : answer.sinceMs;
  };
  assert.match(String(why(409)), /it is locked/);
  assert.deepEqual([why(299), why(200), why(200, 1)], [nowMs, nowMs, 1_000]);
  assert.match(String(why(300)), /it answered 300/);
  assert.match(String(why(200, "1")), /no time in Unix seconds/);
});

test("a pod that terminates, has ended or does not say when it was made stops the run from the top", () => {
  const set = delayedOf(ready);
  const stop = (changes: Partial<Pod>) => {
    const run = leavingRun(withPod(set, 7, changes), nowMs);
    return [run.pods.length, run.stop?.kind === "not-prepared" ? run.stop.why : undefined];
  };
  assert.deepEqual(stop({}), [6, undefined]);
  const leaving = "it is on its way out, and another one comes for it";
  assert.deepEqual(
    [stop({ terminating: true }), stop({ finished: true })],
    [
      [2, leaving],
      [2, leaving],
    ],
  );
  assert.deepEqual(stop({ createdMs: Number.NaN }), [2, "it does not say when it was made"]);
});

test("the function reconciles again after 5 s beside a claim and after a change, and at the soonest end of all waits", () => {
  assert.equal(verdictOf(ready).requeueAfterMs, 5_000);
  const content = { id: "1", kind: "scale-down", zone: "db-b", members: [{ first: 9, last: 9 }], by: "x" } as const;
  const claim = makeClaim({ ...content, stampMs: nowMs, phase: "confirmed", terms: "asked" });
  assert.equal(verdictOf(ready, { claims: [claim] }).requeueAfterMs, 5_000);
  const running = delayedOf({ name: "db-b", replicas: 5, notified: { 4: hourMs + 2_000 - 20_000 } });
  const blocked = { statefulSet: statefulSetOf({ name: "db-0" }), blocked: { guard: "mirror-missing", message: "" } };
  const { zones } = snapshotOf([running]);
  assert.equal(decide(snapshotOf([blocked, running], { zones })).requeueAfterMs, 20_000);
});

test("a size that is postponed waits until then, for half a minute at the most", () => {
  const postponed = (ms?: number) => {
    const wait = { guard: "min-time-between-zones", message: "later", ...(ms && { requeueAfterMs: ms }) };
    const verdict = verdictOf({ ...ready, postponed: wait as DelayedSet["postponed"] });
    return [outcomeOf(verdict), verdict.requeueAfterMs];
  };
  const guard = "min-time-between-zones";
  assert.deepEqual(
    [postponed(4_000), postponed(90_000), postponed()],
    [
      [guard, 4_000],
      [guard, 30_000],
      [guard, 30_000],
    ],
  );
});

test("budget: one goes at a time where a pod that stays is down, and none where the budget lets none go", () => {
  const down = (maxUnavailable: number) => {
    const set = delayedOf({ ...ready, gone: [0] });
    return outcomeOf(
      decide(snapshotOf([{ ...set, statefulSet: { ...set.statefulSet, isOrdered: false, maxUnavailable } }])),
    );
  };
  assert.deepEqual([down(1), down(2), down(6), down(7)], ["budget", 9, 9, 4]);
});

test("one goes at a time where its StatefulSet asks pods about their health", () => {
  const set = delayedOf(ready);
  const question = { ask: undefined, unknown: "go", malformed: [] } as const;
  const asked = decide(snapshotOf([{ ...set, statefulSet: { ...set.statefulSet, question } }]));
  assert.equal(outcomeOf(asked), "question-malformed", "all at once would be beside each other");
});

test("the message of a pod that holds the others back counts those below it, and the size that is reached is done", () => {
  const { 9: _, ...others } = ready.notified ?? {};
  const verdict = verdictOf({ notified: { ...others, 9: 2 * hourMs, 7: "no" }, wanted: 4 });
  assert.match(verdict.message, /; 4 pods of db-a are to leave, and db-a-7 holds them back/);
  for (const wanted of [10, 11]) {
    const reached = verdictOf({ wanted, notified: ready.notified ?? {} }, { shadow: true });
    assert.deepEqual([reached.kind, outcomeOf(reached)], ["take", "done"]);
  }
});
