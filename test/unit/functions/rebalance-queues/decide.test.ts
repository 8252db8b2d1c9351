/** Decisions about a RabbitMQ cluster at one moment. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import {
  claimMs,
  decide,
  type Nodes,
  pauseMs,
  type RebalanceSnapshot,
  type RebalanceStep,
} from "../../../../functions/rebalance-queues/decide.ts";
import type { RebalanceState } from "../../../../functions/shared/annotations/rebalancing.ts";

const nowMs = Date.UTC(2026, 0, 31, 12, 0, 0, 500);
const nodes: Nodes = { digest: "now", pods: ["r-0", "r-1", "r-2"], isMixed: false };
/** A whole cluster that was rebalanced an hour ago. */
const atRest: RebalanceState = {
  uid: "u",
  members: "now",
  sinceMs: nowMs - 3_600_000,
  balanced: "now",
  balancedMs: nowMs - 3_500_000,
  claimedMs: undefined,
  failed: undefined,
};
const changed: RebalanceState = { ...atRest, balanced: "before", sinceMs: nowMs - 60_000 };
const failed = { times: 3, lastMs: nowMs - 1_000, guard: "rebalance-refused", why: "r-0 answered HTTP 500" };

function given(changes: Partial<RebalanceSnapshot> = {}): RebalanceSnapshot {
  return {
    name: "r",
    uid: "u",
    replicas: 3,
    endpoint: { url: { scheme: "http", port: 15_672 }, service: "r", secret: "s", authority: undefined },
    state: atRest,
    nodes,
    wantedMs: undefined,
    operatorMs: undefined,
    nowMs,
    settleMs: 60_000,
    ...changes,
  };
}

const wordOf = (step: RebalanceStep): string => {
  if (step.kind === "wait") return `${step.guard} ${step.requeueAfterMs}`;
  if (step.kind === "rebalance") return `rebalance ${step.pod}`;
  return step.kind === "rest" ? `rest ${step.requeueAfterMs}` : `note ${step.state.members}`;
};
const word = (changes: Partial<RebalanceSnapshot> = {}) => wordOf(decide(given(changes)));
const withState = (changes: Partial<RebalanceState>) => word({ state: { ...changed, ...changes } });

