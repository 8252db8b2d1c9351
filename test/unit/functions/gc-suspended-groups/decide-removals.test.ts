/** Which due members go in one turn, and under which claims of the ledger, by snapshots that differ in their claims. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { chooseRemovals } from "../../../../functions/gc-suspended-groups/decide-removals.ts";
import type { RemovalBlocked } from "../../../../functions/gc-suspended-groups/holding.ts";
import { type KnownClaim, makeClaim } from "../../../../functions/shared/ledger/claim.ts";
import type { Member } from "../../../../functions/shared/volumes/members.ts";
import { nowMs, Suspended } from "../../../support/suspended.ts";

const by = "gc-suspended-groups";

/** Zones whose volumes at these ordinals are due. */
function dueIn(zones: Readonly<Record<string, readonly number[]>>, claims: readonly KnownClaim[] = []) {
  const on = Suspended.of(Object.keys(zones));
  for (const [zone, ordinals] of Object.entries(zones)) for (const ordinal of ordinals) on.suspend(zone, ordinal, 120);
  on.ledgerClaims.push(...claims);
  return on;
}

/** A claim on one member, which has a uid under its own id as well. */
function claimOn(zone: string, ordinal: number, id: string): KnownClaim {
  const anchor = { resource: "persistentvolumeclaims", name: `data-db-${zone}-${ordinal}`, annotation: "x" };
  const members = [{ first: ordinal, last: ordinal }];
  const stated = { id, zone: `db-${zone}`, members, by, stampMs: nowMs, anchor };
  return makeClaim({ ...stated, kind: "volume", phase: "removing", terms: "asked", uids: { [id]: "uid" } });
}

/** The removals as `POD by ID`, and the guards of what waits, by pod. */
function chosen(on: Suspended) {
  const blocked = new Map<Member, RemovalBlocked>();
  const due = on.members.filter(({ pod }) => pod === undefined);
  const targets = chooseRemovals({ ...on.around(by, "volume"), removes: true }, due, blocked);
  const removals = targets.map((one) => (one.kind === "remove" ? `${one.member.name} by ${one.claim.id}` : one.kind));
  return { targets, removals, waits: [...blocked].map(([{ name }, { guard }]) => `${name} ${guard}`) };
}

const mark = { "suspend-state": "Removing" };
const fresh = (zone: string, ordinal: number) => `db-${zone}-${ordinal} by volume db-${zone} ${ordinal} ${nowMs}`;

test("the zone of the first claim in the ledger has the turn, though another one is claimed, busier and earlier by name", () => {
  const claims = [claimOn("b", 2, "one"), claimOn("a", 2, "two"), claimOn("a", 1, "three")];
  const { removals, waits } = chosen(dueIn({ a: [2, 1], b: [2] }, claims));
  assert.deepEqual([removals, waits], [["db-b-2 by one"], ["db-a-1 zone-busy", "db-a-2 zone-busy"]]);
});

test("while a marked member without a claim is removed in one zone, the due members of a busier zone wait", () => {
  const on = dueIn({ a: [2, 1], b: [2] });
  assert.deepEqual(chosen(on).removals, [fresh("a", 1), fresh("a", 2)], "the busier zone begins");
  on.annotate("b", 2, mark);
  const { removals, waits } = chosen(on);
  assert.deepEqual([removals, waits], [[fresh("b", 2)], ["db-a-1 zone-busy", "db-a-2 zone-busy"]]);
});

test("a removal goes on under the first claim of the same zone and ordinal, and takes over the uids of that claim", () => {
  const claims = [claimOn("b", 2, "other-zone"), claimOn("a", 1, "other-ordinal")];
  const unclaimed = dueIn({ a: [2], b: [] }, claims);
  unclaimed.annotate("a", 2, mark);
  assert.deepEqual(chosen(unclaimed).removals, [fresh("a", 2)]);
  const claimed = dueIn({ a: [2], b: [] }, [...claims, claimOn("a", 2, "first"), claimOn("a", 2, "second")]);
  claimed.annotate("a", 2, mark);
  const { targets, removals } = chosen(claimed);
  assert.deepEqual(removals, ["db-a-2 by first"]);
  const [target] = targets;
  assert.deepEqual(target?.kind === "remove" && target.claim.uids, { first: "uid", "data-db-a-2": "uid-data-db-a-2" });
});

test("with nothing but begun removals no turn is chosen, and nothing waits", () => {
  const on = dueIn({ a: [2], b: [2] });
  for (const zone of ["a", "b"]) on.annotate(zone, 2, mark);
  const { removals, waits } = chosen(on);
  assert.deepEqual([removals, waits], [[fresh("a", 2), fresh("b", 2)], []]);
});
