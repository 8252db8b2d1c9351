/** When a StatefulSet with a delay may be made smaller, by how many pods, and what blocks it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type DelaySnapshot, decide } from "../../../../functions/prepare-delayed-downscale/decide.ts";
import { choosePods, readAnswer } from "../../../../functions/prepare-delayed-downscale/decide-leaving.ts";
import { makeClaim } from "../../../../functions/shared/ledger/claim.ts";
import { delayedOf, type Given, hourMs, nowMs, snapshotOf, statefulSetOf } from "./given.ts";

/** Each of these ordinals was told this long ago. */
function notified(first: number, last: number, ms: number): Record<number, number> {
  return Object.fromEntries(Array.from({ length: last - first + 1 }, (_, index) => [first + index, ms]));
}

function verdictOf(given: Given, changes: Partial<DelaySnapshot> = {}) {
  return decide(snapshotOf([delayedOf(given)], changes));
}

/** The requested size, or the guard. */
function outcomeOf(given: Given, changes: Partial<DelaySnapshot> = {}): number | string {
  const verdict = verdictOf(given, changes);
  if (verdict.kind === "wait") return verdict.guard;
  return verdict.targets[0]?.target ?? "done";
}

test("a downscale begins when the delay has passed for all its pods, with a second for their rounding and one for clock difference", () => {
  assert.equal(outcomeOf({ notified: notified(4, 9, hourMs + 2_000) }), 4);
  assert.equal(outcomeOf({ notified: notified(4, 9, hourMs + 1_999) }), "delay-running");
  assert.equal(outcomeOf({ notified: notified(4, 9, hourMs) }), "delay-running");
  assert.equal(outcomeOf({ notified: {} }), "pod-not-prepared");
});

test("a pod whose delay has ended since the last calls to the pods stays until it is asked once more", () => {
  const given = { notified: notified(4, 9, hourMs + 2_500) };
  assert.equal(outcomeOf(given, { askedAtMs: nowMs - 400 }), 4);
  assert.equal(outcomeOf(given, { askedAtMs: nowMs - 600 }), "delay-running");
});

test("of 40 to 46, those that were prepared earlier go first: the contiguous run 42 to 46 from the top (rollout-operator#155)", () => {
  const given = {
    replicas: 47,
    wanted: 40,
    notified: { ...notified(40, 41, 60_000), ...notified(42, 46, 2 * hourMs) },
  };
  const verdict = verdictOf(given);
  assert.ok(verdict.kind === "take");
  assert.equal(verdict.targets[0]?.target, 42);
  assert.deepEqual(verdict.targets[0]?.claim.members, [{ first: 42, last: 46 }]);
  assert.match(verdict.message, /from 47 to 42.*db-a-40 to db-a-41 leave once each has known it for 3600 s/);
  // A pod that was told later stops the downscale at its ordinal, although pods below it were told earlier.
  assert.equal(outcomeOf({ ...given, notified: { ...notified(40, 46, 2 * hourMs), 45: 60_000 } }), 46);
  assert.equal(outcomeOf({ ...given, notified: { ...notified(40, 46, 2 * hourMs), 46: 60_000 } }), "delay-running");
});

test("a pod that failed, is missing or was not asked blocks the pods below it, and the message names it with the cause", () => {
  const old = notified(4, 9, 2 * hourMs);
  assert.equal(outcomeOf({ notified: { ...old, 7: "it answered 500" } }), 8);
  const top = verdictOf({ notified: { ...old, 9: "it answered 409: it is locked" } });
  assert.ok(top.kind === "wait" && top.guard === "pod-not-prepared");
  assert.match(top.message, /6 pods of db-a are to leave, and db-a-9 holds them back: it answered 409/);
  const gone = verdictOf({ notified: old, gone: [9] });
  assert.match(gone.message, /db-a-9 holds them back: there is no such pod/);
  const { 9: _, ...others } = old;
  assert.match(verdictOf({ notified: others }).message, /db-a-9 holds them back: it has not been asked/);
});

test("a time from before the pod was created does not count, because the disk has kept it from the previous pod", () => {
  const old = notified(4, 9, 5 * hourMs);
  assert.equal(outcomeOf({ notified: old, madeMs: { 9: hourMs / 2 } }), "delay-running");
  assert.equal(outcomeOf({ notified: old, madeMs: { 9: hourMs + 2_000 } }), 4);
  assert.equal(outcomeOf({ notified: old, madeMs: { 6: hourMs / 2 } }), 7);
});

test("the ordinals are counted from the StatefulSet's first ordinal", () => {
  const verdict = verdictOf({ start: 5, replicas: 3, wanted: 1, notified: notified(6, 7, 2 * hourMs) });
  assert.ok(verdict.kind === "take");
  assert.equal(verdict.targets[0]?.target, 1);
  assert.deepEqual(verdict.targets[0]?.claim.members, [{ first: 6, last: 7 }]);
});

test("a claim names all pods that leave now, is confirmed, and has the uids of the StatefulSet and of these pods", () => {
  const verdict = verdictOf({ replicas: 3, wanted: 2, notified: notified(2, 2, 2 * hourMs) });
  const claim = verdict.kind === "take" ? verdict.targets[0]?.claim : undefined;
  assert.deepEqual(claim?.uids, { "db-a": "uid of db-a", "db-a-2": "uid of db-a-2" });
  assert.deepEqual([claim?.kind, claim?.phase, claim?.terms], ["scale-down", "confirmed", "asked"]);
});

test("nothing is left to do at the wanted size or below it, because this function never raises a size", () => {
  assert.equal(outcomeOf({ wanted: 10 }), "done");
  assert.equal(outcomeOf({ wanted: 12 }), "done");
});

