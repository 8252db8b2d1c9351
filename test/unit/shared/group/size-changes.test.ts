/** Which reviews of a size join an open scale-down, and which are held until it has ended (rule R19). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { joinScaleDown, type SizeChange } from "../../../../functions/shared/group/size-changes.ts";
import type { Claim } from "../../../../functions/shared/ledger/claim.ts";
import { claimOf, foreignClaim } from "../../functions/advance-zone-rollout/given.ts";

const confirmed = (place: string, changes: Parameters<typeof claimOf>[2] = {}) =>
  claimOf(place, "scale-down", { uids: { a: "uid-of-a" }, phase: "confirmed", ...changes });
const change = (changes: Partial<SizeChange> = {}): SizeChange => {
  return { zone: "a", uid: "uid-of-a", start: 0, from: 5, to: 3, pods: new Map(), ...changes };
};
const join = (claims: readonly Claim[], changes: Partial<SizeChange> = {}) => joinScaleDown(claims, change(changes));

test("the same StatefulSet and the same target join the confirmed claim, however often they are reviewed", () => {
  const claim = confirmed("a:3-4");
  for (let review = 0; review < 3; review++) assert.deepEqual(join([claim]), { kind: "joins", claim });
  assert.equal(join([confirmed("a:3,4")]).kind, "joins", "ranges that lie side by side are one");
  assert.equal(join([confirmed("a:7-9")], { start: 4, from: 6, to: 3 }).kind, "joins");
  assert.equal(join([confirmed("a:3-6")], { from: 5 }).kind, "joins", "some of them have left before");
});

test("any other change of the size is held, and says what the claim is for", () => {
  const held = (claim: Claim, changes: Partial<SizeChange> = {}) => {
    const joining = join([claim], changes);
    assert.ok(joining.kind === "held", joining.kind);
    assert.equal(joining.guard, claim.isKnown ? "zone-scaling-down" : "zone-claim-unknown");
    return joining.sentence;
  };
  const claim = confirmed("a:3-4");
  assert.match(
    held(claim, { to: 2 }),
    /^a: 3-4 claimed for a scale-down .+: it leads to 3 replicas, and this change to 2$/,
  );
  assert.match(held(claim, { to: 4 }), /leads to 3 replicas, and this change to 4$/);
  assert.match(held(claim, { to: 5 }), /leads to 3 replicas, and this change to 5$/);
  assert.match(held(claim, { from: 3, to: 3 }), /leads to 3 replicas, and this change to 3$/);
  assert.match(held(claim, { from: 6 }), /of the 3 pods that would leave it names fewer$/);
  assert.match(held(confirmed("a:3,5"), { from: 6 }), /of the 3 pods that would leave it names fewer$/);
  assert.match(held(claim, { uid: "another" }), /uid uid-of-a, and this one has another$/);
  assert.match(held(confirmed("a:3-4", { phase: "preparing" })), /its pods have not all said that they may leave$/);
  assert.match(held(confirmed("a:3-4", { phase: "undoing" })), /its pods have not all said/);
  assert.match(held(foreignClaim("a")), /it cannot be told what for$/);
});

test("a claim that this version does not know takes nothing back of what was confirmed, in whatever order they stand", () => {
  const claim = confirmed("a:3-4");
  for (const claims of [
    [foreignClaim("a"), claim],
    [claim, foreignClaim("a")],
  ]) {
    assert.deepEqual(join(claims), { kind: "joins", claim });
    assert.equal(join(claims, { to: 2 }).kind, "held");
  }
});

test("where no scale-down is claimed a change of a size joins nothing, whatever else is claimed there", () => {
  assert.deepEqual(join([]), { kind: "unclaimed" });
  assert.deepEqual(join([confirmed("b:3-4"), claimOf("a:1", "process"), foreignClaim("b")]), { kind: "unclaimed" });
});

test("a pod that came for one that was told was never told: the change is held, and the next claim tells it", () => {
  const claim = confirmed("a:3-4", { uids: { a: "uid-of-a", "a-3": "told-3", "a-4": "told-4" } });
  const standing = (...pods: [string, string][]) => join([claim], { pods: new Map(pods) });
  assert.equal(standing(["a-3", "told-3"], ["a-4", "told-4"]).kind, "joins");
  assert.equal(standing(["a-3", "told-3"]).kind, "joins", "one that is gone needs no telling");
  for (const pods of [
    ["a-4", "new"],
    ["a-5", "new"],
  ] as [string, string][]) {
    const joining = standing(["a-3", "told-3"], pods);
    assert.ok(joining.kind === "held");
    assert.match(joining.sentence, new RegExp(`${pods[0]} is another pod than the one that was told$`));
  }
});
