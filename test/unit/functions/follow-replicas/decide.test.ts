/** Which followers get another size, and when follow-replicas decides again. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decide, type FollowSnapshot } from "../../../../functions/follow-replicas/decide.ts";
import type { SizeBlocked } from "../../../../functions/shared/scaling/wanted-replicas.ts";
import { claimOf } from "../advance-zone-rollout/given.ts";
import { mirrors } from "./following.ts";
import { type Follower, follower, outcomeOf, reviewed, snapshotOf } from "./given.ts";

const decideOn = (followers: readonly Follower[], changes: Partial<FollowSnapshot> = {}) =>
  decide(snapshotOf(followers, changes));

/** Zone NAME keeps its three replicas. */
const blocked = (name: string, guard = "leader-missing", requeueAfterMs?: number): Follower =>
  follower(name, "ooo", { guard, message: guard, ...(requeueAfterMs === undefined ? {} : { requeueAfterMs }) });

test("follow-replicas decides again at the earliest time that any of its followers needs, or at the next event if none does", () => {
  const waiting: SizeBlocked = { guard: "min-time-between-zones", message: "" };
  const mirroring = (name: string, wanted: Follower["wanted"] = 3) =>
    follower(name, "ooo", wanted, { annotations: mirrors });
  for (const [followers, expected, requeueAfterMs] of [
    [[], "done", undefined],
    [[follower("b", "ooo", 3)], "done", undefined],
    [[follower("b", "ooo", 4)], "b to 4", undefined],
    [[mirroring("b")], "done", 5_000],
    [[follower("b", "ooo", 3), mirroring("c")], "done", 5_000],
    [[mirroring("b"), follower("c", "ooo", 4)], "c to 4", 5_000],
    [[mirroring("b", { ...waiting, requeueAfterMs: 4_999 })], "min-time-between-zones", 4_999],
    [[mirroring("b", { ...waiting, requeueAfterMs: 5_001 })], "min-time-between-zones", 5_000],
    [[blocked("b")], "leader-missing", 30_000],
    [[blocked("b", "leader-missing", 31_000)], "leader-missing", 31_000],
    [[blocked("b"), blocked("c", "min-time-between-zones", 7_000)], "leader-missing", 7_000],
    [[blocked("b", "min-time-between-zones", 7_000), follower("c", "ooo", 4)], "c to 4", 7_000],
    [[mirroring("b"), follower("c", "ooo", 2)], "c to 2", 2_000],
    [[mirroring("b", 2)], "b to 2", 2_000],
    [[follower("b", "ooo", 2, { labels: reviewed })], "b to 2", 30_000],
  ] as const) {
    const verdict = decideOn(followers);
    assert.deepEqual([outcomeOf(verdict), verdict.requeueAfterMs], [expected, requeueAfterMs]);
  }
});

test("all followers that must grow get their size together, with the first by name that may shrink", () => {
  const [grows, shrinks] = [4, 2].map((wanted) => (name: string) => follower(name, "ooo", wanted));
  assert.ok(grows !== undefined && shrinks !== undefined);
  for (const [followers, expected] of [
    [[grows("b"), grows("c")], "b to 4, c to 4"],
    [[shrinks("b"), grows("c"), shrinks("d"), grows("e")], "c to 4, e to 4, b to 2"],
    [[shrinks("b"), shrinks("c")], "b to 2"],
    [[blocked("b"), shrinks("c"), shrinks("d")], "c to 2"],
    [[blocked("b"), grows("c")], "c to 4"],
    [[blocked("b"), blocked("c", "leader-circle")], "leader-missing"],
    [[follower("b", "ooo", 3), blocked("c", "leader-circle")], "leader-circle"],
    [[follower("b", "xoo", 2), grows("c")], "c to 4"],
  ] as const)
    assert.equal(outcomeOf(decideOn(followers)), expected);
  const raised = decideOn([grows("b"), shrinks("c")]);
  assert.ok(raised.kind === "take");
  assert.deepEqual(
    raised.targets.map(({ claim }) => claim?.zone),
    [undefined, "c"],
  );
});

