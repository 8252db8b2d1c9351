/** The guards of `advance-zone-rollout`, one by one, and which pods go if none applies. Zones are drawn as in given.ts. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decide } from "../../../../functions/advance-zone-rollout/decide.ts";
import { neverReadyAfterMs } from "../../../../functions/advance-zone-rollout/repair.ts";
import { guardOf } from "../../../../functions/shared/reconcile/record.ts";
import { parseStatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";
import {
  decideOn,
  mostReplicas,
  namespace,
  nowMs,
  outcome,
  pod,
  refusal,
  reservation,
  self,
  statefulSetObject,
  zone,
} from "./given.ts";

test("of the first zone by name the first outdated pods go, as many as the limit allows", () => {
  assert.equal(outcome(decideOn([zone("a", "ooo"), zone("b", "ooo")])), "delete a-0");
  assert.equal(
    outcome(decideOn([zone("a", "ooo", { maxUnavailable: 2 }), zone("b", "ooo")])),
    "delete a-0, delete a-1",
  );
  assert.equal(outcome(decideOn([zone("a", "no", { currentRevision: "new" }), zone("b", "oo")])), "delete a-1");
});

test("a take names the zone that rolls, how many pods go and how many may be down", () => {
  const verdict = decideOn([zone("a", "nooo", { maxUnavailable: 2 })]);
  assert.equal(verdict.zone, "a");
  assert.equal(verdict.message, "rolling a: 2 of 3 outdated pods go now, 2 may be down");
});

test("a group that runs the wanted revision everywhere is done, and so is one without pods or without zones", () => {
  const verdict = decideOn([zone("a", "nn", { currentRevision: "new" }), zone("b", "", { currentRevision: "new" })]);
  assert.equal(outcome(verdict), "done");
  assert.equal(guardOf(verdict, "rolling"), "done");
  assert.equal(verdict.message, "every pod of group runs the wanted revision");
  assert.equal(verdict.requeueAfterMs, undefined);
  assert.equal(outcome(decideOn([])), "done");
});

test("strategy-not-on-delete: one StatefulSet with another strategy stops the whole group, including repairs (Z4)", () => {
  const zones = [zone("a", "ob"), zone("b", "nn", { strategy: "RollingUpdate" })];
  const verdict = decideOn(zones);
  assert.equal(outcome(verdict), "strategy-not-on-delete");
  assert.equal(verdict.zone, "b");
  assert.match(verdict.message, /^b has update strategy RollingUpdate/);
  const finished = [zone("a", "nn"), zone("b", "nn", { strategy: "RollingUpdate" })];
  assert.equal(outcome(decideOn(finished)), "strategy-not-on-delete");
});

test("zones-down: with pods down in two zones no healthy pod is taken (Z1)", () => {
  const verdict = decideOn([zone("a", "oow", { maxUnavailable: 3 }), zone("b", "oo.", { maxUnavailable: 3 })]);
  assert.equal(outcome(verdict), "zones-down");
  assert.match(verdict.message, /a: 1 of 3 down \(1 not ready\); b: 1 of 3 down \(1 missing\)$/);
  assert.equal(verdict.requeueAfterMs, 30_000);
});

test("zones-down counts reservations, pods that leave, and zones that are paused", () => {
  const down = zone("a", "oo.", { maxUnavailable: 3 });
  assert.equal(outcome(decideOn([down, zone("b", "oo", { reserved: [reservation("b-1")] })])), "zones-down");
  assert.equal(outcome(decideOn([down, zone("b", "oo", { extra: [pod("b-5")] })])), "zones-down");
  assert.equal(outcome(decideOn([down, zone("b", "ox", { paused: true })])), "zones-down");
});

test("the zone that is down comes first, whatever its name", () => {
  const zones = [zone("a", "ooo"), zone("b", "ooo"), zone("c", "wooo", { maxUnavailable: 2 })];
  assert.equal(outcome(decideOn(zones)), "delete c-1");
});

test("paused-zone-down: a paused zone that is not ready blocks the others (Z4)", () => {
  const verdict = decideOn([zone("a", "oo"), zone("b", "xo", { paused: true })]);
  assert.equal(outcome(verdict), "paused-zone-down");
  assert.equal(verdict.zone, "b");
  const reserved = zone("b", "oo", { paused: true, reserved: [reservation("b-0")] });
  assert.equal(outcome(decideOn([zone("a", "oo"), reserved])), "paused-zone-down");
});

test("paused: a ready paused zone is skipped, and named when all others are done", () => {
  const paused = zone("a", "on", { paused: true });
  assert.equal(outcome(decideOn([paused, zone("b", "oo")])), "delete b-0");
  const verdict = decideOn([paused, zone("b", "nn", { currentRevision: "new" })]);
  assert.equal(outcome(verdict), "paused");
  assert.equal(verdict.message, "a is paused with 1 outdated pods; every other zone is done");
  assert.equal(outcome(decideOn([zone("a", "nn", { paused: true })])), "done");
});

test("status-behind: a rollout touches no zone whose wanted revision is unknown, and reads it again in a second", () => {
  const behind = { updateRevision: undefined };
  const verdict = decideOn([zone("a", "oo", behind)]);
  assert.equal(outcome(verdict), "status-behind");
  assert.equal(verdict.requeueAfterMs, 1_000);
  assert.equal(outcome(decideOn([zone("a", "ob", behind)])), "status-behind");
  assert.equal(outcome(decideOn([zone("a", "oo", behind), zone("b", "xo")])), "delete b-0");
  assert.equal(outcome(decideOn([zone("a", "oo", { ...behind, paused: true })])), "done");
});

test("zone-settling: the next zone starts only when the last one is ready", () => {
  const verdict = decideOn([zone("a", "nw"), zone("b", "oo")]);
  assert.equal(outcome(verdict), "zone-settling");
  assert.equal(verdict.zone, "a");
  assert.equal(outcome(decideOn([zone("a", "nn", { extra: [pod("a-5")] }), zone("b", "oo")])), "zone-settling");
  assert.equal(outcome(decideOn([zone("a", "n.", { currentRevision: "new" }), zone("b", "oo")])), "zone-settling");
});

test("zone-settling reconciles again when minReadySeconds are over", () => {
  const recent = pod("a-1", { revision: "new", readySinceMs: nowMs - 8_000 });
  const verdict = decideOn([zone("a", "n", { replicas: 2, minReadySeconds: 10, extra: [recent] }), zone("b", "oo")]);
  assert.equal(outcome(verdict), "zone-settling");
  assert.equal(verdict.requeueAfterMs, 2_000);
});

test("budget: no healthy pod goes while as many as allowed are down or reserved (Z2)", () => {
  for (const drawing of ["woo", ".oo"]) assert.equal(outcome(decideOn([zone("a", drawing)])), "budget");
  const reserved = zone("a", "nooo", { maxUnavailable: 2, reserved: [1, 2].map((n) => reservation(`a-${n}`)) });
  const verdict = decideOn([reserved]);
  assert.equal(outcome(verdict), "budget");
  assert.equal(verdict.message, "a: 2 of 4 down (2 reserved), 2 may be down; 3 outdated pods wait");
  assert.equal(verdict.requeueAfterMs, 7_000);
});

test("budget: a zone that wants 2^31 pods is decided like any other, also by a percentage", () => {
  const verdict = decideOn([zone("a", "oo", { replicas: mostReplicas }), zone("b", "oo")]);
  assert.equal(outcome(verdict), "budget");
  assert.match(verdict.message, /^a: 2147483645 of 2147483647 down \(2147483645 missing\), 1 may be down; 2 outdated/);
  const share = parseStatefulSet(
    statefulSetObject("a", {
      metadata: { annotations: { "rollout-max-unavailable": "25%" } },
      spec: { replicas: mostReplicas, updateStrategy: { type: "OnDelete" } },
    }),
  );
  assert.equal(share.maxUnavailable, 536_870_911);
  assert.equal(outcome(decideOn([zone("a", "oo", share)])), "budget");
  assert.equal(
    outcome(decideOn([zone("a", "oo", { ...share, maxUnavailable: mostReplicas })])),
    "delete a-0, delete a-1",
  );
});

test("delete-refused does not hide pods that are missing besides", () => {
  const blocked = zone("a", "oo", { replicas: 3, maxUnavailable: 2, reserved: [reservation("a-0")] });
  assert.equal(outcome(decideOn([blocked], [refusal("a-0")])), "budget");
});

test("an outdated pod that is down already goes within the budget, at no further cost", () => {
  assert.equal(outcome(decideOn([zone("a", "oxo")])), "delete a-1");
  assert.equal(outcome(decideOn([zone("a", "oxo", { maxUnavailable: 2 })])), "delete a-1, delete a-0");
});

test("budget: if more pods are missing than the limit allows, no pod goes, not even one that is down", () => {
  assert.equal(outcome(decideOn([zone("a", "xwo")])), "budget");
  assert.equal(outcome(decideOn([zone("a", "x.ow", { maxUnavailable: 2 })])), "budget");
});

test("terminating pods are not taken again", () => {
  assert.equal(outcome(decideOn([zone("a", "to")])), "budget");
  assert.equal(outcome(decideOn([zone("a", "tt", { maxUnavailable: 2 }), zone("b", "oo")])), "zone-settling");
});

test("a rollout leaves a reservation of another function to that function, however old it is (R10)", () => {
  const theirs = (ageMs: number) => reservation("a-0", { by: "evaluate-eviction", stampMs: nowMs - ageMs });
  assert.equal(outcome(decideOn([zone("a", "xn", { reserved: [theirs(100_000)] })])), "budget");
  assert.equal(outcome(decideOn([zone("a", "oo", { maxUnavailable: 2, reserved: [theirs(0)] })])), "delete a-1");
});

test("a rollout carries out its own reservation when its writer must have given up, and not before (R10)", () => {
  const ours = (ageMs: number) => zone("a", "oo", { reserved: [reservation("a-0", { stampMs: nowMs - ageMs })] });
  assert.equal(outcome(decideOn([ours(6_999)])), "budget");
  assert.equal(outcome(decideOn([ours(7_000)])), "delete a-0");
});

test("a rollout carries out its own reservation only if it would still take the pod: not if paused, not if up to date (R10)", () => {
  const old = [reservation("a-0", { stampMs: nowMs - 60_000 })];
  assert.equal(outcome(decideOn([zone("a", "oo", { reserved: old, paused: true })])), "paused-zone-down");
  assert.equal(outcome(decideOn([zone("a", "nn", { reserved: old })])), "zone-settling");
});

test("a reservation of the earlier pod does not protect its outdated replacement", () => {
  const before = [reservation("a-0", { uid: "before", by: "evaluate-eviction" })];
  assert.equal(outcome(decideOn([zone("a", "xo", { reserved: before })])), "delete a-0");
});

test("delete-refused: a rollout does not try a pod again whose deletion was refused, and its siblings and the other zones go on", () => {
  assert.equal(outcome(decideOn([zone("a", "ooo")], [refusal("a-0")])), "delete a-1");
  assert.equal(outcome(decideOn([zone("a", "o"), zone("b", "oo")], [refusal("a-0")])), "delete b-0");
});

test("delete-refused is named, with what the API server said, once nothing else can go", () => {
  const verdict = decideOn([zone("a", "on"), zone("b", "nn", { currentRevision: "new" })], [refusal("a-0")]);
  assert.equal(outcome(verdict), "delete-refused");
  assert.equal(verdict.zone, "a");
  assert.equal(verdict.message, "a-0 stays outdated: a webhook said no");
  assert.equal(outcome(decideOn([zone("a", "xn"), zone("b", "oo")], [refusal("a-0")])), "delete-refused");
});

test("delete-refused is named while the refused pod's own reservation is all that uses up the budget", () => {
  const blocked = (changes: object) => zone("a", "oo", { reserved: [reservation("a-0", changes)] });
  assert.equal(outcome(decideOn([blocked({})], [refusal("a-0")])), "delete-refused");
  assert.equal(outcome(decideOn([blocked({ uid: "before" })], [refusal("a-0")])), "budget");
  const unready = zone("a", "xo", { reserved: [reservation("a-0")] });
  assert.equal(outcome(decideOn([unready], [refusal("a-0")])), "budget", "it may become ready");
  const another = zone("a", "o.o", { maxUnavailable: 2, reserved: [reservation("a-0")] });
  assert.equal(outcome(decideOn([another], [refusal("a-0")])), "budget");
});

test("for a refused pod in a paused zone the message names the pause", () => {
  assert.equal(outcome(decideOn([zone("a", "on", { paused: true })], [refusal("a-0")])), "paused");
});

test("broken outdated pods are replaced in every zone at once, at no cost to the budget (R13)", () => {
  const zones = [zone("a", "bbo"), zone("b", "bnn")];
  assert.equal(outcome(decideOn(zones)), "repair a-0, repair a-1, repair b-0");
  assert.equal(outcome(decideOn([zone("a", "boo", { maxUnavailable: 2 })])), "repair a-0, delete a-1");
});

test("a broken pod is not replaced by the revision that broke it, nor in a paused zone, nor once it is ready", () => {
  assert.equal(outcome(decideOn([zone("a", "Bn")])), "zone-settling");
  assert.equal(outcome(decideOn([zone("a", "bo", { paused: true })])), "paused-zone-down");
  const recovered = pod("a-0", { stuck: "CrashLoopBackOff" });
  assert.equal(outcome(decideOn([zone("a", "", { replicas: 1, extra: [recovered] })])), "delete a-0");
});

test("outdated pods that were never ready are replaced beside the budget: Pending ones at once, running ones after 120 s (R13)", () => {
  assert.equal(neverReadyAfterMs, 120_000);
  const zones = [zone("a", "ppo"), zone("b", "rpn")];
  assert.equal(outcome(decideOn(zones)), "repair a-0, repair a-1, repair b-0, repair b-1");
  const runningFor = (ageMs: number) =>
    pod("a-0", { readySinceMs: undefined, neverReady: true, createdMs: nowMs - ageMs });
  const aged = (ageMs: number) => [
    zone("a", "", { replicas: 2, extra: [runningFor(ageMs)] }),
    zone("b", "n", { currentRevision: "new" }),
  ];
  assert.equal(outcome(decideOn(aged(119_999))), "budget");
  assert.equal(outcome(decideOn(aged(120_000))), "repair a-0");
  assert.equal(outcome(decideOn(aged(Number.NaN))), "budget", "its age is unknown");
});

test("a pod of the wanted revision is never replaced, however broken, nor any in a paused zone", () => {
  for (const letter of ["B", "P", "R", "w"]) {
    assert.equal(outcome(decideOn([zone("a", `${letter}n`)])), "zone-settling", letter);
    assert.equal(outcome(decideOn([zone("a", `${letter}n`), zone("b", `${letter}n`)])), "zones-down", letter);
  }
  for (const letter of ["b", "p", "r", "y", "x"]) {
    const [paused, other] = [zone("a", `${letter}o`, { paused: true }), zone("b", "nn")];
    const verdict = decideOn([paused, other]);
    assert.match(
      `${outcome(verdict)}: ${verdict.message}`,
      /^record-revision b: .*a: 1 of 2 down \(1 not ready\) and is paused/,
    );
    assert.doesNotMatch(verdict.message, /never ready/);
  }
  assert.equal(outcome(decideOn([zone("a", "p", { updateRevision: undefined })])), "status-behind");
});

test("a rollout that waits says which pod is replaced unless it becomes ready, and reconciles again when it is due", () => {
  const verdict = decideOn([zone("a", "xwo"), zone("b", "ny")]);
  assert.equal(outcome(verdict), "zones-down");
  assert.match(verdict.message, /; b-1 was never ready, and is replaced if it is not ready 120 s after it was made$/);
  assert.equal(verdict.requeueAfterMs, 20_000);
  const younger = pod("b-1", { readySinceMs: undefined, neverReady: true, createdMs: nowMs - 119_000 });
  const both = [zone("a", "xwy"), zone("b", "n", { replicas: 2, extra: [younger] })];
  assert.match(decideOn(both).message, /; b-1 was never ready/);
  assert.equal(decideOn(both).requeueAfterMs, 1_000);
  assert.match(decideOn([zone("a", "xyy")]).message, /; a-1 was never ready/);
  assert.match(decideOn(both, [refusal("b-1")]).message, /; a-2 was never ready/);
  const recent = pod("a-1", { readySinceMs: undefined, neverReady: true, createdMs: nowMs });
  assert.equal(
    decideOn([zone("a", "xw", { replicas: 3, extra: [{ ...recent, name: "a-2", ordinal: 2 }] })]).requeueAfterMs,
    7_000,
  );
});

test("a rollout that takes pods reconciles again no later than usual, whether a repair is due later or sooner", () => {
  const taking = (ageMs: number) => {
    const recent = pod("a-3", { readySinceMs: undefined, neverReady: true, createdMs: nowMs - ageMs });
    const zones = [zone("a", "ooo", { replicas: 4, maxUnavailable: 2, extra: [recent] })];
    return decideOn(zones, [refusal("a-0")]);
  };
  assert.equal(outcome(taking(100_000)), "delete a-3, delete a-1");
  assert.equal(taking(100_000).requeueAfterMs, 7_000);
  assert.equal(taking(118_000).requeueAfterMs, 2_000);
});

test("a repair names its cause", () => {
  const cause = (drawing: string, extra: ReturnType<typeof pod>[] = []) =>
    decideOn([zone("a", drawing, { replicas: 3, extra })]).message.replace(/;.*/, "");
  assert.equal(cause("bnn"), "replacing broken outdated pods a-0 (stuck in CrashLoopBackOff)");
  assert.equal(cause("pnn"), "replacing broken outdated pods a-0 (Pending for 3 s)");
  assert.equal(cause("rnn"), "replacing broken outdated pods a-0 (never ready in 130 s)");
  const timeless = pod("a-0", { readySinceMs: undefined, neverReady: true, pending: true, createdMs: Number.NaN });
  assert.equal(cause(".nn", [timeless]), "replacing broken outdated pods a-0 (Pending)");
  assert.equal(
    cause(".nn", [{ ...timeless, createdMs: nowMs + 900 }]),
    "replacing broken outdated pods a-0 (Pending for 0 s)",
  );
});

