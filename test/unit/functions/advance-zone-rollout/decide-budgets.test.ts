/** Rollouts under ZoneAwarePodDisruptionBudgets: the smaller of the two limits holds, for a zone or for a partition. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { StoredBudget } from "../../../../functions/shared/groups/governing.ts";
import type { Zone } from "../../../../functions/shared/groups/zones.ts";
import type { Pod } from "../../../../functions/shared/workloads/pods.ts";
import { Harness, key } from "../../shared/reconcile/harness.ts";
import { decideOn, nowMs, outcome, pod, refusal, reservation, statefulSet, zone, zoneBudget } from "./given.ts";

const byOrdinal = { podNamePartitionRegex: "[a-z]+-([0-9]+)" };
const current = { currentRevision: "new" };

const under = (budget: StoredBudget, ...zones: Zone[]) => decideOn(zones, [], { budgets: [budget] });

test("in zone mode the smaller of rollout-max-unavailable and the budget applies", () => {
  const four = (maxUnavailable: number) => zone("a", "oooo", { maxUnavailable });
  assert.equal(outcome(under(zoneBudget("db", { maxUnavailable: 2 }), four(3))), "delete a-0, delete a-1");
  assert.equal(outcome(under(zoneBudget("db", { maxUnavailable: 3 }), four(2))), "delete a-0, delete a-1");
  assert.equal(outcome(under(zoneBudget("db", {}), four(3))), "delete a-0");
  const half = zoneBudget("db", { maxUnavailablePercentage: 50 });
  assert.equal(outcome(under(half, four(9))), "delete a-0, delete a-1");
  assert.equal(outcome(under(half, zone("a", "oooo", { maxUnavailable: 9, countedReplicas: 3 }))), "delete a-0");
});

test("a budget that allows nothing forbids evictions but no rollout, to which the StatefulSet's own limit applies", () => {
  const zones = [zone("a", "ooo", { maxUnavailable: 2 }), zone("b", "ooo")];
  for (const spec of [{ maxUnavailable: 0 }, { maxUnavailablePercentage: 0 }]) {
    assert.equal(outcome(under(zoneBudget("db", spec), ...zones)), "delete a-0, delete a-1");
  }
  const uncounted = zone("a", "ooo", { maxUnavailable: 2, countedReplicas: 0 });
  assert.equal(outcome(under(zoneBudget("db", { maxUnavailablePercentage: 34 }), uncounted)), "delete a-0, delete a-1");
});

test("zone-budget: pods that are down or reserved by any function have used up the budget", () => {
  const evicted = reservation("a-0", { by: "evaluate-eviction" });
  const verdict = under(zoneBudget("db", {}), zone("a", "ooo", { maxUnavailable: 2, reserved: [evicted] }));
  assert.equal(outcome(verdict), "zone-budget");
  assert.equal(verdict.zone, "a");
  assert.equal(
    verdict.message,
    "a: 1 of 3 down (1 reserved), 1 may be down by the budget db, although the StatefulSet allows 2; 3 outdated pods wait",
  );
  assert.equal(verdict.requeueAfterMs, 7_000);
  assert.equal(outcome(under(zoneBudget("db", {}), zone("a", "woo", { maxUnavailable: 2 }))), "zone-budget");
});

test("budget: the StatefulSet's own limit is named if both are used up, or if it is the smaller", () => {
  assert.equal(outcome(under(zoneBudget("db", { maxUnavailable: 2 }), zone("a", "woo"))), "budget");
  assert.equal(outcome(under(zoneBudget("db", {}), zone("a", "woo"))), "budget");
  assert.equal(outcome(under(zoneBudget("db", {}), zone("a", "wwo", { maxUnavailable: 2 }))), "budget");
  const same = under(zoneBudget("db", { maxUnavailable: 2 }), zone("a", "wwo", { maxUnavailable: 2 }));
  assert.equal(outcome(same), "budget", "also where the budget allows as many");
});

test("a pod that is already down goes within the budget at no further cost, but not if more pods are down than it allows", () => {
  assert.equal(outcome(under(zoneBudget("db", {}), zone("a", "oxo", { maxUnavailable: 3 }))), "delete a-1");
  assert.equal(outcome(under(zoneBudget("db", {}), zone("a", "oxw", { maxUnavailable: 3 }))), "zone-budget");
});

test("a take names the limit that it keeps", () => {
  const verdict = under(zoneBudget("db", {}), zone("a", "ooo", { maxUnavailable: 2 }));
  const message =
    "rolling a: 1 of 3 outdated pods go now, 1 may be down by the budget db, although the StatefulSet allows 2";
  assert.equal(verdict.message, message);
  const own = under(zoneBudget("db", { maxUnavailable: 5 }), zone("a", "ooo", { maxUnavailable: 2 }));
  assert.equal(own.message, "rolling a: 2 of 3 outdated pods go now, 2 may be down");
});

test("a budget governs the pods that it selects by their labels, and if one of them goes, the pods that go with it count", () => {
  const labelled = (name: string) => pod(name, { labels: { app: "db" } });
  const budgets = [zoneBudget("db", { selector: { matchLabels: { app: "db" } } })];
  const three = (...extra: Pod[]) =>
    outcome(decideOn([zone("a", "", { replicas: 3, maxUnavailable: 3, extra })], [], { budgets }));
  assert.equal(three(pod("a-0"), pod("a-1"), labelled("a-2")), "delete a-0, delete a-1");
  assert.equal(three(labelled("a-0"), labelled("a-1"), pod("a-2")), "delete a-0");
});

test("in partition mode a pod goes if its partition, over all zones, is below the budget", () => {
  const zones = [zone("a", "ooo", { maxUnavailable: 2 }), zone("b", "ooo"), zone("c", "ooo")];
  assert.equal(outcome(under(zoneBudget("db", byOrdinal), ...zones)), "delete a-0, delete a-1");
  assert.equal(
    outcome(under(zoneBudget("db", { ...byOrdinal, maxUnavailable: 0 }), ...zones)),
    "delete a-0, delete a-1",
  );
});

test("in partition mode the rollout's own limit applies to the zone as it does without a budget", () => {
  const spent = zone("a", "wo", { maxUnavailable: 1 });
  assert.equal(outcome(under(zoneBudget("db", { ...byOrdinal, maxUnavailable: 5 }), spent, zone("b", "oo"))), "budget");
  assert.equal(outcome(under(zoneBudget("db", byOrdinal), zone("a", "ooo"), zone("b", "ooo"))), "delete a-0");
});

test("in partition mode a rollout goes on beside a zone that wants no pods, as a migration to partitions leaves it", () => {
  const zones = [zone("a", "ooo", { maxUnavailable: 2 }), zone("old", "", current)];
  assert.equal(outcome(under(zoneBudget("db", byOrdinal), ...zones)), "delete a-0, delete a-1");
});

test("partition-budget: a zone without a pod of the partition counts as one unknown pod; later pods go on", () => {
  const zones = [zone("a", "ooo", { maxUnavailable: 3 }), zone("b", "oo")];
  const verdict = under(zoneBudget("db", byOrdinal), ...zones);
  assert.equal(outcome(verdict), "delete a-0, delete a-1");
  assert.equal(
    verdict.message,
    "rolling a: 2 of 3 outdated pods go now, 3 may be down; a-2 waits: 1 pod unknown in partition 2, and the budget db lets 1 be down there",
  );
  const last = under(zoneBudget("db", byOrdinal), zone("a", "nno"), zone("b", "nn", current));
  assert.equal(outcome(last), "partition-budget");
  assert.equal(last.zone, "a");
  assert.equal(
    last.message,
    "a-2 waits: 1 pod unknown in partition 2, and the budget db lets 1 be down there; 1 outdated pods wait",
  );
  assert.equal(last.requeueAfterMs, 30_000);
  assert.equal(
    outcome(under(zoneBudget("db", { ...byOrdinal, maxUnavailable: 2 }), ...zones)),
    "delete a-0, delete a-1, delete a-2",
  );
});

test("pods of one zone in the same partition count for each other, including those that this reconcile takes", () => {
  const whole = { podNamePartitionRegex: "([a-z])+-[0-9]+" };
  const alone = (drawing: string, spec: object) =>
    outcome(under(zoneBudget("db", { ...whole, ...spec }), zone("a", drawing, { maxUnavailable: 3 })));
  assert.equal(alone("oooo", {}), "delete a-0");
  assert.equal(alone("oooo", { maxUnavailable: 2 }), "delete a-0, delete a-1");
  assert.equal(alone("owoo", { maxUnavailable: 2 }), "delete a-0");
  assert.equal(alone("owoo", {}), "partition-budget");
  assert.equal(alone("oxoo", {}), "delete a-1", "its own slot is not counted twice");
  assert.equal(alone("oxoo", { maxUnavailable: 2 }), "delete a-1, delete a-0");
});

test("a reserved pod of the partition blocks its other pods, also if another function reserved it", () => {
  const evicted = { by: "evaluate-eviction", uid: "evicted" };
  const whole = zoneBudget("db", { podNamePartitionRegex: "([a-z])+-[0-9]+" });
  const own = zone("a", "nooo", { maxUnavailable: 3, reserved: [reservation("a-0", evicted)] });
  assert.equal(outcome(under(whole, own)), "partition-budget");
});

test("zones-down: if evictions under a partition budget took pods of two zones, the rollout waits (Z1)", () => {
  const evicted = (name: string) => reservation(name, { by: "evaluate-eviction" });
  const zones = [
    zone("a", "ooo", { maxUnavailable: 2, reserved: [evicted("a-0")] }),
    zone("b", "ooo", { reserved: [evicted("b-1")] }),
  ];
  assert.equal(outcome(under(zoneBudget("db", byOrdinal), ...zones)), "zones-down");
  const one = [zone("a", "ooo", { maxUnavailable: 2, reserved: [evicted("a-0")] }), zone("b", "ooo")];
  assert.equal(outcome(under(zoneBudget("db", byOrdinal), ...one)), "delete a-1");
});

test("the cross-zone delay blocks a pod until its peers have been ready for longer, and the message says until when", () => {
  const back = (seconds: number) => pod("a-0", { revision: "new", readySinceMs: nowMs - seconds * 1000 });
  const zones = (seconds: number) => [
    zone("a", ".n", { ...current, extra: [back(seconds)] }),
    zone("b", "on", { maxUnavailable: 2 }),
  ];
  const budget = zoneBudget("db", { ...byOrdinal, crossZoneEvictionDelay: "1m" });
  const verdict = under(budget, ...zones(45));
  assert.equal(outcome(verdict), "partition-budget");
  assert.equal(
    verdict.message,
    "b-0 waits: 1 pod not ready in partition 0, and the budget db lets 1 be down there, the first of them in 16 s by its cross-zone delay; 1 outdated pods wait",
  );
  assert.equal(verdict.requeueAfterMs, 15_001);
  assert.equal(outcome(under(budget, ...zones(60))), "partition-budget");
  assert.equal(outcome(under(budget, ...zones(61))), "delete b-0");
});

test("while other pods go, the next reconcile comes no later than the end of the first delay", () => {
  const back = pod("a-1", { revision: "new", readySinceMs: nowMs - 58_000 });
  const zones = [zone("a", "n.n", { ...current, extra: [back] }), zone("b", "ooo", { maxUnavailable: 3 })];
  const verdict = under(zoneBudget("db", { ...byOrdinal, crossZoneEvictionDelay: "1m" }), ...zones);
  assert.equal(outcome(verdict), "delete b-0, delete b-2");
  assert.equal(verdict.requeueAfterMs, 2_001);
});

test("partition-not-identified: a pod whose name does not match waits, the others go on", () => {
  const budget = zoneBudget("db", { podNamePartitionRegex: "[a-z]-([1-9])" });
  const zones = (drawing: string) => [zone("a", drawing), zone("b", "nnn", current)];
  assert.equal(outcome(under(budget, ...zones("ooo"))), "delete a-1");
  const verdict = under(budget, ...zones("onn"));
  assert.equal(outcome(verdict), "partition-not-identified");
  assert.equal(
    verdict.message,
    "a-0 waits: group 1 of the expression [a-z]-([1-9]) in the budget db finds nothing in its name, so its partition is not known; 1 outdated pods wait",
  );
});

test("several-budgets: a pod that two budgets select waits, and its zone blocks no other zone", () => {
  const budgets = [zoneBudget("one", {}), zoneBudget("two", { selector: { matchLabels: { name: "a" } } })];
  const zones = [zone("a", "oo"), zone("b", "oo")];
  assert.equal(outcome(decideOn(zones, [], { budgets })), "delete b-0");
  const verdict = decideOn([zone("a", "oo"), zone("b", "nn", current)], [], { budgets });
  assert.equal(outcome(verdict), "several-budgets");
  assert.equal(verdict.zone, "a");
  assert.equal(
    verdict.message,
    "the budgets one and two all select pod a-0, and only one may: change the selector of one of them; 2 outdated pods wait",
  );
});

test("invalid-budget: a stored budget that cannot be kept blocks the pods that it may govern", () => {
  const budgets = [zoneBudget("db", { maxUnavailable: -1 })];
  const verdict = decideOn([zone("a", "oo")], [], { budgets });
  assert.equal(outcome(verdict), "invalid-budget");
  assert.match(verdict.message, /^the budget db, which may govern pod a-0, is invalid: spec.maxUnavailable is -1/);
  const elsewhere = [zoneBudget("db", { maxUnavailable: -1, selector: { matchLabels: { app: "other" } } })];
  assert.equal(outcome(decideOn([zone("a", "oo")], [], { budgets: elsewhere })), "delete a-0");
});

test("budget-spans-groups: a budget that selects StatefulSets of another group cannot be kept by one ledger (R1)", () => {
  const budgets = [zoneBudget("db", { selector: { matchLabels: {} } })];
  const neighbours = [statefulSet("other", { group: "elsewhere" })];
  const verdict = decideOn([zone("a", "oo")], [], { budgets, neighbours });
  assert.equal(outcome(verdict), "budget-spans-groups");
  assert.match(
    verdict.message,
    /^the budget db selects StatefulSets of rollout-group "group" and other of rollout-group "elsewhere", and/,
  );
  assert.equal(outcome(decideOn([zone("a", "oo")], [], { budgets })), "delete a-0");
});

test("no budget blocks repairs, because they cost nothing (R13)", () => {
  const budgets = [zoneBudget("one", {}), zoneBudget("two", {})];
  assert.equal(outcome(decideOn([zone("a", "bo"), zone("b", "bo")], [], { budgets })), "repair a-0, repair b-0");
  assert.equal(outcome(under(zoneBudget("db", { maxUnavailable: -1 }), zone("a", "bo"))), "repair a-0");
});

test("a whole zone whose pods all wait for their budgets blocks no other zone", () => {
  const peerless = [zone("a", "nno"), zone("b", "oo")];
  assert.equal(outcome(under(zoneBudget("db", byOrdinal), ...peerless)), "delete b-0");
  const settling = [zone("a", "nno"), zone("b", "ow")];
  assert.equal(outcome(under(zoneBudget("db", byOrdinal), ...settling)), "budget");
});

test("of the zones that wait for their budgets the message names the first, and the zone whose wait ends first sets the next reconcile", () => {
  const back = (name: string, seconds: number) => pod(name, { revision: "old", readySinceMs: nowMs - seconds * 1000 });
  const one = (name: string, seconds: number) => zone(name, "", { replicas: 1, extra: [back(`${name}-0`, seconds)] });
  const budget = zoneBudget("db", { ...byOrdinal, crossZoneEvictionDelay: "1m" });
  const verdict = under(budget, one("a", 50), one("b", 35), one("c", 45));
  assert.equal(outcome(verdict), "partition-budget");
  assert.equal(verdict.zone, "a");
  assert.equal(verdict.requeueAfterMs, 10_001);
});

test("delete-refused is named if the refused deletion's own reservation is all that is down, also under a budget", () => {
  const blocked = zone("a", "oo", { maxUnavailable: 2, reserved: [reservation("a-0")] });
  assert.equal(outcome(decideOn([blocked], [refusal("a-0")], { budgets: [zoneBudget("db", {})] })), "delete-refused");
  const peerless = [zone("a", "oo", { maxUnavailable: 2 }), zone("b", "n", current)];
  const verdict = decideOn(peerless, [refusal("a-0")], { budgets: [zoneBudget("db", byOrdinal)] });
  assert.equal(outcome(verdict), "partition-budget", "what keeps a-1 is its partition");
});

for (const kind of ["lists", "watches"]) {
  test(`a reconcile keeps the budgets of its namespace, with views made of ${kind}`, async () => {
    const harness = await new Harness({ replicas: 3, maxUnavailable: 3 }).prepare();
    const selector = { matchLabels: { "rollout-group": key.group } };
    const spec = { maxUnavailable: 1, selector };
    harness.world.store.create("zoneawarepoddisruptionbudgets", key.namespace, { metadata: { name: "db" }, spec });
    if (kind === "watches") await harness.watch();
    await harness.run();
    assert.equal(harness.acts.length, 1);
    assert.match(
      harness.verdicts.at(-1)?.message ?? "",
      /1 may be down by the budget db, although the StatefulSet allows 3/,
    );
    await harness.run();
    assert.equal(harness.guard, "zone-budget");
    assert.equal(harness.acts.length, 1);
  });
}
