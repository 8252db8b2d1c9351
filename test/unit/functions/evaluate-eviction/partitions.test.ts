/** Budgets of partitions, and reviews that are decided together. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { mostReplicas, nowMs, pod, reservation, zone, zoneBudget } from "../advance-zone-rollout/given.ts";
import { disruptionBudget, guards, refusal, rule } from "./given-evictions.ts";

/** The ordinal is the partition: a-1, b-1 and c-1 belong to the same. */
const byOrdinal = { podNamePartitionRegex: "[a-z]+-([0-9]+)" };
const partitions = (maxUnavailable: number, spec: object = {}) => ({
  budget: { ...byOrdinal, maxUnavailable, ...spec },
});

test("partition-budget: a partition is counted over all zones, and other partitions do not count", () => {
  const zones = [zone("a", "ooo"), zone("b", "oxo"), zone("c", "xoo")];
  assert.deepEqual(guards(zones, ["a-1"], partitions(1)), ["partition-budget"]);
  assert.deepEqual(guards(zones, ["a-0"], partitions(1)), ["partition-budget"]);
  assert.deepEqual(guards(zones, ["a-2", "b-0"], partitions(1)), ["allowed", "partition-budget"]);
  assert.deepEqual(guards(zones, ["a-1", "a-0"], partitions(2)), ["allowed", "allowed"]);
  const answer = refusal(zones, "a-1", partitions(1));
  assert.equal(answer.message, "1 pod not ready in partition 1: 1 may be down, so a-1 stays until one is back");
  assert.deepEqual(
    [answer.code, answer.reason, answer.cause, answer.zone],
    [429, "TooManyRequests", "DisruptionBudget", "a"],
  );
});

test("neither the pod's own place counts, nor its zone if that has no other pod of the partition", () => {
  assert.deepEqual(guards([zone("a", "xoo"), zone("b", "ooo")], ["a-0"], partitions(1)), ["allowed"]);
  const uneven = [zone("a", "oooo"), zone("b", "ooo")];
  assert.deepEqual(guards(uneven, ["b-2"], partitions(1)), ["allowed"]);
});

test("another pod of the same zone in the same partition also counts", () => {
  const pairs = { budget: { podNamePartitionRegex: "[a-z]+-([0-9])[0-9]*", maxUnavailable: 1 } };
  const zones = [zone("a", "oooooooooox"), zone("b", "ooooooooooo")];
  assert.deepEqual(guards(zones, ["a-1", "a-2"], pairs), ["partition-budget", "allowed"]);
  assert.deepEqual(guards(zones, ["b-1"], pairs), ["partition-budget"]);
});

test("missing pods are unknown, in the partition that they belong to and in no other", () => {
  const zones = [zone("a", "ooo"), zone("b", "o.o"), zone("c", "ooo")];
  assert.deepEqual(guards(zones, ["a-0", "a-1"], partitions(1)), ["allowed", "partition-budget"]);
  const two = [zone("a", "ooo"), zone("b", "oxo"), zone("c", "o.o")];
  assert.match(
    refusal(two, "a-1", partitions(2)).message,
    /^1 pod not ready, 1 pod unknown in partition 1: 2 may be down,/,
  );
});

test("a zone that wants 2^31 pods is decided like any other, under a budget of zones and of partitions", () => {
  const huge = zone("b", "oo", { replicas: mostReplicas });
  const zones = [zone("a", "oo"), huge];
  assert.match(refusal(zones, "a-0").message, /^2147483645 pods unknown in b: no pod of a goes until/);
  assert.match(
    refusal([zone("a", "oo"), huge], "b-0", partitions(3)).message,
    /^2147483645 pods unknown in partition 0/,
  );
  assert.deepEqual(guards([zone("a", "oo"), huge], ["b-0"], { budget: { maxUnavailablePercentage: 50 } }), [
    "zone-budget",
  ]);
  const allowed = partitions(mostReplicas);
  assert.deepEqual(guards(zones, ["a-0", "a-1", "b-1"], allowed), ["allowed", "allowed", "allowed"]);
});

test("a zone that should have the partition but has no pod of it counts as one unknown pod", () => {
  const zones = [zone("a", "oooo"), zone("b", "ooo")];
  assert.match(refusal(zones, "a-3", partitions(1)).message, /^1 pod unknown in partition 3: 1 may be/);
  assert.deepEqual(guards(zones, ["a-3"], partitions(2)), ["allowed"]);
});

