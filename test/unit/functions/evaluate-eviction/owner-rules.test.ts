/** Evictions of pods whose owner is no StatefulSet: which claims, other zones, budgets and full ledgers refuse them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { renewForMs } from "../../../../functions/shared/ledger/renewals.ts";
import { group, Owned, owner } from "../../../support/owned.ts";
import { claimOf, namespace, nowMs, reservation } from "../advance-zone-rollout/given.ts";
import { disruptionBudget, type GroupChanges, guards } from "./given-evictions.ts";

/** Two pods of an owner in each of two zones, whose names, as an owner may choose them, do not begin with that of their zone. */
function twoZones(): Owned {
  const owned = new Owned();
  for (const [zone, role] of [
    ["east", "a"],
    ["west", "b"],
  ] as const)
    for (const name of [`${role}-0`, `${role}-1`]) {
      owned.addClaim(`${name}-data`, { owner, zone, "suspend-duration": "1h" });
      owned.addPod(name);
    }
  return owned;
}

function asked(names: readonly string[], changes: GroupChanges = {}, owned = twoZones()): string[] {
  const questions = names.map((name) => ({ name, uid: `uid-${name}` }));
  return guards(owned.zones, questions, { key: { namespace, group }, budgets: [], ...changes });
}

const reserved = (name: string, changes: Parameters<typeof reservation>[1] = {}) =>
  reservation(name, { uid: `uid-${name}`, ...changes });

test("a pod of an owner waits for a claim that names its uid, and for a claim on a zone that has left the group", () => {
  const claimed = twoZones();
  claimed.ledgerClaims.push(claimOf("east:0", "volume", { uids: { "a-0": "uid-a-0" } }));
  assert.deepEqual(asked(["a-0", "a-1"], {}, claimed), ["zone-removing-volume", "allowed"]);
  assert.deepEqual(asked(["a-0"], { strayClaims: [claimOf("gone:0", "node")] }), ["zone-losing-node"]);
});

test("a pod of an owner waits for reserved pods of other zones, and not for its own zone, its predecessor or an orphan", () => {
  for (const [departed, guard] of [
    [[reserved("b-0")], "zones-down"],
    [[reserved("a-1")], "allowed"],
    [[reserved("a-0", { uid: "before" })], "allowed"],
    [[{ statefulSet: "b", ordinal: 0, isLeft: true }], "allowed"],
  ] as const) {
    assert.deepEqual(asked(["a-0"], { departed }), [guard], JSON.stringify(departed));
  }
  assert.deepEqual(asked(["a-0", "b-0", "a-1"]), ["allowed", "zones-down", "allowed"]);
});

test("a pod of an owner stays if its evictions were given up, or its own reservation was renewed for too long", () => {
  const refusal = { uid: "uid-a-0", pod: "a-0", message: "it was given up", stampMs: nowMs };
  const givenUp = new Map([["uid-a-0", refusal]]);
  assert.deepEqual(asked(["a-0", "a-1"], { givenUp }), ["eviction-not-carried-out", "allowed"]);
  const renewed = reserved("a-0", { stampMs: nowMs, sinceMs: nowMs - renewForMs });
  assert.deepEqual(asked(["a-0", "a-1"], { departed: [renewed] }), ["eviction-not-carried-out", "allowed"]);
});

test("a pod of an owner stays if a PodDisruptionBudget allows nothing, and for good if two of them select it", () => {
  const budgets = ["one", "two"].map((name) => disruptionBudget(name));
  assert.deepEqual(asked(["a-0"], { disruptionBudgets: budgets.slice(1) }), ["pod-disruption-budget"]);
  assert.deepEqual(asked(["a-0"], { disruptionBudgets: budgets }), ["never-possible"]);
});

test("ledger-full: each pod of an owner that a batch lets go takes room, unless the ledger has its name already", () => {
  assert.deepEqual(asked(["a-0", "a-1"], { room: 1 }), ["allowed", "ledger-full"]);
  const departed = [reserved("a-0")];
  assert.deepEqual(asked(["a-1", "a-0"], { room: 0, departed }), ["ledger-full", "allowed"]);
});
