/** A rollout and claims (rule R18): it counts them, waits for them, and takes none of their pods. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { claimKinds, type KindName } from "../../../../functions/shared/ledger/claim.ts";
import { claimOf, decideOn, downOf, foreignClaim, outcome, zone } from "./given.ts";

const guards: Readonly<Record<KindName, string>> = {
  "scale-down": "zone-scaling-down",
  volume: "zone-removing-volume",
  process: "zone-restarting-process",
  node: "zone-losing-node",
};

for (const kind of claimKinds) {
  const guard = guards[kind];

  test(`${guard}: while another zone has a claim for a ${kind}, no pod goes, and the message says whose it is`, () => {
    const verdict = decideOn([zone("a", "ooo"), zone("b", "nnn", { claims: [claimOf("b:2", kind)] })]);
    assert.equal(outcome(verdict), guard);
    assert.equal(verdict.zone, "b");
    assert.equal(verdict.requeueAfterMs, 5_000, "no event reports its end");
    assert.match(
      verdict.message,
      /^b: 2 claimed for .* \(begun\) by another-function, since 2026-01-01T00:09:59\.000Z; /,
    );
  });

  test(`${guard}: a rollout takes no pod of a claim for a ${kind}, whether the pod is outdated, broken or down`, () => {
    for (const drawing of ["noo", "nxx", "nbb", "npp", "ntt"]) {
      const claimed = zone("a", drawing, { claims: [claimOf("a:1-2", kind)], maxUnavailable: 3 });
      assert.equal(outcome(decideOn([claimed])), guard, drawing);
    }
  });

  test(`${guard}: a claim for a ${kind} on a StatefulSet that has left the group blocks all zones`, () => {
    const verdict = decideOn([zone("a", "ooo")], [], {}, [claimOf("gone:0", kind)]);
    assert.equal(outcome(verdict), guard);
    assert.equal(verdict.zone, "gone");
  });

  test(`${guard}: a group whose pods are all new is done only when the claim for a ${kind} has ended`, () => {
    assert.equal(outcome(decideOn([zone("a", "nnn", { claims: [claimOf("a:2", kind)] })])), guard);
    const recorded = { claims: [claimOf("a:2", kind)], currentRevision: "old" };
    assert.equal(outcome(decideOn([zone("a", "nnn", recorded)])), guard, "nor is its revision recorded");
  });
}

test("pods of the same zone that no claim names go, within the budget, in which the claimed ones count as down", () => {
  const claims = [claimOf("a:1-2", "scale-down")];
  assert.equal(outcome(decideOn([zone("a", "ooo", { claims, maxUnavailable: 3 })])), "delete a-0");
  assert.equal(outcome(decideOn([zone("a", "ooo", { claims, maxUnavailable: 2 })])), "zone-scaling-down");
  assert.equal(
    outcome(decideOn([zone("a", "ooo", { claims: [claimOf("a:1", "node", { terms: "announced" })] })])),
    "zone-losing-node",
  );
});

test("the removal of a volume does not count against its zone's budget", () => {
  const claims = [claimOf("a:2", "volume")];
  assert.deepEqual(downOf(zone("a", "ooo", { claims })), {});
  assert.equal(outcome(decideOn([zone("a", "ooo", { claims })])), "delete a-0");
});

test("zone-claim-unknown: a claim of an unknown kind makes the whole zone count as down", () => {
  const claims = [foreignClaim("a")];
  assert.deepEqual(downOf(zone("a", "on", { claims })), { 0: "claimed", 1: "claimed" });
  assert.equal(outcome(decideOn([zone("a", "ooo", { claims, maxUnavailable: 3 })])), "zone-claim-unknown");
  const verdict = decideOn([zone("a", "nnn", { claims }), zone("b", "ooo")]);
  assert.equal(outcome(verdict), "zone-claim-unknown");
  assert.match(verdict.message, /^a is claimed for "later", which this version of Sluice does not know/);
});

test("broken pods that no claim names are replaced beside a claim (R13)", () => {
  const claims = [claimOf("a:2", "scale-down")];
  assert.equal(outcome(decideOn([zone("a", "bno", { claims }), zone("b", "bo")])), "repair a-0, repair b-0");
});

test("a rollout repairs the broken replacement of a pod that a claim names by uid, because otherwise neither would end (R13, R18)", () => {
  const named = (uid: string) => [claimOf("a:0", "node", { uids: { "a-0": uid } })];
  assert.equal(outcome(decideOn([zone("a", "bnn", { claims: named("another") })])), "repair a-0");
  assert.equal(outcome(decideOn([zone("a", "bnn", { claims: named("uid-of-a-0") })])), "zone-losing-node");
  assert.equal(outcome(decideOn([zone("a", "onn", { claims: named("another") })])), "zone-losing-node", "it is ready");
});

test("the broken replacement of a claimed pod stays while another claim names it, in any order of the claims (R18)", () => {
  const fenced = claimOf("a:0", "node", { uids: { "a-0": "another" } });
  for (const other of [foreignClaim("a"), claimOf("a:0", "volume", { uids: { "data-a-0": "volume" } })])
    for (const claims of [
      [fenced, other],
      [other, fenced],
    ])
      assert.doesNotMatch(outcome(decideOn([zone("a", "bnn", { claims })])), /repair/);
});

test("a claimed ordinal without a pod counts as missing if it is wanted, and as nothing otherwise", () => {
  const claims = [claimOf("a:1-2147483647", "scale-down")];
  assert.deepEqual(downOf(zone("a", "o.o", { claims })), { 1: "missing", 2: "claimed" });
  assert.deepEqual(downOf(zone("a", "o", { claims })), {});
});

test("the claims of another zone do not concern this zone's pods", () => {
  assert.deepEqual(downOf(zone("a", "ooo", { claims: [claimOf("b:0-2", "scale-down")] })), {});
});

test("the message about a paused zone with a claim names the claim, because the zone's pods may all be ready", () => {
  const claims = [claimOf("a:2", "scale-down")];
  assert.equal(outcome(decideOn([zone("a", "ooo", { claims, paused: true }), zone("b", "ooo")])), "zone-scaling-down");
});