test("a zone that wants no pods lacks none of any partition; a zone that wants a pod and has none lacks one", () => {
  const scaledAway = [zone("a", "oo"), zone("b", "oo"), zone("old", "")];
  assert.deepEqual(guards(scaledAway, ["a-0", "b-1"], partitions(1)), ["allowed", "allowed"]);
  const lost = [zone("a", "oo"), zone("b", "oo"), zone("old", "..")];
  assert.deepEqual(guards(lost, ["a-0", "b-1"], partitions(1)), ["partition-budget", "partition-budget"]);
  const leaving = [zone("a", "oo"), zone("old", "", { extra: [pod("old-0", { readySinceMs: undefined })] })];
  assert.deepEqual(guards(leaving, ["a-0", "a-1"], partitions(1)), ["partition-budget", "allowed"]);
  const reserved = [zone("a", "oo"), zone("old", "", { reserved: [reservation("old-0")] })];
  assert.deepEqual(guards(reserved, ["a-0", "a-1"], partitions(1)), ["partition-budget", "allowed"]);
});

test("reservations count in the partition of their pod, whose StatefulSet may have left the group", () => {
  const reserved = [reservation("b-1", { by: "advance-zone-rollout" })];
  const zones = [zone("a", "ooo"), zone("b", "ooo", { reserved })];
  assert.deepEqual(guards(zones, ["a-1", "a-0", "b-1"], partitions(1)), ["partition-budget", "allowed", "allowed"]);
  const departed = [reservation("z-1")];
  const left = [zone("a", "ooo"), zone("b", "ooo")];
  assert.deepEqual(guards(left, ["a-1", "a-0"], { ...partitions(1), departed }), ["partition-budget", "allowed"]);
});

test("partitions of a zone do not wait for each other: several pods of one zone may go at once", () => {
  const zones = [zone("a", "ooo"), zone("b", "ooo"), zone("c", "ooo")];
  assert.deepEqual(guards(zones, ["a-0", "b-1", "c-2", "a-1"], partitions(1)), [
    ...["allowed", "allowed", "allowed"],
    "partition-budget",
  ]);
});

test("a pod of another zone counts as ready only when it has been ready for longer than the cross-zone delay", () => {
  const delayed = partitions(1, { crossZoneEvictionDelay: "60s" });
  const zones = (readySinceMs: number) => [
    zone("a", "o"),
    zone("b", ".", { extra: [pod("b-0", { readySinceMs })], replicas: 1 }),
  ];
  assert.deepEqual(guards(zones(nowMs - 60_001), ["a-0"], delayed), ["allowed"]);
  const answer = refusal(zones(nowMs - 60_000), "a-0", delayed);
  assert.match(
    answer.message,
    /^1 pod not ready in partition 0: 1 may be down, .+, the first of them in 1 s by the cross-zone/,
  );
  assert.match(
    refusal(zones(nowMs - 5_000), "a-0", delayed).message,
    /the first of them in 56 s by the cross-zone delay$/,
  );
  const untold = refusal(zones(Number.POSITIVE_INFINITY), "a-0", delayed);
  assert.equal(untold.guard, "partition-budget", "a Ready condition without a time proves nothing");
  assert.doesNotMatch(untold.message, /the first of them/);
  assert.deepEqual(guards(zones(nowMs), ["a-0"], partitions(1)), ["allowed"]);
});

test("the cross-zone delay does not apply within a zone", () => {
  const pairs = { podNamePartitionRegex: "[a-z]+-([0-9])[0-9]*", maxUnavailable: 1, crossZoneEvictionDelay: "60s" };
  const fresh = { replicas: 11, extra: [pod("a-10", { readySinceMs: nowMs - 1_000 })] };
  const zones = [zone("a", "oooooooooo.", fresh), zone("b", "ooooooooooo")];
  assert.deepEqual(guards(zones, ["a-1"], { budget: pairs }), ["allowed"]);
  assert.deepEqual(guards(zones, ["b-1"], { budget: pairs }), ["partition-budget"]);
});

test("partition-not-identified: a pod whose name gives no partition is a 400 that shows the expression", () => {
  const zones = [zone("a", "ooo"), zone("b", "ooo")];
  for (const [podNamePartitionRegex, group] of [
    ["b-([0-9]+)", 1],
    ["a-([0-9]*)[0-9]", 1],
    ["a-(x)?([0-9]+)", 1],
    ["(?P<zone>b|c)-.*", 1],
  ] as const) {
    const budget = { podNamePartitionRegex, podNameRegexGroup: group, maxUnavailable: 1 };
    const answer = refusal(zones, "a-1", { budget });
    assert.deepEqual([answer.guard, answer.code, answer.cause], ["partition-not-identified", 400, ""]);
    assert.equal(
      answer.message,
      `pod a-1 has no partition: group 1 of the expression ${podNamePartitionRegex} finds nothing in its name`,
    );
  }
});

