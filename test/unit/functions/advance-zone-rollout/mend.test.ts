/** The rollout heals a group: it replaces outdated pods that are down, zone by zone (R13). Zones are drawn as in given.ts. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { neverReadyAfterMs } from "../../../../functions/advance-zone-rollout/repair.ts";
import {
  claimOf,
  decideOn,
  nowMs,
  outcome,
  pod,
  refusal,
  reservation,
  statefulSet,
  zone,
  zoneBudget,
} from "./given.ts";

const rabbit = statefulSet("a", {
  question: { ask: undefined, unknown: "stay", malformed: [] } as never,
});

test("a rollout replaces outdated pods that are down in several zones first in one zone, as many as its limit allows", () => {
  const limited = (maxUnavailable: number) => [
    zone("a", "xxxo", { maxUnavailable }),
    zone("b", "xoo", { maxUnavailable }),
    zone("c", "ooo", { maxUnavailable }),
  ];
  assert.equal(outcome(decideOn(limited(1))), "repair a-0");
  assert.equal(outcome(decideOn(limited(2))), "repair a-0, repair a-1");
  const verdict = decideOn(limited(1));
  assert.match(
    verdict.message,
    /^replacing broken outdated pods a-0 \(not ready\); pods are down in more than one zone/,
  );
});

test("a zone all of whose pods are down is replaced in steps of its limit, though more are down than that", () => {
  assert.equal(outcome(decideOn([zone("a", "xxx"), zone("b", "ooo")])), "repair a-0");
  assert.equal(outcome(decideOn([zone("a", "txx"), zone("b", "ooo")])), "budget");
  assert.equal(outcome(decideOn([zone("a", "wxx"), zone("b", "ooo")])), "budget");
  assert.equal(outcome(decideOn([zone("a", ".xx"), zone("b", "ooo")])), "budget");
  assert.equal(outcome(decideOn([zone("a", "nxx"), zone("b", "ooo")])), "repair a-1");
});

test("the next zone begins when the pods of the first are ready, or have had two minutes", () => {
  const recent = (forMs: number) => pod("a-0", { revision: "new", readySinceMs: undefined, createdMs: nowMs - forMs });
  const zones = (forMs: number) => [zone("a", "", { replicas: 1, extra: [recent(forMs)] }), zone("b", "xo")];
  assert.equal(outcome(decideOn(zones(neverReadyAfterMs - 1))), "zones-down");
  assert.equal(outcome(decideOn(zones(neverReadyAfterMs))), "repair b-0");
  assert.equal(outcome(decideOn([zone("a", "to"), zone("b", "xo")])), "zones-down");
  assert.equal(outcome(decideOn([zone("a", "nn"), zone("b", "xx")])), "repair b-0, record-revision a");
});

test("a rollout does not replace in this way a healthy pod, one that only waits for minReadySeconds, or one of a paused zone", () => {
  assert.equal(outcome(decideOn([zone("a", "ooo."), zone("b", "oo.")])), "zones-down");
  const settling = { minReadySeconds: 3_600 };
  assert.equal(outcome(decideOn([zone("a", "oo", settling), zone("b", "oo", settling)])), "zones-down");
  assert.equal(outcome(decideOn([zone("a", "xo", { paused: true }), zone("b", "xo")])), "repair b-0");
});

test("a rollout leaves pods alone that are reserved, claimed or were refused, and the others of the zone go (R10, R18)", () => {
  const others = zone("b", "xo");
  const reserved = [reservation("a-0", { by: "evaluate-eviction" })];
  assert.equal(outcome(decideOn([zone("a", "xxo", { reserved, maxUnavailable: 2 }), others])), "repair a-1");
  assert.equal(outcome(decideOn([zone("a", "xxo", { reserved }), others])), "zones-down");
  const claims = [claimOf("a:0", "process")];
  assert.equal(outcome(decideOn([zone("a", "xxo", { claims, maxUnavailable: 2 }), others])), "repair a-1");
  assert.equal(outcome(decideOn([zone("a", "xxo"), others], [refusal("a-0")])), "repair a-1");
});

test("the smaller limit of a budget applies, but not that of a partition, because its pods are down already", () => {
  const zones = [zone("a", "xxo", { maxUnavailable: 3 }), zone("b", "xxo")];
  assert.equal(outcome(decideOn(zones)), "repair a-0, repair a-1");
  const budgets = [zoneBudget("budget", { maxUnavailable: 1 })];
  assert.equal(outcome(decideOn(zones, [], { budgets })), "repair a-0");
  const partitioned = [zoneBudget("budget", { maxUnavailable: 1, podNamePartitionRegex: "[a-z]+-([0-9]+)" })];
  assert.equal(outcome(decideOn(zones, [], { budgets: partitioned })), "repair a-0, repair a-1");
});

test("a pod whose StatefulSet asks about health stays while another one is down (Q1)", () => {
  const { question } = rabbit;
  assert.equal(outcome(decideOn([zone("a", "xo", { question }), zone("b", "xo", { question })])), "zones-down");
});
