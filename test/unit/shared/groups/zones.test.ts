import assert from "node:assert/strict";
import { test } from "node:test";
import {
  claimOn,
  countDown,
  describeDown,
  isUnsettled,
  missingOrdinals,
  surveyZone,
} from "../../../../functions/shared/groups/zones.ts";
import { isSettled, type ReservedPodState } from "../../../../functions/shared/ledger/settling.ts";
import {
  claimOf,
  downOf,
  mostReplicas,
  nowMs,
  pod,
  reservation,
  statefulSet,
  zone,
} from "../../functions/advance-zone-rollout/given.ts";

const down = (...given: Parameters<typeof zone>) => downOf(zone(...given));

test("wanted ordinals that are missing, terminating or not ready are down (R7)", () => {
  assert.deepEqual(down("a", "on"), {});
  assert.deepEqual(down("a", ".o.o."), { 0: "missing", 2: "missing", 4: "missing" });
  assert.deepEqual(down("a", "t"), { 0: "terminating" });
  assert.deepEqual(down("a", "oxwbB"), { 1: "not ready", 2: "not ready", 3: "not ready", 4: "not ready" });
  assert.deepEqual(down("a", "..."), { 0: "missing", 1: "missing", 2: "missing" });
  assert.deepEqual(down("a", ""), {});
});

test("the pods of a claim are down, even while they are scaled away; a pod that is already down keeps its own reason (R18)", () => {
  const claims = [claimOf("a:1-4", "scale-down"), claimOf("b:0", "scale-down")];
  const claimed = zone("a", "nnw", { extra: [pod("a-3"), pod("a-7")], reserved: [reservation("a-1")], claims });
  assert.deepEqual(Object.fromEntries(claimed.down), { 1: "reserved", 2: "not ready", 3: "claimed" });
});

test("if two claims name a pod, the first is reported, so that a waiting function waits for it", () => {
  const claims = [claimOf("a:0-2", "node", { terms: "announced" }), claimOf("a:2", "scale-down")];
  const on = (ordinal: number) => claimOn(zone("a", "nnnn", { claims }), ordinal)?.kind;
  assert.deepEqual([0, 2, 3].map(on), ["node", "node", undefined]);
});

test("missing ordinals are counted from ordinals.start", () => {
  assert.deepEqual(down("a", "o.o", { start: 5 }), { 6: "missing" });
  assert.deepEqual(down("a", "...", { start: 5 }), { 5: "missing", 6: "missing", 7: "missing" });
});

test("pods count in the order of their ordinals, in whatever order they are listed", () => {
  const pods = [pod("a-10"), pod("a-2"), pod("a-0")];
  const surveyed = surveyZone(statefulSet("a", { replicas: 11 }), pods, [], nowMs);
  assert.deepEqual(
    surveyed.pods.map(({ name }) => name),
    ["a-0", "a-2", "a-10"],
  );
  assert.deepEqual([...missingOrdinals(surveyed)], [1, 3, 4, 5, 6, 7, 8, 9]);
});

test("missing ordinals are counted and not listed, even if 2^31 are wanted", () => {
  const pods = [pod("a-7", { readySinceMs: undefined }), pod("a-3")];
  const reserved = [3, 5, 5].map((ordinal) => reservation(`a-${ordinal}`));
  const surveyed = surveyZone(statefulSet("a", { replicas: mostReplicas }), pods, reserved, nowMs);
  assert.deepEqual(Object.fromEntries(surveyed.down), { 3: "reserved", 5: "missing", 7: "not ready" });
  assert.equal(surveyed.missing, mostReplicas - 3);
  assert.equal(countDown(surveyed), mostReplicas);
  assert.deepEqual([...missingOrdinals(surveyed).take(7)], [0, 1, 2, 4, 6, 8, 9]);
  assert.equal(
    describeDown(surveyed),
    "a: 2147483647 of 2147483647 down (2147483645 missing, 1 not ready, 1 reserved)",
  );
  assert.equal(isUnsettled(surveyed), true);
});