test("the capturing group is the partition", () => {
  const budget = { podNamePartitionRegex: "(.)-([0-9]+)", podNameRegexGroup: 1, maxUnavailable: 1 };
  const zones = [zone("a", "oox"), zone("b", "ooo")];
  assert.deepEqual(guards(zones, ["a-0"], { budget }), ["partition-budget"]);
  assert.deepEqual(guards(zones, ["a-0"], { budget: { ...budget, podNameRegexGroup: 2 } }), ["allowed"]);
});

test("budgets that allow nothing and groups of one zone are also refused in partition mode, before the partition is determined", () => {
  const zones = [zone("a", "ooo"), zone("b", "ooo")];
  const unmatched = { podNamePartitionRegex: "x-([0-9]+)" };
  assert.deepEqual(guards(zones, ["a-0"], partitions(0, unmatched)), ["never-possible"]);
  assert.deepEqual(guards([zone("a", "ooo")], ["a-0"], partitions(1, unmatched)), ["too-few-zones"]);
  const share = { maxUnavailable: undefined, maxUnavailablePercentage: 0 };
  assert.deepEqual(guards(zones, ["a-0"], partitions(1, share)), ["never-possible"]);
});

test("pods of one group may have different budgets, and each is counted by its own", () => {
  const labels = (name: string) => ({ "rollout-group": "group", part: name });
  const apart = (letter: string, drawing: string) =>
    zone(letter, "...", {
      replicas: 3,
      extra: [...drawing].map((read, ordinal) =>
        pod(`${letter}-${ordinal}`, {
          labels: labels(ordinal === 0 ? "leader" : "follower"),
          readySinceMs: read === "x" ? undefined : nowMs - 1_000,
        }),
      ),
    });
  const zones = [apart("a", "oox"), apart("b", "ooo")];
  const budgets = [
    zoneBudget("leaders", { selector: { matchLabels: { part: "leader" } }, ...byOrdinal, maxUnavailable: 1 }),
    zoneBudget("followers", { selector: { matchLabels: { part: "follower" } }, maxUnavailable: 1 }),
  ];
  assert.deepEqual(guards(zones, ["a-0", "a-1", "b-1"], { budgets }), ["allowed", "zone-budget", "zones-down"]);
});

test("reviews that are decided together count the earlier ones that were allowed", () => {
  const zones = [zone("a", "oooo"), zone("b", "oooo")];
  const budget = { maxUnavailable: 2 };
  assert.deepEqual(guards(zones, ["a-0", "a-1", "a-2", "b-0"], { budget }), [
    ...["allowed", "allowed"],
    ...["zone-budget", "zones-down"],
  ]);
  assert.deepEqual(guards(zones, ["b-3", "a-0", "b-1"], { budget }), ["allowed", "zones-down", "allowed"]);
});

test("two reviews of one pod are both allowed, and cost one place", () => {
  const zones = [zone("a", "ooo"), zone("b", "ooo")];
  assert.deepEqual(guards(zones, ["a-0", "a-0", "a-1"], { budget: { maxUnavailable: 2 } }), [
    "allowed",
    "allowed",
    "allowed",
  ]);
  assert.deepEqual(guards(zones, ["a-0", "a-0", "a-1"]), ["allowed", "allowed", "zone-budget"]);
});

test("a dry run counts earlier reviews, and does not count for later ones", () => {
  const zones = [zone("a", "ooo"), zone("b", "ooo")];
  const dry = (name: string) => ({ name, dryRun: true });
  assert.deepEqual(guards(zones, [dry("a-0"), dry("b-0"), "a-1", dry("a-2"), dry("b-1"), "b-2"]), [
    ...["allowed", "allowed", "allowed"],
    ...["zone-budget", "zones-down", "zones-down"],
  ]);
});

test("a refused or exempt review costs later ones nothing", () => {
  const zones = [zone("a", "oto"), zone("b", "ooo")];
  const changes = { budget: { maxUnavailable: 2 } };
  assert.deepEqual(guards(zones, ["b-0", "a-1", "a-7", "a-0", "a-2"], changes), [
    ...["zones-down", "exempt", "pod-unseen"],
    ...["allowed", "zone-budget"],
  ]);
});

test("a review that a PodDisruptionBudget blocks is not counted for later ones", () => {
  const ofZoneA = disruptionBudget("pdb", { selector: { matchLabels: { name: "a" } } });
  const changes = { disruptionBudgets: [ofZoneA] };
  assert.deepEqual(guards([zone("a", "ooo"), zone("b", "ooo")], ["a-0", "b-0"], changes), [
    "pod-disruption-budget",
    "allowed",
  ]);
});

test("the same question twice has the same answer, and changes nothing in the group", () => {
  const zones = [zone("a", "oooo"), zone("b", "oooo")];
  const questions = ["a-0", "a-1", "b-0"];
  const before = structuredClone(zones);
  const first = rule(zones, questions);
  assert.deepEqual(rule(zones, questions), first);
  assert.deepEqual(zones, before);
});
