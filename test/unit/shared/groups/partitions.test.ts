/** Which pods of a partition are down, over all zones, besides the pod that must go. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  countPartition,
  describeCount,
  maxMissingByPartition,
} from "../../../../functions/shared/groups/partitions.ts";
import type { ZoneBudget } from "../../../../functions/shared/groups/zone-budget.ts";
import type { Zone } from "../../../../functions/shared/groups/zones.ts";
import { mostReplicas, nowMs, pod, reservation, zone, zoneBudget } from "../../functions/advance-zone-rollout/given.ts";

function budgetOf(spec: object = {}): ZoneBudget {
  const { parsed } = zoneBudget("db", { podNamePartitionRegex: "[a-z]+-([0-9]+)", ...spec });
  return "budget" in parsed ? parsed.budget : assert.fail(parsed.message);
}

/** In partition 0, when `a-0` must go. */
function count(zones: readonly Zone[], budget = budgetOf()) {
  const leaving = zones[0]?.pods.find(({ name }) => name === "a-0");
  assert.ok(leaving);
  return countPartition(zones, leaving, "0", budget, nowMs);
}

const readyFor = (name: string, seconds: number, changes: object = {}) =>
  pod(name, { readySinceMs: nowMs - seconds * 1000, ...changes });
const one = (name: string, ...extra: ReturnType<typeof pod>[]) => zone(name, "", { replicas: 1, extra });
const nothing = { notReady: 0, unknown: 0, nextReadyInMs: undefined };

test("a pod may go if all pods of its partition are ready, whatever is down in other partitions", () => {
  assert.deepEqual(count([zone("a", "o"), zone("b", "n"), zone("c", "o")]), nothing);
  assert.deepEqual(count([zone("a", "ow"), zone("b", "n."), zone("c", "ot")]), nothing);
});

test("pods of the partition that are unready, terminating or reserved count as not ready, except for the pod itself", () => {
  const taken = zone("c", "o", { reserved: [reservation("c-0")] });
  assert.deepEqual(count([zone("a", "x"), zone("b", "w"), taken, zone("d", "t")]), { ...nothing, notReady: 3 });
  const itself = zone("a", "o", { reserved: [reservation("a-0", { uid: "before" })] });
  assert.deepEqual(count([itself, zone("b", "o")]), nothing);
});

test("a pod that has been ready for less than minReadySeconds counts as not ready", () => {
  const recent = zone("b", "", { replicas: 1, minReadySeconds: 30, extra: [readyFor("b-0", 29)] });
  assert.equal(count([zone("a", "o"), recent]).notReady, 1);
  const old = zone("b", "", { replicas: 1, minReadySeconds: 30, extra: [readyFor("b-0", 30)] });
  assert.equal(count([zone("a", "o"), old]).notReady, 0);
});

test("a missing pod that is wanted counts as unknown, under the name that it would have", () => {
  assert.deepEqual(count([zone("a", "o"), zone("b", "."), zone("c", ".o")]), { ...nothing, unknown: 2 });
  const byLastDigit = budgetOf({ podNamePartitionRegex: "[a-z]+-1?([0-9])" });
  const twoOfIt = zone("b", `.${"n".repeat(9)}.`);
  assert.deepEqual(count([zone("a", "o"), twoOfIt], byLastDigit), { ...nothing, unknown: 2 });
});

test("beyond 10,000 missing pods Sluice makes up no names, so that all of them count in every partition", () => {
  const missing = (pods: number) => zone("b", "o", { replicas: 1 + pods });
  assert.equal(maxMissingByPartition, 10_000, "each costs a name");
  assert.deepEqual(count([zone("a", "o"), missing(maxMissingByPartition)]), nothing);
  const unknown = maxMissingByPartition + 1;
  assert.deepEqual(count([zone("a", "o"), missing(unknown)]), { ...nothing, unknown });
  assert.deepEqual(count([zone("a", "o", { replicas: mostReplicas })]), { ...nothing, unknown: mostReplicas - 1 });
});

