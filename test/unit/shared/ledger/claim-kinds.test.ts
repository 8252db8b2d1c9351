/** How claims of each kind end: every row of the table, and what its function undoes first. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { type ClaimContent, claimKinds, type KindName, makeClaim } from "../../../../functions/shared/ledger/claim.ts";
import {
  type ClaimedObjects,
  describeClaim,
  dueMs,
  endsOf,
  guardOfClaim,
  kinds,
  undoAfterMs,
} from "../../../../functions/shared/ledger/claim-kinds.ts";
import { dropAfterMs } from "../../../../functions/shared/ledger/reservation.ts";
import type { StatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";
import { nowMs, pod, statefulSet } from "../../functions/advance-zone-rollout/given.ts";

const anchor = { resource: "pods", name: "a-3", annotation: "example.dev/phase" };

function claim(kind: KindName, changes: Partial<ClaimContent> = {}) {
  const uids = kind === "volume" ? { "data-a-3": "volume" } : { "a-3": "uid-of-a-3", "a-4": "uid-of-a-4" };
  return makeClaim({
    id: "one",
    kind,
    zone: "a",
    members: [{ first: 3, last: 4 }],
    uids,
    ...(kind === "process" ? { readyMs: { "a-3": nowMs - 600_000, "a-4": nowMs - 600_000 } } : {}),
    by: "another-function",
    stampMs: nowMs - 1_000,
    phase: "begun",
    terms: "asked",
    ...(kind === "scale-down" ? {} : { anchor }),
    ...changes,
  });
}

/** Pods by ordinal, given by their difference from ready ones that the claim names. */
function where(
  replicas: number,
  pods: Readonly<Record<number, Parameters<typeof pod>[1]>>,
  changes: Partial<ClaimedObjects> = {},
): ClaimedObjects {
  const standing = Object.entries(pods).map(([ordinal, read]) => [Number(ordinal), pod(`a-${ordinal}`, read)] as const);
  return {
    statefulSet: statefulSet("a", { replicas }),
    pods: new Map(standing),
    volumes: new Map(),
    isAnchored: true,
    ...changes,
  };
}

const isSettled = (kind: KindName, at: ClaimedObjects) => kinds[kind].isSettled(claim(kind), at, nowMs);

function isAbandoned(kind: KindName, ageMs: number, at: ClaimedObjects) {
  return kinds[kind].isAbandoned(claim(kind, { stampMs: nowMs - ageMs }), at, nowMs);
}

describe("scale-down", () => {
  test("a scale-down is settled when the StatefulSet wants no member and no pod exists at their ordinals", () => {
    assert.ok(isSettled("scale-down", where(3, {})));
    assert.ok(!isSettled("scale-down", where(3, { 4: { terminating: true } })));
    assert.ok(!isSettled("scale-down", where(4, {})));
    assert.ok(isSettled("scale-down", where(0, {}, { statefulSet: undefined })));
    assert.ok(!isSettled("scale-down", where(0, { 3: {} }, { statefulSet: undefined })));
  });

  test("a scale-down that was never carried out is abandoned 90 s after its last stamp, and no sooner (R20)", () => {
    const at = where(5, { 3: {}, 4: {} }, { isAnchored: false });
    assert.equal(undoAfterMs, 90_000);
    assert.ok(!isAbandoned("scale-down", 89_999, at));
    assert.ok(isAbandoned("scale-down", 90_000, at));
    assert.ok(!isAbandoned("scale-down", 90_000, { ...at, isAnchored: true }));
  });

  test("a scale-down that was carried out is not abandoned, however long its pods take to go", () => {
    assert.ok(!isAbandoned("scale-down", 3_600_000, where(3, { 3: {} }, { isAnchored: false })));
  });

  test("a scale-down undoes the members that are wanted, and only them (R20)", () => {
    const undone = (replicas: number) => kinds["scale-down"].undoes(claim("scale-down"), where(replicas, {}));
    assert.deepEqual(undone(9), [{ first: 3, last: 4 }]);
    assert.deepEqual(undone(5), [{ first: 3, last: 4 }]);
    assert.deepEqual(undone(4), [{ first: 3, last: 3 }]);
    assert.deepEqual(undone(3), []);
    const from3 = where(0, {}, { statefulSet: statefulSet("a", { start: 3, replicas: 2 }) });
    const all = claim("scale-down", { members: [{ first: 1, last: 9 }] });
    assert.deepEqual(
      kinds["scale-down"].undoes(all, from3),
      [{ first: 3, last: 4 }],
      "the ordinals begin at spec.ordinals.start",
    );
  });
});