test("size-refused: a follower keeps a size that the API server refused to change, and blocks no other", () => {
  const refused = new Map([["uid-of-b", "not on a Sunday"]]);
  for (const [followers, expected] of [
    [[follower("b", "ooo", 4)], "size-refused"],
    [[follower("b", "ooo", 2)], "size-refused"],
    [[follower("b", "ooo", 3)], "done"],
    [[follower("b", "ooo", 4), follower("c", "ooo", 5)], "c to 5"],
    [[follower("b", "ooo", 2), follower("c", "ooo", 2)], "c to 2"],
  ] as const)
    assert.equal(outcomeOf(decideOn(followers, { refused })), expected);
  const verdict = decideOn([follower("b", "ooo", 4)], { refused });
  assert.deepEqual([verdict.message, verdict.zone, verdict.requeueAfterMs], ["not on a Sunday", "b", 30_000]);
});

test("delay-malformed: a follower grows beside a delay and never shrinks, and keeps its size if half of the delay is malformed", () => {
  const delayed = (wanted: number, text: string, url: string) =>
    follower("b", "ooo", wanted, {
      annotations: { "rollout-delayed-downscale": text, "rollout-prepare-delayed-downscale-url": url },
    });
  const url = "http://pod/x";
  for (const [wanted, text, at, expected] of [
    [4, "1h", url, "b to 4"],
    [2, "1h", url, "done"],
    [4, "never", url, "delay-malformed"],
    [2, "never", url, "delay-malformed"],
    [3, "never", url, "done"],
    [4, "1h", "pod/x", "delay-malformed"],
    [2, "1h", "pod/x", "delay-malformed"],
    [2, "0s", url, "b to 2"],
  ] as const)
    assert.equal(outcomeOf(decideOn([delayed(wanted, text, at)])), expected, `${wanted} ${text} ${at}`);
  const verdict = decideOn([delayed(4, "never", url)]);
  assert.deepEqual([verdict.zone, verdict.requeueAfterMs], ["b", 30_000]);
});

test("a follower without any setting of its own gets the size that it is to have", () => {
  const plain = (wanted: number) => follower("b", "ooo", wanted, { scaling: undefined });
  assert.deepEqual(
    [4, 3, 2].map((wanted) => outcomeOf(decideOn([plain(wanted)]))),
    ["b to 4", "done", "b to 2"],
  );
});

test("budget: a zone loses one pod at a time where its budget blocks more, and none while something else blocks them", () => {
  const foreign = claimOf("b:2", "process");
  for (const [drawing, options, expected] of [
    ["xooo", { maxUnavailable: 1 }, "budget"],
    ["xooo", { maxUnavailable: 2 }, "b to 3"],
    ["xooo", { maxUnavailable: 3 }, "b to 2"],
    ["oooo", { maxUnavailable: 1 }, "b to 2"],
    // Beside that claim ordinal 3 alone might leave.
    ["oooo", { maxUnavailable: 2, claims: [foreign] }, "zone-restarting-process"],
  ] as const)
    assert.equal(outcomeOf(decideOn([follower("b", drawing, 2, options)])), expected, `${drawing} ${expected}`);
});

test("zone-scaling-down: no zone shrinks beside a claim of follow-replicas, except where a webhook reviews its size", () => {
  const claims = [claimOf("c:3", "scale-down"), claimOf("d:3", "scale-down")];
  const verdict = decideOn([follower("b", "ooo", 2)], { claims });
  assert.deepEqual([outcomeOf(verdict), verdict.zone, verdict.requeueAfterMs], ["zone-scaling-down", "c", 2_000]);
  assert.equal(outcomeOf(decideOn([follower("b", "ooo", 2, { labels: reviewed })], { claims })), "b to 2");
  assert.equal(outcomeOf(decideOn([follower("b", "ooo", 4)], { claims })), "b to 4");
});
