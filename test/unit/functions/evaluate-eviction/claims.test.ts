/** Evictions and claims (rule R18): they count claims, wait for them, and take none of their pods. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { claimKinds, type KindName } from "../../../../functions/shared/ledger/claim.ts";
import { claimOf, foreignClaim, zone } from "../advance-zone-rollout/given.ts";
import { guards, refusal } from "./given-evictions.ts";

const guardOf: Readonly<Record<KindName, string>> = {
  "scale-down": "zone-scaling-down",
  volume: "zone-removing-volume",
  process: "zone-restarting-process",
  node: "zone-losing-node",
};
const byPartition = { podNamePartitionRegex: "[a-z]+-([0-9]+)", podNameRegexGroup: 1 };

for (const kind of claimKinds) {
  const guard = guardOf[kind];

  test(`${guard}: a pod of a claim for a ${kind} is refused with 429, whatever the budget allows`, () => {
    const zones = [zone("a", "nnn", { claims: [claimOf("a:1-2", kind)] }), zone("b", "nnn")];
    const budget = { maxUnavailable: 3 };
    assert.deepEqual(guards(zones, ["a-1", "a-2"], { budget }), [guard, guard]);
    assert.deepEqual(guards(zones, ["a-1"], { budget: { ...budget, ...byPartition } }), [guard]);
    const { code, cause, message } = refusal(zones, "a-1", { budget });
    assert.deepEqual([code, cause], [429, "DisruptionBudget"]);
    assert.match(
      message,
      /^a: 1-2 claimed for .* by another-function, since 2026-01-01T00:09:59\.000Z: a-1 stays until it ends/,
    );
  });

  test(`${guard}: while a zone has a claim for a ${kind}, no pod of another zone goes`, () => {
    const zones = [zone("a", "nnn", { claims: [claimOf("a:2", kind)] }), zone("b", "nnn")];
    assert.deepEqual(guards(zones, ["b-0"]), [guard]);
  });

  test(`${guard}: a claim for a ${kind} on a StatefulSet that has left the group blocks all its pods`, () => {
    const strayClaims = [claimOf("gone:0", kind)];
    const zones = [zone("a", "nnn"), zone("b", "nnn")];
    assert.deepEqual(guards(zones, ["a-0"], { strayClaims }), [guard]);
    assert.deepEqual(guards(zones, ["a-0"], { strayClaims, budget: { maxUnavailable: 1, ...byPartition } }), [guard]);
  });
}

test("other pods of the zone go within the budget, in which the claimed ones count as down", () => {
  const zones = [zone("a", "nnn", { claims: [claimOf("a:2", "scale-down")] }), zone("b", "nnn")];
  assert.deepEqual(guards(zones, ["a-0", "a-1"], { budget: { maxUnavailable: 2 } }), ["allowed", "zone-scaling-down"]);
});

test("a pod that is claimed counts as down in its partition, and in no other", () => {
  const zones = [zone("a", "nnn", { claims: [claimOf("a:2", "process")] }), zone("b", "nnn")];
  const budget = { maxUnavailable: 1, ...byPartition };
  assert.deepEqual(guards(zones, ["b-2", "b-1"], { budget }), ["zone-restarting-process", "allowed"]);
});

test("a partition waits for a claim, and names it, only if the claim takes pods of the partition down", () => {
  const budget = { maxUnavailable: 1, ...byPartition };
  const elsewhere = [zone("a", "nxn", { claims: [claimOf("a:2", "process")] }), zone("b", "nnn")];
  assert.deepEqual(guards(elsewhere, ["b-1"], { budget }), ["partition-budget"]);
  const later = [zone("a", "nnx"), zone("b", "nnn", { claims: [claimOf("b:2", "process")] }), zone("c", "nnn")];
  assert.deepEqual(guards(later, ["c-2"], { budget }), ["zone-restarting-process"]);
});

test("zone-claim-unknown: a claim of an unknown kind makes the whole zone count as down, in every partition", () => {
  const zones = [zone("a", "nnn", { claims: [foreignClaim("a")] }), zone("b", "nnn")];
  const known = ["zone-claim-unknown", "zone-claim-unknown"];
  assert.deepEqual(guards(zones, ["a-0", "b-1"], { budget: { maxUnavailable: 3 } }), known);
  assert.deepEqual(guards(zones, ["a-0", "b-1"], { budget: { maxUnavailable: 1, ...byPartition } }), known);
});
