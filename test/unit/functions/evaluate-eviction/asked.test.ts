/** Which pods an eviction has asked, what their answers and earlier evictions permit, and which refusals may wait. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { goersOf, refuseByQuestion, type Taken } from "../../../../functions/evaluate-eviction/decide-asked.ts";
import { parseQuestion } from "../../../../functions/shared/annotations/parse-health.ts";
import type { Questions } from "../../../../functions/shared/health/permit.ts";
import { pod, zone } from "../advance-zone-rollout/given.ts";

const annotations = { "sluice.dev/health-question": "http", "sluice.dev/health-url": "http://:80/" };
const question = parseQuestion({ name: "a", uid: "u", resourceVersion: "1", annotations }, "nodes");
const own = zone("a", "oooo", { question });

/** What the ledger says of every pod: the guard of its refusal, or that nothing blocks it. */
function answering(guard?: string): Questions {
  const blocked = guard === undefined ? undefined : { guard, message: "so it is" };
  return { answers: new Map(), refuse: () => blocked, isOver: false };
}

function taken(...names: readonly string[]): Taken[] {
  return names.map((name) => ({ statefulSet: "a", ordinal: 0, uid: `uid-of-${name}`, name }));
}

const refuse = (before: readonly Taken[], guard?: string) =>
  refuseByQuestion(answering(guard), [own], own, pod("a-0"), before);

test("a pod that is asked stays beside the first other pod that its batch lets go, and not because of an eviction of its own", () => {
  for (const [before, guard, beside] of [
    [[], undefined, undefined],
    [["a-0"], undefined, undefined],
    [["a-1"], "health-beside-others", "a-1"],
    [["a-0", "a-2", "a-1"], "health-beside-others", "a-2"],
  ] as const) {
    const answer = refuse(taken(...before));
    const named = /^a-\d/.exec(answer?.message ?? "")?.[0];
    assert.deepEqual([answer?.guard, named], [guard, beside], before.join());
  }
});

test("a review waits only for a refusal that ends by itself, and reports a bad answer at once", () => {
  for (const [guard, curedInMs] of [
    ["health-stale", 0],
    ["health-beside-others", 0],
    ["health-bad", undefined],
    ["health-unknown", undefined],
  ] as const) {
    const answer = refuse([], guard);
    assert.deepEqual([answer?.guard, answer?.code, answer?.zone, answer?.curedInMs], [guard, 429, "a", curedInMs]);
  }
});

test("Sluice asks exactly the pods that decisions let go, wanted or leaving, and none that its zones do not have", () => {
  const zones = [zone("a", "ooo", { extra: [pod("a-3")] }), zone("b", "ooo")];
  const reserve = (statefulSet: string, ordinal: number, uid = `uid-of-${statefulSet}-${ordinal}`) => ({
    answer: { allowed: true, guard: "allowed", warnings: [] } as const,
    reserve: { statefulSet, ordinal, uid },
  });
  const asked = (...decisions: Parameters<typeof goersOf>[1]) =>
    goersOf(zones, decisions).map((one) => [one.statefulSet.name, one.pod.name]);
  assert.deepEqual(asked(reserve("b", 1), reserve("a", 3)), [
    ["b", "b-1"],
    ["a", "a-3"],
  ]);
  const { answer } = reserve("a", 1);
  assert.deepEqual(asked(reserve("a", 1, "another"), reserve("c", 0), reserve("b", 0, "uid-of-a-0"), { answer }), []);
});