describe("volume", () => {
  test("a volume is settled when its volume claim is gone, or another one has its name", () => {
    assert.ok(isSettled("volume", where(3, {})));
    assert.ok(isSettled("volume", where(3, {}, { volumes: new Map([["data-a-3", "another"]]) })));
    assert.ok(!isSettled("volume", where(3, {}, { volumes: new Map([["data-a-3", "volume"]]) })));
    assert.ok(!kinds.volume.isSettled(claim("volume", { uids: {} }), where(3, {}), nowMs), "the claim names none");
  });

  test("a volume is not settled while one of several volume claims exists", () => {
    const both = claim("volume", { uids: { "data-a-3": "data", "logs-a-3": "logs" } });
    const standing = (...volumes: readonly [string, string][]) =>
      kinds.volume.isSettled(both, where(3, {}, { volumes: new Map(volumes) }), nowMs);
    assert.ok(!standing(["logs-a-3", "logs"]));
    assert.ok(!standing(["data-a-3", "data"], ["logs-a-3", "another"]));
    assert.ok(standing(["data-a-3", "another"]));
  });
});

describe("process", () => {
  const again = { readySinceMs: nowMs - 500 };
  const before = { readySinceMs: nowMs - 600_000 };

  test("a process is settled when each member has become ready again, or another pod has replaced it", () => {
    assert.ok(isSettled("process", where(5, { 3: again, 4: { uid: "next", readySinceMs: nowMs - 1 } })));
    assert.ok(!isSettled("process", where(5, { 3: again, 4: before })));
    // A kubelet's clock may be behind that of the API server: then the pod seems to have been ready again before the
    // claim.
    assert.ok(isSettled("process", where(5, { 3: again, 4: { readySinceMs: nowMs - 5_000 } })));
    assert.ok(isSettled("process", where(5, { 3: again, 4: { uid: "next", ...before } })), "perhaps by another clock");
    assert.ok(!isSettled("process", where(5, { 3: again, 4: { readySinceMs: undefined } })));
    assert.ok(!isSettled("process", where(5, { 3: again })), "a wanted member is missing");
  });

  test("readiness without a time, now or at the claim, does not prove a restart", () => {
    const untold = Number.POSITIVE_INFINITY;
    assert.ok(!isSettled("process", where(5, { 3: again, 4: { readySinceMs: untold } })));
    assert.ok(isSettled("process", where(5, { 3: again, 4: { uid: "next", readySinceMs: nowMs - 1 } })));
    const timeless = claim("process", { readyMs: { "a-3": nowMs - 600_000 } });
    assert.ok(!kinds.process.isSettled(timeless, where(5, { 3: again, 4: again }), nowMs));
  });

  test("a member that is gone and that the StatefulSet does not want delays no settlement", () => {
    assert.ok(isSettled("process", where(4, { 3: again })));
    assert.ok(isSettled("process", where(0, {}, { statefulSet: undefined })));
  });
});

describe("node", () => {
  test("a node is settled when each member is back as another pod, or the StatefulSet no longer wants it", () => {
    const back = { uid: "next" };
    assert.ok(isSettled("node", where(5, { 3: back, 4: back })));
    assert.ok(isSettled("node", where(4, { 3: back })));
    assert.ok(!isSettled("node", where(5, { 3: back })));
    assert.ok(!isSettled("node", where(5, { 3: back, 4: {} })), "the pod of the failed node exists");
    assert.ok(!isSettled("node", where(5, { 3: back, 4: { uid: "next", readySinceMs: undefined } })));
  });
});

for (const kind of ["process", "node"] as const) {
  const backSince = (readySinceMs: number) => ({ uid: "next", readySinceMs });

  test(`a ${kind} is not settled before its members have been ready for minReadySeconds; one without a StatefulSet has none`, () => {
    const slow = { statefulSet: statefulSet("a", { replicas: 5, minReadySeconds: 10 }) };
    const since = (ms: number, at: Partial<ClaimedObjects>) =>
      isSettled(kind, where(5, { 3: backSince(nowMs - ms), 4: backSince(nowMs - 60_000) }, at));
    assert.ok(!since(9_999, slow));
    assert.ok(since(10_000, slow));
    assert.ok(since(0, { statefulSet: undefined }));
  });

  test(`a ${kind} of several ranges is settled when each member that is wanted is back, and no sooner`, () => {
    const ranges = claim(kind, {
      members: [
        { first: 1, last: 2 },
        { first: 4, last: 4 },
      ],
      uids: { "a-1": "one", "a-2": "two", "a-4": "four" },
    });
    const settledWith = (...ordinals: readonly number[]) =>
      kinds[kind].isSettled(
        ranges,
        where(5, Object.fromEntries(ordinals.map((ordinal) => [ordinal, backSince(nowMs - 1)]))),
        nowMs,
      );
    assert.ok(settledWith(1, 2, 4));
    for (const standing of [[1, 2], [1, 4], [2, 4], [4], []]) assert.ok(!settledWith(...standing), standing.join());
  });
}

test("a node without a uid for a pod is not settled by any pod, because Sluice cannot know whether it is another one", () => {
  const nameless = claim("node", { uids: { "a-3": "uid-of-a-3" } });
  const back = { uid: "next" };
  assert.ok(!kinds.node.isSettled(nameless, where(5, { 3: back, 4: back }), nowMs));
  assert.ok(kinds.node.isSettled(nameless, where(4, { 3: back }), nowMs));
});