test("a reserved ordinal without a pod is missing if it is wanted, and otherwise reserved", () => {
  for (const drawing of ["o.o.o", ".o.o.", ".....", "ooooo", "o...o", ".o..."]) {
    const reserved = [0, 1, 2, 3, 4, 5].map((ordinal) => reservation(`a-${ordinal}`));
    const surveyed = zone("a", drawing, { reserved });
    const expected = [...drawing, "o"].map((letter, ordinal) => [ordinal, letter === "." ? "missing" : "reserved"]);
    assert.deepEqual(Object.fromEntries(surveyed.down), Object.fromEntries(expected), drawing);
    assert.equal(surveyed.missing, 0);
  }
});

test("an ordinal with two reservations or two pods counts once", () => {
  const twice = zone("a", "o.o", { reserved: [reservation("a-1"), reservation("a-1", { uid: "another" })] });
  assert.deepEqual([countDown(twice), twice.missing, downOf(twice)], [1, 0, { 1: "missing" }]);
  const namesakes = zone("a", "oo", { replicas: 3, extra: [pod("a-01")] });
  assert.deepEqual([namesakes.missing, downOf(namesakes)], [1, { 2: "missing" }]);
});

test("a pod is down until it has been ready for minReadySeconds, and the zone gives the time of that", () => {
  const recent = (ageMs: number, ordinal: number) => pod(`a-${ordinal}`, { readySinceMs: nowMs - ageMs });
  const pods = [recent(30_000, 0), recent(29_000, 1), recent(5_000, 2)];
  const surveyed = surveyZone(statefulSet("a", { minReadySeconds: 30 }), pods, [], nowMs);
  assert.deepEqual(Object.fromEntries(surveyed.down), { 1: "not ready", 2: "not ready" });
  assert.equal(surveyed.nextAvailableInMs, 1_000);
});

test("a zone whose down pods wait for more than time gives no time", () => {
  assert.equal(zone("a", "x.t", { minReadySeconds: 30 }).nextAvailableInMs, undefined);
  assert.equal(zone("a", "ooo", { minReadySeconds: 30 }).nextAvailableInMs, undefined);
});

test("an ordinal with an open reservation is down, although its pod looks ready", () => {
  assert.deepEqual(down("a", "ooo", { reserved: [reservation("a-1")] }), { 1: "reserved" });
  assert.deepEqual(down("a", "o", { reserved: [reservation("a-0", { uid: "another" })] }), { 0: "reserved" });
});

test("a reserved ordinal counts once, by the state of its pod", () => {
  assert.deepEqual(down("a", ".xt", { reserved: [0, 1, 2].map((ordinal) => reservation(`a-${ordinal}`)) }), {
    0: "missing",
    1: "not ready",
    2: "terminating",
  });
});

test("a reserved ordinal that the StatefulSet no longer wants is still down", () => {
  const surveyed = zone("a", "oo", { reserved: [reservation("a-5")] });
  assert.deepEqual(Object.fromEntries(surveyed.down), { 5: "reserved" });
  assert.equal(isUnsettled(surveyed), true);
});

test("reservations of other zones do not count", () => {
  const surveyed = zone("a", "oo", { reserved: [reservation("b-0")] });
  assert.deepEqual(Object.fromEntries(surveyed.down), {});
  assert.equal(surveyed.reserved.size, 0);
});

test("pods beyond the replicas are leaving: they are not down, but the zone is unsettled until they are gone", () => {
  const surveyed = zone("a", "oo", { extra: [pod("a-2", { terminating: true }), pod("a-7")] });
  assert.equal(countDown(surveyed), 0);
  assert.deepEqual(
    surveyed.leaving.map(({ name }) => name),
    ["a-2", "a-7"],
  );
  assert.equal(isUnsettled(surveyed), true);
  assert.equal(isUnsettled(zone("a", "oo")), false);
  assert.equal(isUnsettled(zone("a", "o.")), true);
});

test("outdated pods are wanted, not terminating, and of another revision or none", () => {
  const names = (...given: Parameters<typeof zone>) => zone(...given).outdated.map(({ name }) => name);
  assert.deepEqual(names("a", "noxwtbB.o", { extra: [pod("a-9")] }), ["a-1", "a-2", "a-5", "a-8"]);
  assert.deepEqual(names("a", "", { replicas: 1, extra: [pod("a-0", { revision: undefined })] }), ["a-0"]);
  assert.deepEqual(names("a", "no", { updateRevision: undefined }), []);
});

const settled = (
  seen: ReservedPodState["pod"],
  set: ReservedPodState["workload"] = statefulSet("a"),
  more: Partial<ReservedPodState> = {},
) => isSettled(reservation("a-1"), { pod: seen, workload: set, isMember: true, orphans: 0, ...more }, nowMs);
const departed = { isMember: false };
const gone = { workload: undefined, isMember: false };