test("a wait says when it ends, and the function reconciles again then", () => {
  const verdict = verdictOf({ replicas: 5, notified: { 4: hourMs + 2_000 - 20_000 } });
  assert.equal(verdict.requeueAfterMs, 20_000);
  assert.match(verdict.message, /^db-a-4 leaves once each has known it for 3600 s; .* from 2026-01-31T12:00:20Z on$/);
  assert.equal(verdictOf({ replicas: 5, notified: { 4: 0 } }).requeueAfterMs, 30_000);
});

test("one zone goes at a time: the others wait while a claim stands, and while a zone has pods down", () => {
  const old = notified(4, 9, 2 * hourMs);
  const claim = makeClaim({
    id: "1",
    kind: "scale-down",
    zone: "db-b",
    members: [{ first: 9, last: 9 }],
    by: "prepare-delayed-downscale",
    stampMs: nowMs,
    phase: "confirmed",
    terms: "asked",
  });
  assert.equal(outcomeOf({ notified: old }, { claims: [claim] }), "zone-scaling-down");
  const broken = delayedOf({ name: "db-b", wanted: 10, gone: [0] });
  const verdict = decide(snapshotOf([delayedOf({ notified: old }), broken]));
  assert.ok(verdict.kind === "wait" && verdict.guard === "zones-down");
  assert.match(verdict.message, /6 pods of db-a may leave, and wait: db-b: 1 of 10 down/);
  const both = decide(snapshotOf([delayedOf({ notified: old }), delayedOf({ name: "db-b", notified: old })]));
  assert.ok(both.kind === "take" && both.targets.length === 1 && both.zone === "db-a");
});

test("a blocked zone says why, and blocks no other zone", () => {
  for (const guard of ["delay-malformed", "service-missing", "mirror-missing", "leader-missing"]) {
    const kept = { statefulSet: statefulSetOf({ name: "db-0" }), blocked: { guard, message: "why" } };
    const alone = decide(snapshotOf([kept]));
    assert.ok(alone.kind === "wait" && alone.guard === guard && alone.requeueAfterMs === 30_000);
    const zones = snapshotOf([
      delayedOf({ name: "db-0", wanted: 10 }),
      delayedOf({ notified: notified(4, 9, 2 * hourMs) }),
    ]).zones;
    const beside = decide({ ...snapshotOf([kept, delayedOf({ notified: notified(4, 9, 2 * hourMs) })]), zones });
    assert.ok(beside.kind === "take" && beside.targets[0]?.target === 4);
  }
});

test("a downscale that the API server has refused is reported, and is not tried again at once", () => {
  const refused = new Map([["uid of db-a", "no"]]);
  assert.equal(outcomeOf({ notified: notified(4, 9, 2 * hourMs) }, { refused }), "downscale-refused");
});

test("in shadow mode the verdict says how many pods would be told", () => {
  const verdict = verdictOf({}, { shadow: true });
  assert.ok(verdict.kind === "wait" && verdict.guard === "pods-not-told");
  assert.match(
    verdict.message,
    /from 10 to 4: in shadow mode Sluice does not tell 6 pods that they leave, nor 4 that they stay/,
  );
});

test("a pod's answer counts only if it has a time in Unix seconds that has passed", () => {
  const read = (body: string, status = 200) => readAnswer({ status, body }, nowMs);
  const seconds = nowMs / 1000;
  assert.deepEqual(read(`{"timestamp":${seconds - 5}}`), { kind: "prepared", sinceMs: nowMs - 5_000 });
  assert.deepEqual(read(`{"timestamp":${seconds + 30}}`, 204), { kind: "prepared", sinceMs: nowMs + 30_000 });
  for (const [body, why] of [
    [`{"timestamp":${seconds + 31}}`, /in the future/],
    [`{"timestamp":${nowMs}}`, /in the future/],
    ['{"timestamp":0}', /is 0, and no time/],
    ['{"timestamp":-1}', /no time/],
    ['{"timestamp":1.5}', /no time/],
    [`{"timestamp":"${seconds}"}`, /no time/],
    ['{"timestamp":null}', /no time/],
    ["{}", /no JSON with a timestamp/],
    ["[]", /no JSON with a timestamp/],
    ["<html>", /no JSON with a timestamp/],
    ["", /no JSON with a timestamp/],
  ] as const) {
    const answer = read(body);
    assert.ok(answer.kind === "failed", body);
    assert.match(answer.why, why);
  }
  const good = `{"timestamp":${seconds - 5}}`;
  for (const status of [199, 302, 404, 409, 500]) assert.equal(read(good, status).kind, "failed", `${status}`);
});

test("pods that stay and pods that leave are told so, but none that a claim names or that is terminating", () => {
  const set = delayedOf({ replicas: 6, wanted: 3 });
  const ordinals = (changes: Partial<typeof set>) => {
    const { stay, leave } = choosePods({ ...set, ...changes });
    return [stay, leave].map((pods) => pods.map(({ ordinal }) => ordinal));
  };
  assert.deepEqual(ordinals({}), [
    [2, 1, 0],
    [5, 4, 3],
  ]);
  assert.deepEqual(ordinals({ wanted: 6 })[1], []);
  assert.deepEqual(ordinals({ wanted: 9 })[0]?.length, 6);
  assert.deepEqual(ordinals({ isClaimed: (ordinal) => ordinal === 5 })[1], [4, 3]);
  const pods = new Map([...set.pods].map(([ordinal, pod]) => [ordinal, { ...pod, terminating: ordinal === 4 }]));
  assert.deepEqual(ordinals({ pods })[1], [5, 3]);
  // The pods beyond the size have already left.
  assert.deepEqual(ordinals({ statefulSet: statefulSetOf({ replicas: 4 }) })[1], [3]);
});
