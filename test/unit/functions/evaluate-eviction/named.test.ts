/** The content of a refusal: what is counted, what is named, and when to ask again. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decideAlone } from "../../../../functions/evaluate-eviction/decide-alone.ts";
import type { Refusal } from "../../../../functions/shared/ledger/reservation.ts";
import { nowMs, pod, reservation, statefulSet, zone, zoneBudget } from "../advance-zone-rollout/given.ts";
import { guards, refusal } from "./given-evictions.ts";

function givenUp(name: string, agoMs: number): [string, Refusal] {
  const uid = `uid-of-${name}`;
  return [uid, { uid, pod: name, message: `${name} was given up`, stampMs: nowMs - agoMs, by: "evaluate-eviction" }];
}

test("rollout-first: the turn lasts until the time of the pod that was given up last, whatever their order", () => {
  const zones = [zone("a", "oooo"), zone("b", "oooo")];
  const both = [givenUp("a-1", 50_000), givenUp("a-2", 5_000)] as const;
  for (const order of [both, both.toReversed()]) {
    assert.match(
      refusal(zones, "a-0", { givenUp: new Map(order) }).message,
      /refused the evictions of a-2, .+ goes first for 55 s more; a-0 may go then$/,
    );
  }
});

test("rollout-first: a rollout with a single pod to take also has its turn", () => {
  const zones = [zone("a", "nnn"), zone("b", "nno")];
  assert.deepEqual(guards(zones, ["a-0"], { givenUp: new Map([givenUp("a-1", 0)]) }), ["rollout-first"]);
});

test("a reserved pod that is gone and not back is reported as unknown", () => {
  const evicted = zone("a", "o.o", { reserved: [reservation("a-1", { uid: "evicted" })] });
  const answer = refusal([evicted, zone("b", "ooo")], "a-0");
  assert.equal(answer.guard, "zone-budget");
  assert.match(answer.message, /^1 pod unknown in a: 1 may be/);
});

test("zones-down: the message does not name pods that a scale-down removes beside those that are down", () => {
  const shrinking = zone("b", "o.x", { extra: [pod("b-3")] });
  const answer = refusal([zone("a", "ooo"), shrinking], "a-0");
  assert.match(answer.message, /^1 pod not ready, 1 pod unknown in b: no pod of a goes/);
});

test("pod-unseen: a pod with another StatefulSet's name is not reserved as one of its owner's", () => {
  const zones = [zone("a", "oo", { extra: [pod("foreign-7", { ownerUid: "uid-of-a" })] }), zone("b", "oo")];
  assert.deepEqual(guards(zones, ["foreign-7"]), ["pod-unseen"]);
});

test("a mistake in the cluster's objects has the reason BadRequest with 400, and InternalError with 500", () => {
  const alone = refusal([zone("a", "ooo")], "a-0");
  assert.deepEqual([alone.guard, alone.code, alone.reason], ["too-few-zones", 400, "BadRequest"]);
  const several = { budgets: [zoneBudget("one", {}), zoneBudget("two", {})] };
  const both = refusal([zone("a", "ooo"), zone("b", "ooo")], "a-0", several);
  assert.deepEqual([both.guard, both.code, both.reason], ["several-budgets", 400, "BadRequest"]);
  const answer = ownerless([zoneBudget("budget", {})], "ReplicaSet");
  assert.deepEqual("reason" in answer && [answer.guard, answer.code, answer.reason], [
    "no-statefulset",
    500,
    "InternalError",
  ]);
});

test("an answer about a pod without a StatefulSet names no zone", () => {
  const answer = ownerless([]);
  assert.deepEqual("guard" in answer && [answer.guard, answer.zone], ["out-of-scope", ""]);
});

function ownerless(budgets: ReturnType<typeof zoneBudget>[], ownerKind = "StatefulSet") {
  const eviction = { name: "a-0", uid: "uid-of-a-0", isPinned: true, pin: [] };
  const surroundings = { workloads: [statefulSet("a")], neighbours: [], budgets };
  return decideAlone({ eviction, pod: pod("a-0", { ownerKind }), owner: undefined, surroundings, claims: [] });
}