suite("whether Sluice rebalances a cluster", () => {
  test("Sluice leaves an unchanged cluster alone; it first notes changed nodes, and rebalances when they have settled", () => {
    assert.equal(word(), "rest undefined");
    assert.equal(word({ state: undefined }), "note now");
    assert.equal(word({ nodes: { ...nodes, digest: "other" } }), "note other");
    assert.equal(withState({ sinceMs: nowMs }), "settling 60000");
    assert.equal(withState({ sinceMs: nowMs - 59_999 }), "settling 1");
    assert.equal(withState({}), "rebalance r-0");
    assert.equal(word({ state: changed, settleMs: 3_600_000 }), "settling 3540000");
  });

  test("Sluice neither notes nor asks a cluster with missing nodes or with one node", () => {
    assert.equal(word({ nodes: "r-1 is terminating", state: changed }), "pods-not-ready undefined");
    assert.equal(word({ replicas: 1, nodes: "no", state: undefined }), "rest undefined");
    assert.equal(word({ replicas: 0, state: undefined }), "rest undefined");
  });

  test("Sluice serves a user's wish once, from its time on, and never within the settle time after a rebalance", () => {
    assert.equal(word({ wantedMs: nowMs }), "rebalance r-0");
    assert.equal(word({ wantedMs: nowMs + 1 }), "rest 1");
    assert.equal(word({ wantedMs: (atRest.balancedMs ?? 0) - 1_000 }), "rest undefined");
    // Users write whole seconds, so the wish may have come after what was done in that second.
    assert.equal(word({ wantedMs: (atRest.balancedMs ?? 0) - 500 }), "rebalance r-0");
    const state = { ...atRest, balancedMs: nowMs - 10_000 };
    assert.equal(word({ wantedMs: nowMs, state }), "settling 50000");
    assert.equal(word({ wantedMs: nowMs, state: { ...atRest, balancedMs: undefined } }), "rebalance r-0");
  });

  test("Sluice waits for a rollout, until the rollout has not advanced for ten minutes", () => {
    const mixed = { ...nodes, isMixed: true };
    assert.equal(word({ nodes: mixed, state: changed }), "rollout-under-way 540000");
    assert.equal(word({ nodes: mixed, state: { ...changed, sinceMs: nowMs - 600_000 } }), "rebalance r-0");
    assert.equal(word({ nodes: mixed }), "rest undefined");
  });

  test("one at a time: a claim holds for a minute, and then counts as a failure, after which each pause is longer", () => {
    assert.equal(withState({ claimedMs: nowMs }), `rebalance-under-way ${claimMs}`);
    assert.equal(withState({ claimedMs: nowMs - claimMs + 1 }), "rebalance-under-way 1");
    assert.equal(withState({ claimedMs: nowMs - claimMs }), "rebalance r-1");
    const twice = { ...failed, times: 1, lastMs: nowMs - 90_000 };
    assert.equal(withState({ claimedMs: nowMs - claimMs, failed: twice }), "rebalance r-2");
    const often = { ...failed, times: 4 };
    assert.equal(withState({ claimedMs: nowMs - claimMs, failed: often }), "rebalance-unanswered 420000");
    // If nothing is left to do, the function does not wait for it.
    assert.equal(word({ state: { ...atRest, claimedMs: nowMs } }), "rest undefined");
  });

  test("after failures Sluice asks no pod for 30 s, 60 s and so on up to 15 minutes, and reports the guard of the failure", () => {
    assert.deepEqual([1, 2, 3, 5, 6, 60].map(pauseMs), [30_000, 60_000, 120_000, 480_000, 900_000, 900_000]);
    assert.equal(withState({ failed }), "rebalance-refused 119000");
    assert.equal(withState({ failed: { ...failed, guard: "credentials-missing" } }), "credentials-missing 119000");
    assert.equal(withState({ failed: { ...failed, guard: "made-up" } }), "rebalance-unanswered 119000");
    assert.equal(withState({ failed: { ...failed, lastMs: nowMs - 120_000 } }), "rebalance r-0");
    assert.equal(withState({ failed: { ...failed, times: 7, lastMs: nowMs - 900_000 } }), "rebalance r-1");
    const step = decide(given({ state: { ...changed, failed } }));
    assert.ok(step.kind === "wait" && step.message.includes("(3 in a row): r-0 answered HTTP 500"));
  });

  test("if nodes change in the meantime, Sluice keeps claims and failures", () => {
    const state = { ...changed, members: "other", claimedMs: nowMs - 5, failed };
    const step = decide(given({ state }));
    assert.deepEqual(step, { kind: "note", state: { ...state, members: "now", sinceMs: nowMs } });
  });

  test("Sluice gives the operator five minutes from its mark, or from when all nodes are ready", () => {
    const blocked = (operatorMs: number, sinceMs = changed.sinceMs) =>
      word({ operatorMs, wantedMs: operatorMs, state: { ...changed, sinceMs } });
    assert.equal(blocked(nowMs), "operator-first 30000");
    assert.equal(blocked(nowMs - 299_999), "operator-first 30000");
    assert.equal(blocked(nowMs - 900_000), "operator-first 30000");
    assert.equal(blocked(nowMs - 900_000, nowMs - 300_000), "rebalance r-0");
    assert.equal(blocked(nowMs - 299_990, nowMs - 300_000), "operator-first 10");
    assert.equal(blocked(nowMs + 9e9, nowMs - 300_000), "rebalance r-0", "a mark from the future");
  });

  test("Sluice ignores a state of another StatefulSet, or from the future; clocks may differ by a minute", () => {
    assert.equal(withState({ uid: "v" }), "note now");
    assert.equal(withState({ sinceMs: nowMs + 60_001 }), "note now");
    assert.equal(withState({ sinceMs: nowMs + 60_000 }), "settling 120000");
    assert.equal(withState({ claimedMs: nowMs + 60_001 }), "rebalance r-0");
    assert.equal(withState({ failed: { ...failed, lastMs: nowMs + 60_001 } }), "rebalance r-0");
    assert.equal(withState({ balancedMs: nowMs + 60_001 }), "rebalance r-0");
  });
});