test("a pod that is missing and reserved counts once", () => {
  const missing = zone("b", ".", { reserved: [reservation("b-0")] });
  assert.deepEqual(count([zone("a", "o"), missing]), { ...nothing, unknown: 1 });
});

test("a reserved ordinal that is not wanted and has no pod counts as not ready", () => {
  const shrunk = zone("b", "", { reserved: [reservation("b-0")] });
  assert.deepEqual(count([zone("a", "o"), shrunk]), { ...nothing, notReady: 1 });
  const another = zone("b", "n", { reserved: [reservation("b-7")] });
  assert.deepEqual(count([zone("a", "o"), another]), nothing, "it is in another partition");
});

test("pods that are being scaled away count as long as they exist", () => {
  const leaving = (changes: object) => zone("b", "", { extra: [pod("b-0", changes)] });
  assert.deepEqual(count([zone("a", "o"), leaving({})]), nothing);
  const terminating = { terminating: true, readySinceMs: undefined };
  assert.deepEqual(count([zone("a", "o"), leaving(terminating)]), { ...nothing, notReady: 1 });
});

test("a zone of the budget that wants pods and has none of the partition counts as one unknown (rollout-operator#370)", () => {
  const other = (name: string) => zone(name, "o", { start: 1 });
  assert.deepEqual(count([zone("a", "o"), other("b")]), { ...nothing, unknown: 1 });
  assert.deepEqual(count([zone("a", "o"), other("b"), other("c")]), { ...nothing, unknown: 2 });
  assert.deepEqual(count([zone("a", "o"), zone("b", ""), other("c")]), { ...nothing, unknown: 1 }, "b wants no pods");
});

test("a zone with one pod of the partition has not lost it, even if others of it are missing or reserved", () => {
  const byLastDigit = budgetOf({ podNamePartitionRegex: "[a-z]+-1?([0-9])" });
  const ten = "n".repeat(10);
  assert.deepEqual(count([zone("a", "o"), zone("b", `${ten}.`)], byLastDigit), { ...nothing, unknown: 1 });
  const taken = zone("b", ten, { reserved: [reservation("b-10")] });
  assert.deepEqual(count([zone("a", "o"), taken], byLastDigit), { ...nothing, notReady: 1 });
});

test("the pods of a zone are sorted by partition once for each budget, however many decisions follow", () => {
  const budget = budgetOf();
  const { partitions } = budget;
  assert.ok(partitions !== undefined);
  let asked = 0;
  const partitionOf = (name: string) => {
    asked++;
    return partitions.partitionOf(name);
  };
  const counting = { ...budget, partitions: { ...partitions, partitionOf } };
  const zones = [zone("a", "oooo"), zone("b", "oo..")];
  for (const leaving of zones[0]?.pods ?? []) {
    countPartition(zones, leaving, String(leaving.ordinal), counting, nowMs);
  }
  assert.equal(asked, 8, "once for each name, missing pods included");
});

test("a StatefulSet of the group that the budget does not select needs no pod of the partition", () => {
  const foreign = zone("queue", "", { podLabels: { app: "queue" } });
  assert.deepEqual(count([zone("a", "o"), zone("b", "o"), foreign]), nothing);
});

test("other pods of the same zone and partition also count, and each budget uses its own expression", () => {
  const zones = [zone("a", "owt"), zone("b", "oo")];
  assert.deepEqual(count(zones), nothing);
  const byZone = budgetOf({ podNamePartitionRegex: "([a-z])-[0-9]+" });
  const [leaving] = zones[0]?.pods ?? [];
  assert.ok(leaving);
  assert.deepEqual(countPartition(zones, leaving, "a", byZone, nowMs), { ...nothing, notReady: 2, unknown: 1 });
  assert.deepEqual(count(zones), nothing);
});

