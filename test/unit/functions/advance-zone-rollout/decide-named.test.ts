/** If several guards apply, the rollout names the first, and reconciles again at the earliest of their times. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Pod } from "../../../../functions/shared/workloads/pods.ts";
import { decideOn, nowMs, outcome, pod, refusal, reservation, zone, zoneBudget } from "./given.ts";

const byOrdinal = { podNamePartitionRegex: "[a-z]+-([0-9]+)" };
const delayed = zoneBudget("db", { ...byOrdinal, crossZoneEvictionDelay: "1m" });
const current = { currentRevision: "new" };
const readyFor = (name: string, seconds: number) =>
  pod(name, { revision: "new", readySinceMs: nowMs - seconds * 1000 });
const neverReadyFor = (name: string, ageMs: number) =>
  pod(name, { readySinceMs: undefined, neverReady: true, createdMs: nowMs - ageMs });
const labelled = (name: string, app: string) => pod(name, { labels: { app } });
const budgetOf = (app: string, maxUnavailable: number) =>
  zoneBudget(app, { maxUnavailable, selector: { matchLabels: { app } } });

test("of several zones in the same state the message names the first by name", () => {
  const rolling = { strategy: "RollingUpdate" };
  assert.equal(decideOn([zone("a", "o", rolling), zone("b", "o", rolling)]).zone, "a");
  const behind = { updateRevision: undefined };
  assert.equal(decideOn([zone("a", "o", behind), zone("b", "o", behind)]).zone, "a");
});

test("delete-refused names the first refused pod, in a zone at rest and in another one", () => {
  const refused = [refusal("a-0"), refusal("a-1")];
  assert.match(decideOn([zone("a", "oo")], refused).message, /^a-0 stays outdated/);
  assert.match(decideOn([zone("a", "oow")], refused).message, /^a-0 stays outdated/);
});

test("delete-refused is not named while another reservation may still end", () => {
  const reserved = [reservation("a-0"), reservation("a-1")];
  const blocked = zone("a", "ooo", { maxUnavailable: 2, reserved });
  assert.equal(outcome(decideOn([blocked], [refusal("a-0")])), "budget");
  assert.equal(outcome(decideOn([blocked], [refusal("a-0"), refusal("a-1")])), "delete-refused");
});

test("a reconcile that only repairs names the zone of the wait, or else the first zone that it repairs", () => {
  const settling = decideOn([zone("a", "bn", { updateRevision: "newest" }), zone("b", "nn")]);
  assert.equal(settling.zone, "a");
  const two = [zone("a", "Bn"), zone("b", "nb"), zone("c", "bn")];
  assert.equal(outcome(decideOn(two)), "repair b-1, repair c-0");
  assert.equal(decideOn(two).zone, "b", "zones-down is of no zone");
  const elsewhere = [zone("a", "nn"), zone("b", "oo")];
  assert.equal(outcome(decideOn(elsewhere)), "record-revision a, delete b-0");
  assert.equal(decideOn(elsewhere).zone, "b");
});

test("a take names the smallest limit that it keeps, and the first of two equal ones", () => {
  const three = (...extra: Pod[]) => zone("a", "", { replicas: extra.length, maxUnavailable: 3, extra });
  const budgets = [budgetOf("one", 2), budgetOf("two", 2)];
  const mixed = decideOn([three(labelled("a-0", "one"), pod("a-1"))], [], { budgets });
  assert.equal(outcome(mixed), "delete a-0, delete a-1");
  assert.match(mixed.message, /, 2 may be down by the budget one, although the StatefulSet allows 3$/);
  const alike = decideOn([three(labelled("a-0", "one"), labelled("a-1", "two"))], [], { budgets });
  assert.equal(outcome(alike), "delete a-0, delete a-1");
  assert.match(alike.message, /, 2 may be down by the budget one, although the StatefulSet allows 3$/);
});

test("a take says why the first of the other pods stays, if the reason is not the limit", () => {
  const unknown = zoneBudget("db", { podNamePartitionRegex: "[a-z]-([1-9])" });
  const partition = decideOn([zone("a", "ooo"), zone("b", "nnn", current)], [], { budgets: [unknown] });
  assert.equal(outcome(partition), "delete a-1");
  assert.match(partition.message, /, 1 may be down; a-0 waits: group 1 of the expression/);
  const budgets = [budgetOf("one", 2), zoneBudget("two", { selector: { matchLabels: { app: "one" } } })];
  const extra = [labelled("a-0", "one"), pod("a-1")];
  const several = decideOn([zone("a", "", { replicas: 2, extra })], [], { budgets });
  assert.equal(outcome(several), "delete a-1");
  assert.match(several.message, /, 1 may be down; the budgets one and two all select pod a-0/);
});

test("of several pods that wait for their delays the one that may go first sets the next reconcile", () => {
  const extra = [readyFor("a-0", 45), readyFor("a-1", 50), readyFor("a-2", 40)];
  const zones = [zone("a", "", { ...current, replicas: 3, extra }), zone("b", "ooo", { maxUnavailable: 3 })];
  const verdict = decideOn(zones, [], { budgets: [delayed] });
  assert.equal(outcome(verdict), "partition-budget");
  assert.equal(verdict.requeueAfterMs, 10_001);
});

test("a long delay does not postpone the next reconcile", () => {
  const peers = (drawing: string, ...extra: Pod[]) => [
    zone("a", drawing, { ...current, extra }),
    zone("b", "o".repeat(drawing.length), { maxUnavailable: 2 }),
  ];
  const waiting = decideOn(peers(".", readyFor("a-0", 5)), [], { budgets: [delayed] });
  assert.equal(outcome(waiting), "partition-budget");
  assert.equal(waiting.requeueAfterMs, 30_000);
  const taking = decideOn(peers(".n", readyFor("a-0", 5)), [], { budgets: [delayed] });
  assert.equal(outcome(taking), "delete b-1");
  assert.equal(taking.requeueAfterMs, 7_000);
});

test("while other pods go, a delay that ends before the next repair is due sets the next reconcile", () => {
  const recent = neverReadyFor("b-3", 100_000);
  const zones = [
    zone("a", "n.nn", { ...current, extra: [readyFor("a-1", 58)] }),
    zone("b", "ooo", { replicas: 4, maxUnavailable: 4, extra: [recent] }),
  ];
  const verdict = decideOn(zones, [], { budgets: [delayed] });
  assert.equal(outcome(verdict), "delete b-3, delete b-0, delete b-2");
  assert.equal(verdict.requeueAfterMs, 2_001);
});

test("a repair that is due in a millisecond sets the next reconcile to then", () => {
  const zones = [zone("a", "", { replicas: 2, extra: [neverReadyFor("a-0", 119_999)] })];
  assert.equal(decideOn(zones).requeueAfterMs, 1);
});

test("a repair names the whole seconds that have passed", () => {
  const pending = pod("a-0", { readySinceMs: undefined, neverReady: true, pending: true, createdMs: nowMs - 3_900 });
  const verdict = decideOn([zone("a", ".n", { extra: [pending] })]);
  assert.match(verdict.message, /^replacing broken outdated pods a-0 \(Pending for 3 s\)/);
});