test("a rollout does not try a refused repair again", () => {
  assert.equal(outcome(decideOn([zone("a", "bbn")], [refusal("a-0")])), "repair a-1");
  assert.equal(outcome(decideOn([zone("a", "bnn")], [refusal("a-0")])), "zone-settling");
});

test("a take that repairs says what is broken, and what the other pods wait for", () => {
  const verdict = decideOn([zone("a", "bbbbbbo")]);
  assert.match(
    verdict.message,
    /^replacing broken outdated pods a-0 \(stuck in CrashLoopBackOff\), (a-\d \([^)]+\), ){4}…; a: 6 of 7 down/,
  );
  assert.equal(verdict.zone, "a");
  assert.doesNotMatch(decideOn([zone("a", "bbbbbo")]).message, /…/, "five are all named");
});

test("a rollout writes status.currentRevision for a complete zone, once", () => {
  assert.equal(outcome(decideOn([zone("a", "nn")])), "record-revision a");
  assert.equal(outcome(decideOn([zone("a", "nn"), zone("b", "oo")])), "record-revision a, delete b-0");
  assert.equal(outcome(decideOn([zone("a", "nn", { currentRevision: "new" })])), "done");
  assert.equal(outcome(decideOn([zone("a", "nn", { currentRevision: undefined })])), "done");
  assert.match(decideOn([zone("a", "nn")]).message, /^recording the revision of a; every pod/);
});

