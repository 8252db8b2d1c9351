/** Where `advance-zone-rollout` is better than rollout-operator: each difference must stay. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { indexPods, viewOfIndex } from "../../../../functions/shared/cache/cache.ts";
import { surveyZone } from "../../../../functions/shared/groups/zones.ts";
import { isSettled } from "../../../../functions/shared/ledger/settling.ts";
import { parsePod, stuckReasons } from "../../../../functions/shared/workloads/pods.ts";
import {
  decideOn,
  downOf,
  nowMs,
  outcome,
  pod,
  podObject,
  refusal,
  reservation,
  statefulSet,
  waitingFor,
  zone,
} from "./given.ts";

test("pods belong by the uid of their owner, not by a `name` label", () => {
  const owned = (name: string, uid: string) =>
    podObject(name, {
      metadata: {
        labels: { name: "a", "controller-revision-hash": "old" },
        ownerReferences: [{ kind: "StatefulSet", name: "a", uid, controller: true }],
      },
    });
  const sets = [statefulSet("a", { replicas: 2 })];
  const objects = [owned("a-0", "uid-of-a"), owned("a-1", "uid-of-a-before"), owned("foreign-1", "uid-of-foreign")];
  const view = viewOfIndex(
    { workloads: sets, neighbours: [], budgets: [] },
    { askedMs: undefined },
    indexPods(objects),
  );
  const zones = sets.map((set) => surveyZone(set, view.podsOf(set), [], nowMs));
  assert.deepEqual(zones.map(downOf), [{ 1: "missing" }]);
  assert.equal(outcome(decideOn(zones)), "budget");
});

test("an ordinal without a pod is down, whatever the status counters say", () => {
  assert.equal(outcome(decideOn([zone("a", "oo."), zone("b", "ooo")])), "budget");
  assert.equal(outcome(decideOn([zone("a", "nn."), zone("b", "ooo")])), "zone-settling");
});

test("the budget counts pods and reservations: a pod that was just taken does not count as up although it still looks healthy", () => {
  assert.equal(outcome(decideOn([zone("a", "ooo", { reserved: [reservation("a-0")] })])), "budget");
  assert.equal(
    outcome(decideOn([zone("a", "ooo", { maxUnavailable: 2, reserved: [reservation("a-0")] })])),
    "delete a-1",
  );
});

test("a paused zone that is not ready blocks the others", () => {
  assert.equal(outcome(decideOn([zone("a", "n.", { paused: true }), zone("b", "oo")])), "paused-zone-down");
});

test("with two zones not ready no healthy pod is taken, but broken pods are repaired", () => {
  assert.equal(
    outcome(decideOn([zone("a", "ow", { maxUnavailable: 9 }), zone("b", "ow", { maxUnavailable: 9 })])),
    "zones-down",
  );
  assert.equal(outcome(decideOn([zone("a", "ow"), zone("b", "ob")])), "repair b-1");
});

for (const reason of stuckReasons) {
  test(`a pod stuck in ${reason} is replaced by a newer revision at once, even if the budget is used up`, () => {
    const stuck = parsePod(podObject("a-0", { ready: "False", containers: [waitingFor(reason)] }));
    const verdict = decideOn([zone("a", "..oo", { extra: [stuck] })]);
    assert.equal(outcome(verdict), "repair a-0");
    const [target] = verdict.kind === "take" ? verdict.targets : [];
    assert.equal(target?.action, "repair");
  });
}

test("no pod at the head of the queue blocks those behind it", () => {
  assert.equal(outcome(decideOn([zone("a", "oooo")], [refusal("a-0"), refusal("a-1")])), "delete a-2");
  const theirs = reservation("a-0", { by: "evaluate-eviction" });
  assert.equal(outcome(decideOn([zone("a", "ooo", { maxUnavailable: 2, reserved: [theirs] })])), "delete a-1");
  assert.equal(outcome(decideOn([zone("a", "tooo", { maxUnavailable: 2 })])), "delete a-1");
});

test("a sliding window: each pod that is back lets the next one go", () => {
  const max = { maxUnavailable: 2 };
  assert.equal(outcome(decideOn([zone("a", "oooo", max)])), "delete a-0, delete a-1");
  assert.equal(outcome(decideOn([zone("a", "t.oo", max)])), "budget");
  assert.equal(outcome(decideOn([zone("a", "nwoo", max)])), "delete a-2");
  assert.equal(outcome(decideOn([zone("a", "nn.o", max)])), "delete a-3");
  assert.equal(outcome(decideOn([zone("a", "nnnw", max)])), "zone-settling");
});

test("a pod that has been ready for less than minReadySeconds blocks the next one", () => {
  const back = (ageMs: number) =>
    zone("a", ".oo", {
      minReadySeconds: 10,
      extra: [pod("a-0", { revision: "new", readySinceMs: nowMs - ageMs })],
    });
  assert.equal(outcome(decideOn([back(9_000)])), "budget");
  assert.equal(decideOn([back(9_000)]).requeueAfterMs, 1_000);
  assert.equal(outcome(decideOn([back(10_000)])), "delete a-1");
});

test("a rollback in the middle replaces the pods that had moved, though currentRevision equals updateRevision", () => {
  const back = { updateRevision: "old", currentRevision: "old" };
  assert.equal(outcome(decideOn([zone("a", "nno", back), zone("b", "ooo", back)])), "delete a-0");
  assert.equal(outcome(decideOn([zone("a", "woo", back), zone("b", "ooo", back)])), "delete a-0");
});

test("a template change in the middle also makes the pods of the intermediate revision outdated", () => {
  const next = { updateRevision: "newest" };
  assert.equal(outcome(decideOn([zone("a", "nno", next)])), "delete a-0");
  assert.equal(outcome(decideOn([zone("a", "wno", next)])), "delete a-0");
});

test("a pod without the revision label is outdated", () => {
  const unlabelled = pod("a-0", { revision: undefined });
  assert.equal(outcome(decideOn([zone("a", "", { replicas: 1, extra: [unlabelled] })])), "delete a-0");
});

test("a scale-down in the middle: leaving pods are not replaced, and block the other zones until they are gone", () => {
  const leaving = [pod("a-2"), pod("a-3", { terminating: true })];
  const shrinking = zone("a", "nn", { replicas: 2, extra: leaving });
  assert.equal(outcome(decideOn([shrinking, zone("b", "oo")])), "zone-settling");
  assert.equal(outcome(decideOn([zone("a", "no", { replicas: 2, extra: leaving })])), "delete a-1");
});

test("a scale-up in the middle: pods that do not exist yet count as down", () => {
  assert.equal(outcome(decideOn([zone("a", "oo", { replicas: 4 }), zone("b", "oo")])), "budget");
});

test("a zone that is scaled to zero is done", () => {
  assert.equal(outcome(decideOn([zone("a", "", { currentRevision: "new" }), zone("b", "oo")])), "delete b-0");
});

test("an added zone takes part at once: while its pods start, no other zone's pods go", () => {
  assert.equal(outcome(decideOn([zone("a", "noo"), zone("aa", "www", { maxUnavailable: 3 })])), "zone-settling");
  assert.equal(outcome(decideOn([zone("a", "nno"), zone("aa", "ooo")])), "delete a-2");
});

test("the pods of a deleted StatefulSet block the other zones until they are gone", () => {
  const deleted = zone("a", "", { replicas: 0, extra: [pod("a-0"), pod("a-1", { terminating: true })] });
  assert.equal(outcome(decideOn([deleted, zone("b", "oo")])), "zone-settling");
  assert.equal(outcome(decideOn([zone("b", "oo")])), "delete b-0");
});

test("a group that loses its last StatefulSet is done, and its reservations are settled because the pods are absent", () => {
  assert.equal(outcome(decideOn([])), "done");
  assert.equal(
    isSettled(reservation("a-0"), { pod: undefined, workload: undefined, isMember: false, orphans: 0 }, nowMs),
    true,
  );
});

test("zones go in the order of their names, byte by byte, as observed", () => {
  const names = ["zone-10", "zone-2", "zone-B", "zone-a"];
  assert.equal(outcome(decideOn(names.map((name) => zone(name, "o")))), "delete zone-10-0");
});

test("outdated pods go in the order of their ordinals as numbers: 2 before 10", () => {
  assert.equal(outcome(decideOn([zone("a", "nnonnnnnnno", { maxUnavailable: 2 })])), "delete a-2, delete a-10");
});

test("a delete carries the pod as it was seen: its uid, and for a repair its resourceVersion", () => {
  const verdict = decideOn([zone("a", "bo", { maxUnavailable: 2 })]);
  assert.ok(verdict.kind === "take");
  const seen = verdict.targets.map(
    (target) => "pod" in target && [target.action, target.pod.uid, target.pod.resourceVersion],
  );
  assert.deepEqual(seen, [
    ["repair", "uid-of-a-0", 7],
    ["delete", "uid-of-a-1", 7],
  ]);
});