for (const kind of claimKinds.filter((name) => name !== "scale-down")) {
  test(`a ${kind} is never dropped by its age alone, nor before its function has stopped acting (R10a)`, () => {
    const at = where(5, { 3: {}, 4: {} });
    assert.ok(!isAbandoned(kind, 86_400_000, at));
    assert.ok(!isAbandoned(kind, dropAfterMs - 1, { ...at, isAnchored: false }));
    assert.ok(isAbandoned(kind, dropAfterMs, { ...at, isAnchored: false }));
    assert.deepEqual(kinds[kind].undoes(claim(kind), at), []);
  });
}

test("each kind has a guard of its own, and a message with its members, its kind, its function and its age", () => {
  const guards = claimKinds.map((kind) => guardOfClaim(claim(kind)));
  assert.deepEqual(guards, [
    "zone-scaling-down",
    "zone-removing-volume",
    "zone-restarting-process",
    "zone-losing-node",
  ]);
  const renewed = claim("scale-down", { sinceMs: nowMs - 60_000, terms: "announced" });
  assert.equal(
    describeClaim(renewed),
    "a: 3-4 claimed for a scale-down (begun, announced) by another-function, since 2026-01-01T00:09:00.000Z",
  );
  const later = { isKnown: false, id: "x", kind: "later", zone: "a", by: "rotate-tapes", line: "" } as const;
  assert.equal(guardOfClaim(later), "zone-claim-unknown");
  assert.match(describeClaim(later), /^a is claimed by rotate-tapes for "later", which this version .* does not know/);
  assert.match(describeClaim({ ...later, by: "" }), /^a is claimed for "later"/);
});

test("the message names members without ordinals by the claim's names", () => {
  const members = [{ first: 2 ** 30 + 7, last: 2 ** 30 + 7 }];
  const named = claim("scale-down", { members, uids: { "orders-7": "uid-7", "orders-9": "uid-9" } });
  assert.match(describeClaim(named), /^a: orders-7,orders-9 claimed for a scale-down /);
  assert.match(describeClaim(claim("scale-down", { members, uids: {} })), /^a: 1073741831 claimed for a scale-down /);
});

test("the message about a parked process says what ends that", () => {
  const parked = claim("process", { mode: "parked", phase: "parked" });
  assert.match(endsOf(parked), /^when sluice\.dev\/stop is taken off its pod, and then when each member runs another/);
  assert.equal(endsOf(claim("process", { mode: "parked", phase: "starting" })), kinds.process.ends);
  const described = describeClaim(parked);
  assert.match(
    described,
    /claimed for a process that is parked until sluice\.dev\/stop is taken off its pod \(parked\)/,
  );
});

test("the message about many ranges names as many as fit into 100 bytes", () => {
  const members = Array.from({ length: 500 }, (_, index) => ({ first: 2 * index, last: 2 * index }));
  const [, described = ""] = /^a: (\S+) claimed /.exec(describeClaim(claim("scale-down", { members }))) ?? [];
  assert.match(described, /^0,2,4,.+…$/);
  assert.equal(Buffer.byteLength(described), 100);
});

test("a claim is overdue an hour after it was made, or later by the times that users have set for its pods", () => {
  const minutesOf = (kind: KindName, changes: Parameters<typeof statefulSet>[1], own: Partial<ClaimContent> = {}) => {
    const made = claim(kind, { stampMs: nowMs, sinceMs: nowMs - 60_000, ...own });
    return (dueMs(made, statefulSet("a", { graceMs: 0, ...changes })) - (nowMs - 60_000)) / 60_000;
  };
  for (const kind of claimKinds) assert.equal(minutesOf(kind, {}), 60, kind);
  const chosen = { graceMs: 20 * 60_000, minReadySeconds: 300 };
  assert.equal(minutesOf("scale-down", chosen), 80, "all its pods end at once");
  assert.equal(minutesOf("scale-down", { ...chosen, isOrdered: true }), 100, "two pods end one after the other");
  const delay = { delayMs: 12 * 3_600_000, endpoint: undefined };
  const scaling = { delay } as StatefulSet["scaling"];
  assert.equal(minutesOf("scale-down", { scaling }), 60 + 12 * 60);
  assert.equal(minutesOf("process", chosen), 65);
  assert.equal(minutesOf("process", chosen, { mode: "parked", phase: "starting" }), 65, "it is parked no longer");
  assert.equal(minutesOf("process", {}, { mode: "parked", phase: "parked" }), 60 * (1 + 100 * 365 * 24));
  assert.equal(minutesOf("process", chosen, { mode: "single", phase: "parked" }), 65, "it is not parked");
  assert.equal(minutesOf("node", chosen), 85);
  assert.equal(minutesOf("volume", chosen), 60);
  for (const kind of claimKinds)
    assert.equal(
      dueMs(claim(kind, { stampMs: nowMs }), undefined),
      nowMs + 3_600_000,
      `${kind}: its zone is not known`,
    );
});