test("zone-settling: a pod that a function allowed to go and that still exists is named, with the function and the end of its reservation (R10)", () => {
  const evicted = reservation("a-0", { by: "evaluate-eviction", stampMs: nowMs - 30_000 });
  assert.equal(
    decideOn([zone("a", "nn", { reserved: [evicted] }), zone("b", "oo")]).message,
    "a: 1 of 2 down (1 reserved); the next zone starts when it is ready; a-0 may still go, by evaluate-eviction, until 2026-01-01T00:12:00Z at the latest",
  );
  assert.match(decideOn([zone("a", "nw", { reserved: [reservation("a-1")] })]).message, /starts when it is ready$/);
  const overdue = { ...evicted, stampMs: nowMs - 200_000, overdueSeenMs: nowMs - 60_000 };
  const later = reservation("a-1", { stampMs: nowMs - 20_000 });
  assert.match(
    decideOn([zone("a", "nn", { reserved: [overdue, later] }), zone("b", "oo")]).message,
    /; a-0 may still go, by evaluate-eviction, until 2026-01-01T00:11:30Z at the latest$/,
    "the first, and from when it was seen to be overdue",
  );
});

test("a rollout does not write status.currentRevision for a zone that is incomplete, unsettled or paused, or whose write was refused", () => {
  assert.equal(outcome(decideOn([zone("a", "nw")])), "zone-settling");
  assert.equal(outcome(decideOn([zone("a", "n.")])), "zone-settling");
  assert.equal(outcome(decideOn([zone("a", "nn", { reserved: [reservation("a-0")] })])), "zone-settling");
  assert.equal(outcome(decideOn([zone("a", "nn", { extra: [pod("a-7", { revision: "new" })] })])), "zone-settling");
  assert.equal(outcome(decideOn([zone("a", "nn", { paused: true })])), "done");
  assert.equal(outcome(decideOn([zone("a", "nn")], [["uid-of-a", refusal("a-0")[1]]])), "done");
});

test("zone-departed: while a pod reserved in a zone that has left the group still exists, no other zone is touched (Z1)", () => {
  const departed = [{ statefulSet: "gone", ordinal: 0, uid: "taken", by: self, stampMs: nowMs }];
  const surroundings = { workloads: [], neighbours: [], budgets: [] };
  const strayClaims: [] = [];
  const group = {
    key: { namespace, group: "group" },
    self,
    nowMs,
    departed,
    strayClaims,
    surroundings,
    refusals: new Map(),
  };
  const verdict = decide({ ...group, zones: [zone("a", "ooo")] });
  assert.equal(outcome(verdict), "zone-departed");
  assert.match(verdict.message, /gone-0 is reserved, but its StatefulSet has left the group/);
});
