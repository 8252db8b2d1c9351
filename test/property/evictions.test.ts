/** Compares evictions with simple rules, over random groups. A failure prints its seed, its path and the smallest group. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { decide } from "../../functions/evaluate-eviction/decide.ts";
import type { Decision } from "../../functions/evaluate-eviction/group-commit/sort-decisions.ts";
import { type EvictionFacts, evictions, render } from "./eviction-facts.ts";
import { guardFor, isReserved, type Member, placeOf, violationOf } from "./naive-evictions.ts";

const numRuns = 20_000;
const fewRuns = 5_000;

function check(property: (facts: EvictionFacts, decisions: readonly Decision[]) => void, runs = fewRuns): void {
  const holds = fc.property(evictions, (facts) => property(facts, decide(render(facts))));
  fc.assert(holds, { numRuns: runs, verbose: fc.VerbosityLevel.None });
}

/** The places that were allowed for real and must be reserved, in the order of the questions. */
function takenOf(facts: EvictionFacts, decisions: readonly Decision[]): Member[] {
  return facts.questions.flatMap((question, index) => {
    const isTaken = decisions[index]?.reserve !== undefined && !question.dryRun;
    return isTaken ? [placeOf(facts, question)] : [];
  });
}

/** The guards of all questions by the simple rules. */
function naively(facts: EvictionFacts): string[] {
  const taken: Member[] = [];
  return facts.questions.map((question) => {
    const guard = guardFor(facts, question, taken);
    if (guard !== "allowed" || question.dryRun) return guard;
    const place = placeOf(facts, question);
    if (!taken.some(({ zone, ordinal }) => zone === place.zone && ordinal === place.ordinal)) taken.push(place);
    return guard;
  });
}

test("every question of a batch gets the guard of the simple rules", () => {
  check((facts, decisions) => {
    const guards = decisions.map(({ answer }) => answer.guard);
    assert.deepEqual(guards, naively(facts));
  }, numRuns);
});

test("E1: what a batch allows together keeps every zone and every partition within its budget", () => {
  check((facts, decisions) => assert.equal(violationOf(facts, takenOf(facts, decisions)), undefined), numRuns);
});

test("a pod that is allowed under a budget is reserved by its uid, and nothing else is reserved", () => {
  check((facts, decisions) => {
    for (const [index, { answer, reserve }] of decisions.entries()) {
      assert.equal(reserve !== undefined, answer.guard === "allowed");
      if (reserve === undefined) continue;
      const question = facts.questions[index];
      assert.ok(question !== undefined);
      const { zone, ordinal } = placeOf(facts, question);
      const name = String.fromCharCode(97 + zone);
      assert.deepEqual(reserve, { statefulSet: name, ordinal, uid: `uid-${name}-${ordinal}` });
    }
  });
});

test("a refusal names its guard in a message, and is a 429 with the cause if waiting helps", () => {
  const final = new Map([
    ["max-unavailable-zero", 403],
    ["never-possible", 403],
    ["too-few-zones", 400],
    ["partition-not-identified", 400],
    ["several-budgets", 400],
  ]);
  check((_, decisions) => {
    for (const { answer } of decisions) {
      if (answer.allowed) continue;
      assert.match(answer.message, /^\S.*\S$/);
      // What a PodDisruptionBudget can never allow gets the API server's own message.
      const isOfAnother = answer.guard === "never-possible" && /PodDisruptionBudgets? pdb-/.test(answer.message);
      assert.equal(answer.code, isOfAnother ? 429 : (final.get(answer.guard) ?? 429), answer.guard);
      assert.equal(answer.cause, answer.code === 429 ? "DisruptionBudget" : "");
      assert.equal(answer.reason === "TooManyRequests", answer.code === 429);
    }
  });
});

test("dry runs change no other answer of their batch", () => {
  check((facts, decisions) => {
    const inEarnest = facts.questions.filter(({ dryRun }) => !dryRun);
    const guards = decisions
      .filter((_, index) => facts.questions[index]?.dryRun === false)
      .map(({ answer }) => answer.guard);
    const alone = decide(render({ ...facts, questions: inEarnest })).map(({ answer }) => answer.guard);
    assert.deepEqual(guards, alone);
  });
});

test("a batch decides the same as its questions would one after the other, each reserved before the next", () => {
  const pinned = (questions: EvictionFacts["questions"]) => questions.map((one) => ({ ...one, pinned: true }));
  check(({ questions, ...rest }) => {
    const facts = { ...rest, questions: pinned(questions) };
    const decisions = decide(render(facts));
    const zones = facts.zones.map((zone) => ({ ...zone, places: [...zone.places] }));
    let { room } = facts;
    for (const [index, question] of facts.questions.entries()) {
      const [decision] = decide(render({ ...facts, zones, room, questions: [question] }));
      assert.equal(decision?.answer.guard, decisions[index]?.answer.guard);
      if (decision?.reserve === undefined || question.dryRun) continue;
      const drawn = zones[question.zone]?.places[question.place];
      assert.ok(drawn !== undefined);
      if (!isReserved({ ...facts, zones }, placeOf(facts, question))) room--;
      zones[question.zone]?.places.splice(question.place, 1, {
        ...drawn,
        reserved: "for this pod",
        reservationAgeMs: 0,
      });
    }
  });
});

test("decide is pure: it does not change its input, and answers the same again", () => {
  fc.assert(
    fc.property(evictions, (facts) => {
      const group = render(facts);
      const before = structuredClone(group.zones);
      const decisions = decide(group);
      assert.deepEqual(decide(group), decisions);
      assert.deepEqual(group.zones, before);
    }),
    { numRuns: 1_000 },
  );
});

test("the random groups meet every guard, and as many allowances as refusals", () => {
  const met = new Map<string, number>();
  let all = 0;
  for (const facts of fc.sample(evictions, { seed: 1, numRuns: fewRuns })) {
    for (const { answer } of decide(render(facts))) {
      all++;
      met.set(answer.guard, (met.get(answer.guard) ?? 0) + 1);
    }
  }
  const shareOf = (guard: string) => (met.get(guard) ?? 0) / all;
  const guards =
    `exempt out-of-scope pod-unseen several-budgets invalid-budget budget-spans-groups replacement-reserved pod-leaving
    never-possible max-unavailable-zero too-few-zones partition-not-identified partition-budget zone-departed zones-down
    zone-budget pod-disruption-budget ledger-full`.split(/\s+/);
  assert.deepEqual([...met.keys()].sort(), [...guards, "allowed"].sort());
  for (const guard of guards) assert.ok((met.get(guard) ?? 0) >= 20, `${guard}: ${met.get(guard)} of ${all}`);
  const refused = ["partition-budget", "zones-down", "zone-budget"].reduce((sum, guard) => sum + shareOf(guard), 0);
  assert.ok(shareOf("allowed") > 0.2, `${shareOf("allowed")} are allowed`);
  assert.ok(refused > 0.2, `${refused} are refused by their budget`);
});