test("a reservation is settled by another available pod at its ordinal (R6)", () => {
  assert.equal(settled(pod("a-1", { uid: "next" })), true);
});

test("a reservation is not settled by the reserved pod itself, however ready", () => {
  assert.equal(settled(pod("a-1")), false);
});

test("a reservation is not settled by another pod that is unready, terminating, or not ready for long enough", () => {
  assert.equal(settled(pod("a-1", { uid: "next", readySinceMs: undefined })), false);
  assert.equal(settled(pod("a-1", { uid: "next", terminating: true })), false);
  const patient = statefulSet("a", { minReadySeconds: 30 });
  assert.equal(settled(pod("a-1", { uid: "next", readySinceMs: nowMs - 29_000 }), patient), false);
  assert.equal(settled(pod("a-1", { uid: "next", readySinceMs: nowMs - 30_000 }), patient), true);
});

test("a missing pod settles its reservation only if no StatefulSet wants it", () => {
  assert.equal(settled(undefined), false);
  assert.equal(settled(undefined, statefulSet("a", { replicas: 1 })), true);
  assert.equal(settled(undefined, statefulSet("a", { start: 2 })), true);
  assert.equal(settled(undefined, undefined, gone), true);
});

test("a pod at an ordinal that is no longer wanted keeps its reservation until it is gone or ready", () => {
  const small = statefulSet("a", { replicas: 1 });
  assert.equal(settled(pod("a-1", { uid: "next", readySinceMs: undefined }), small), false);
  assert.equal(settled(pod("a-1", { uid: "next", terminating: true, readySinceMs: undefined }), small), false);
  assert.equal(settled(pod("a-1", { uid: "next" }), small), true);
});

test("if the StatefulSet is gone, and with it minReadySeconds, a ready pod is available at once", () => {
  const next = pod("a-1", { uid: "next", ownerUid: undefined, readySinceMs: nowMs });
  assert.equal(settled(next, undefined, { ...gone, orphans: 1 }), true);
});

test("a pod that has moved to another group with its StatefulSet settles its reservation when it is gone", () => {
  const moved = statefulSet("a", { group: "other" });
  assert.equal(settled(pod("a-1"), moved, departed), false);
  assert.equal(settled(undefined, moved, departed), true);
  assert.equal(settled(pod("a-1", { uid: "next", readySinceMs: undefined }), moved, departed), true);
});

test("while orphaned pods of a StatefulSet exist, its reservations stay, because it will be recreated (S3)", () => {
  const next = (changes: object) => pod("a-1", { uid: "next", ownerUid: undefined, ...changes });
  const leaving = statefulSet("a", { replicas: 0, deleting: true });
  for (const where of [gone, { workload: leaving }]) {
    assert.equal(settled(undefined, undefined, { ...where, orphans: 1 }), false);
    assert.equal(settled(pod("a-1", { terminating: true }), undefined, { ...where, orphans: 0 }), false);
    assert.equal(settled(next({ readySinceMs: undefined }), undefined, { ...where, orphans: 1 }), false);
    assert.equal(settled(next({}), undefined, { ...where, orphans: 1 }), true);
    assert.equal(settled(next({ readySinceMs: undefined }), undefined, { ...where, orphans: 0 }), true);
    assert.equal(settled(undefined, undefined, { ...where, orphans: 0 }), true);
  }
});

test("a reservation of a StatefulSet that is being deleted is not settled while it still owns the pod at the ordinal", () => {
  const leaving = statefulSet("a", { replicas: 0, deleting: true });
  assert.equal(settled(pod("a-1", { uid: "next", readySinceMs: undefined, terminating: true }), leaving), false);
});

test("a message counts the pods that are down by their reasons", () => {
  const surveyed = zone("a", "o.xxt", { reserved: [reservation("a-0")], extra: [pod("a-9")] });
  assert.equal(describeDown(surveyed), "a: 5 of 5 down (1 missing, 2 not ready, 1 terminating, 1 reserved, 1 leaving)");
  assert.equal(describeDown(zone("a", "oo", { extra: [pod("a-9")] })), "a: 1 leaving");
  assert.equal(describeDown(zone("a", "oo")), "a: ready");
});