test("with a cross-zone delay a peer in another zone counts as ready only after it has been ready for longer", () => {
  const budget = budgetOf({ crossZoneEvictionDelay: "1m" });
  const counted = (...seconds: number[]) => {
    const peers = seconds.map((age, index) => one("bcd".charAt(index), readyFor(`${"bcd".charAt(index)}-0`, age)));
    return count([one("a", readyFor("a-0", 0)), ...peers], budget);
  };
  assert.deepEqual(counted(59), { notReady: 1, unknown: 0, nextReadyInMs: 1_001 });
  assert.deepEqual(
    counted(60),
    { notReady: 1, unknown: 0, nextReadyInMs: 1 },
    "longer than the delay, and not equally long",
  );
  assert.deepEqual(counted(61), nothing);
  assert.deepEqual(counted(10, 40, 61), { notReady: 2, unknown: 0, nextReadyInMs: 20_001 });
  const shortest = budgetOf({ crossZoneEvictionDelay: "1ms" });
  const both = [one("a", readyFor("a-0", 0)), one("b", readyFor("b-0", 0))];
  assert.deepEqual(count(both, shortest), { notReady: 1, unknown: 0, nextReadyInMs: 2 });
});

test("the cross-zone delay does not apply within a zone", () => {
  const budget = budgetOf({ podNamePartitionRegex: "([a-z])-[0-9]+", crossZoneEvictionDelay: "1m" });
  const zones = [zone("a", "", { replicas: 2, extra: [readyFor("a-0", 5), readyFor("a-1", 5)] })];
  const [leaving] = zones[0]?.pods ?? [];
  assert.ok(leaving);
  assert.deepEqual(countPartition(zones, leaving, "a", budget, nowMs), nothing);
});

test("with a delay a peer that became ready at an unknown time never counts as ready, and time alone does not help", () => {
  const budget = budgetOf({ crossZoneEvictionDelay: "1m" });
  const timeless = one("b", pod("b-0", { readySinceMs: Number.POSITIVE_INFINITY }));
  assert.deepEqual(count([zone("a", "o"), timeless], budget), { ...nothing, notReady: 1 });
  assert.deepEqual(count([zone("a", "o"), zone("b", "w")], budget), { ...nothing, notReady: 1 });
  assert.deepEqual(count([zone("a", "o"), timeless]), nothing);
});

test("pods that are not as they should be are reported in rollout-operator's words", () => {
  assert.equal(describeCount(1, 0, "zone-a"), "1 pod not ready in zone-a");
  assert.equal(describeCount(2, 1, "partition 3"), "2 pods not ready, 1 pod unknown in partition 3");
  assert.equal(describeCount(0, 2, "partition 3"), "2 pods unknown in partition 3");
});

test("among several peers the one whose delay ends first sets the time of the next count", () => {
  const budget = budgetOf({ podNamePartitionRegex: "[a-z]+-[0-9]*([0-9])", crossZoneEvictionDelay: "1m" });
  const peers = (...seconds: number[]) =>
    zone("b", "", { replicas: 30, extra: seconds.map((age, index) => readyFor(`b-${index}0`, age)) });
  const counted = (...seconds: number[]) => count([zone("a", "o"), peers(...seconds)], budget).nextReadyInMs;
  assert.equal(counted(10, 40, 20), 20_001);
  assert.equal(counted(40, 10, 20), 20_001);
  assert.equal(counted(10, 20, 40), 20_001);
});

test("a reserved ordinal without a pod counts in addition to another pod that is being scaled away", () => {
  const budget = budgetOf({ podNamePartitionRegex: "[a-z]+-[0-9]*([0-9])" });
  const scaled = zone("b", "o", { extra: [pod("b-21")], reserved: [reservation("b-10")] });
  assert.deepEqual(count([zone("a", "o"), scaled], budget), { ...nothing, notReady: 1 });
});
