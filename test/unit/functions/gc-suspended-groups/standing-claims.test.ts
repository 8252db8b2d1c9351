/**
 * A removal whose claim is still in the ledger: its end is not recorded yet, and a user's wish before the deletion is
 * honoured.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decide } from "../../../../functions/gc-suspended-groups/decide.ts";
import type { RemovalSnapshot } from "../../../../functions/gc-suspended-groups/decide-removals.ts";
import { minutesAgo, Suspended } from "../../../support/suspended.ts";
import { decideOn as decideOnPods, suspending } from "../suspend-group/given.ts";

const wait = { "wait-between-removals": "10m", "removal-mode": "Group" };
const policy = { "suspend-duration": "1h", ...wait };
const by = { collector: "gc-suspended-groups", suspender: "suspend-group" } as const;

function decideOn(on: Suspended, changes: Partial<RemovalSnapshot> = {}) {
  return decide({ ...on.around(by.collector, "volume"), removes: true, ...changes });
}

/** `KIND POD` of each act, or the guard. */
function done(on: Suspended): readonly string[] {
  const verdict = decideOn(on);
  if (verdict.kind === "wait") return [verdict.guard];
  return verdict.targets.map((one) => (one.kind === "tell" ? one.guard : `${one.kind} ${one.member.name}`));
}

/** Both durations were over an hour ago, in one zone. */
function twoOver(): Suspended {
  const on = Suspended.of(["a"], 3, policy);
  for (const ordinal of [2, 1]) on.suspend("a", ordinal, 120);
  return on;
}

test("the volume of an unfinished removal counts as removed now: the next volume of its zone waits the whole time", () => {
  const on = twoOver();
  assert.deepEqual(
    done(on).filter((one) => one.startsWith("remove")),
    ["remove db-a-1"],
  );
  // The volume claim is gone, and the write that ends the ledger's claim and records the time is still to come.
  on.claim("a", by.collector, "volume", 1);
  on.claims.delete("data-db-a-1");
  assert.deepEqual(done(on), ["wait-between-removals"]);
});

test("the same applies while pods of the zone go under a claim", () => {
  const on = twoOver();
  on.claim("a", by.suspender, "scale-down", 0, "suspension ");
  assert.deepEqual(new Set(done(on)), new Set(["wait-between-removals"]));
});

test("a claimed removal goes on, even if a wait would block it now", () => {
  const on = twoOver();
  on.claim("a", by.collector, "volume", 2);
  assert.deepEqual(
    done(on).filter((one) => one.startsWith("remove")),
    ["remove db-a-2"],
  );
});

test("a claimed but unmarked removal waits while the mode is None, or the wait is malformed", () => {
  for (const [message, guard] of [
    [{ "removal-mode": "None" }, "mode-none"],
    [{ "wait-between-removals": "soon" }, "wait-malformed"],
  ] as const) {
    const on = twoOver();
    on.claim("a", by.collector, "volume", 2);
    on.policy("a", message);
    assert.deepEqual(new Set(done(on)), new Set([guard]));
  }
});

test("suspend-group: no pod of the zone goes while the ledger has the claim of a removal there, and the wait is reported", () => {
  const on = suspending(["a"], [1]);
  on.spec("a", { replicas: 2 });
  on.policy("a", wait);
  on.claims.delete("data-db-a-2");
  on.pods.delete("db-a-2");
  assert.equal(decideOnPods(on).kind, "take");
  on.claim("a", by.collector, "volume", 2);
  const verdict = decideOnPods(on);
  assert.match(verdict.kind === "take" ? verdict.message : verdict.guard, /^wait-between-removals/);
});

const message: Readonly<Record<string, Readonly<Record<string, string | undefined>>>> = {
  "is on hold": { hold: "true" },
  "is wanted back": { recover: "true" },
  "is not asked for any more": { suspend: undefined },
  "has a word on its drain that was taken back": { "drained-at": undefined },
  "has a word on its drain of the future": { "drained-at": minutesAgo(-24 * 60) },
};

for (const [what, texts] of Object.entries(message))
  test(`the removal of a marked volume that ${what} is taken back by the reconcile that sees it, which does not remove it as well`, () => {
    const on = Suspended.of(["a"], 3, policy);
    on.suspend("a", 2, 120);
    on.claim("a", by.collector, "volume", 2);
    on.annotate("a", 2, { "suspend-state": "Removing", "removal-claim": "volume-a-2" });
    assert.deepEqual(done(on), ["remove db-a-2"]);
    on.annotate("a", 2, texts);
    assert.deepEqual(done(on), ["stand-back db-a-2"]);
  });
