/** Compares `decide` with simple rules, over random groups. A failure prints its seed, its path and the smallest group. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { decide } from "../../functions/advance-zone-rollout/decide.ts";
import { type RolloutTarget, subjectOf } from "../../functions/advance-zone-rollout/decide-pods.ts";
import type { Verdict } from "../../functions/shared/contract/verdict.ts";
import { guardOf } from "../../functions/shared/reconcile/record.ts";
import { type GroupFacts, group, render, type SlotFacts, uidOf } from "./facts.ts";
import {
  isDown,
  isRecordable,
  isRefused,
  isRepair,
  isTrueOf,
  type Member,
  nextRepairSeconds,
  podOf,
  possible,
  violationOf,
} from "./naive-rules.ts";

const numRuns = 20_000;
const fewRuns = 5_000;

function check(property: (facts: GroupFacts, verdict: Verdict<RolloutTarget>) => void, numRuns = fewRuns): void {
  const holds = fc.property(group, (facts) => property(facts, decide(render(facts))));
  fc.assert(holds, { numRuns, verbose: fc.VerbosityLevel.None });
}

function targetsOf(verdict: Verdict<RolloutTarget>): readonly RolloutTarget[] {
  return verdict.kind === "take" ? verdict.targets : [];
}

function placesOf(verdict: Verdict<RolloutTarget>, action: "delete" | "repair"): Member[] {
  return targetsOf(verdict).flatMap((target) =>
    target.action === action && "pod" in target
      ? [{ zone: target.statefulSet.name.charCodeAt(0) - 97, ordinal: target.pod.ordinal }]
      : [],
  );
}

const summary = (verdict: Verdict<RolloutTarget>): string[] =>
  targetsOf(verdict).map((target) => `${target.action} ${subjectOf(target)}`);

test("every deletion keeps Z1, Z2, Z3, Z4 and the budgets, and touches no reservation of another function", () => {
  check((facts, verdict) => assert.equal(violationOf(facts, placesOf(verdict, "delete")), undefined), numRuns);
});

test("only broken pods are repaired, or pods that are down where no healthy pod goes, and refused pods are left alone", () => {
  check((facts, verdict) => {
    const repairs = placesOf(verdict, "repair");
    const allowed = possible(facts);
    for (const place of repairs) assert.ok(allowed.has(`repair ${uidOf(podOf(place))}`), podOf(place));
    for (const place of [...repairs, ...placesOf(verdict, "delete")]) {
      assert.ok(!isRefused(facts, place), podOf(place));
    }
  });
});

test("a revision is recorded only for a zone that is complete", () => {
  check((facts, verdict) => {
    for (const target of targetsOf(verdict)) {
      if (target.action !== "record-revision") continue;
      assert.ok(isRecordable(facts, target.statefulSet.name.charCodeAt(0) - 97));
      assert.equal(target.statefulSet.updateRevision, "new");
    }
  });
});

test("every decision reconciles again when the next never-ready pod must be repaired, and a wait says so", () => {
  check((facts, verdict) => {
    const seconds = nextRepairSeconds(facts);
    const isReported = / was never ready, and is replaced if it is not ready 120 s after it was made/.test(
      verdict.message,
    );
    if (guardOf(verdict, "rolling") === "strategy-not-on-delete") return;
    if (seconds === undefined) return assert.ok(!isReported, verdict.message);
    assert.ok((verdict.requeueAfterMs ?? Number.POSITIVE_INFINITY) <= seconds * 1000, `${verdict.requeueAfterMs} ms`);
    if (verdict.kind === "wait") assert.ok(isReported, verdict.message);
  });
});

test("nothing is taken twice", () => {
  check((_, verdict) => {
    const subjects = targetsOf(verdict).map(subjectOf);
    assert.equal(new Set(subjects).size, subjects.length);
  });
});

test("if the rules let a pod go, a pod goes; and no pod goes that they block", () => {
  check((facts, verdict) => {
    const allowed = possible(facts);
    const taken = summary(verdict);
    for (const word of taken) assert.ok(allowed.has(word), word);
    const why = `${guardOf(verdict, "rolling")} although ${[...allowed].join(", ")}`;
    const isDeletion = (word: string) => word.startsWith("delete");
    if (allowed.size > 0) assert.notEqual(taken.length, 0, why);
    assert.equal(taken.some(isDeletion), [...allowed].some(isDeletion), why);
  }, numRuns);
});

test("every possible repair and record is in the take, whatever healthy pods wait for", () => {
  check((facts, verdict) => {
    const taken = new Set(summary(verdict));
    for (const word of possible(facts)) assert.ok(word.startsWith("delete") || taken.has(word), word);
  });
});

function assertNoneLeftBehind(facts: GroupFacts, verdict: Verdict<RolloutTarget>): void {
  const deleted = placesOf(verdict, "delete");
  const [first] = deleted;
  if (first === undefined) return;
  for (const ordinal of facts.zones[first.zone]?.slots.keys() ?? []) {
    const place = { zone: first.zone, ordinal };
    if (deleted.some((other) => other.ordinal === ordinal) || isRefused(facts, place) || isRepair(facts, place))
      continue;
    assert.notEqual(violationOf(facts, [...deleted, place]), undefined, `${podOf(place)} was left behind`);
    // Pods that are down go first, whatever their ordinal.
    const before = deleted.filter((other) => other.ordinal < ordinal || isDown(facts, other));
    if (before.length < deleted.length) {
      assert.notEqual(violationOf(facts, [...before, place]), undefined, `${podOf(place)} comes before others`);
    }
  }
}

test("a take leaves no pod behind that could have gone with it, and healthy pods go lowest ordinal first", () => {
  check(assertNoneLeftBehind);
});

test("a pod that is Ready but not yet available is down: it goes first, and the smaller limit of its budget holds for all", () => {
  const well: SlotFacts = {
    health: "ready",
    revision: "old",
    ageSeconds: 700,
    readyForSeconds: 600,
    reservation: "none",
    reservedBy: "advance-zone-rollout",
    reservationAgeMs: 0,
    refused: false,
    tier: "hot",
  };
  const facts: GroupFacts = {
    zones: [
      {
        start: 0,
        replicas: 4,
        counted: 4,
        tier: "hot",
        budget: { percent: 50 },
        minReadySeconds: 30,
        paused: false,
        strategy: "OnDelete",
        behind: false,
        recorded: "old",
        recordRefused: false,
        slots: [{ ...well, revision: "new" }, well, well, { ...well, readyForSeconds: 0, tier: "cold" }],
      },
    ],
    budgets: [{ partitioning: undefined, allowance: { pods: 1 }, tier: "cold", delaySeconds: 0, invalid: false }],
    foreignTier: undefined,
  };
  const verdict = decide(render(facts));
  assert.deepEqual(summary(verdict), [`delete ${uidOf("a-3")}`]);
  assertNoneLeftBehind(facts, verdict);
});

test("the guard of a wait tells the truth, and done means done", () => {
  check((facts, verdict) => {
    const guard = guardOf(verdict, "rolling");
    if (guard !== "rolling") assert.ok(isTrueOf(guard, facts), `${guard}: ${verdict.message}`);
    assert.notEqual(verdict.message, "");
  });
});

test("decide is pure: it does not change its input, and answers the same again, in any order of the pods", () => {
  fc.assert(
    fc.property(group, (facts) => {
      const snapshot = freeze(render(facts));
      const verdict = decide(snapshot);
      assert.deepEqual(decide(snapshot), verdict);
      assert.deepEqual(decide(render(facts, "descending")), verdict);
    }),
    { numRuns: fewRuns },
  );
});

test("the random groups meet every guard and every act often enough to prove something", () => {
  const sampled = 2 * fewRuns;
  const met = new Map<string, number>();
  for (const facts of fc.sample(group, { seed: 1, numRuns: sampled })) {
    const verdict = decide(render(facts));
    const actions = new Set(targetsOf(verdict).map(({ action }) => action));
    for (const what of [guardOf(verdict, "rolling"), ...actions]) met.set(what, (met.get(what) ?? 0) + 1);
  }
  const guards =
    "strategy-not-on-delete zones-down paused-zone-down status-behind zone-settling budget delete-refused paused " +
    "zone-budget partition-budget partition-not-identified several-budgets invalid-budget budget-spans-groups";
  for (const what of [...guards.split(" "), "done", "rolling", "delete", "repair", "record-revision"]) {
    assert.ok((met.get(what) ?? 0) >= 10, `${what}: ${met.get(what) ?? 0} of ${sampled}`);
  }
});

/** Freezes the value deeply. A Map cannot be frozen, so its writing methods are replaced. */
function freeze<T>(value: T): T {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  if (value instanceof Map) {
    for (const [key, entry] of value) freeze([key, entry]);
    const refuse = () => assert.fail("decide writes to what it is given");
    Object.assign(value, { set: refuse, delete: refuse, clear: refuse });
  }
  Object.freeze(value);
  for (const field of Object.values(value)) freeze(field);
  return value;
}
