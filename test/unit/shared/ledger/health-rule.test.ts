/** What a health answer permits, in addition to what a ledger has (rule R22). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Health, type OpenLedger, refuseByHealth } from "../../../../functions/shared/ledger/health-rule.ts";
import { claimOf, foreignClaim, reservation } from "../../functions/advance-zone-rollout/given.ts";

const good: Health = { state: "good", detail: "HTTP 200" };
const ledger = (changes: Partial<OpenLedger> = {}): OpenLedger => {
  return { reservations: [], claims: [], readMs: 1_000, ...changes };
};
const guardOf = (changes: Partial<OpenLedger>, answered = { health: good, askedMs: 1_000 }, own?: string) =>
  refuseByHealth(ledger(changes), answered, own)?.guard;

test("a good answer permits if nothing else is open in the ledger", () => {
  assert.equal(guardOf({}), undefined);
  assert.equal(guardOf({ reservations: [reservation("b-0")] }), "health-beside-others");
  assert.equal(guardOf({ claims: [claimOf("b:0", "node")] }), "zone-losing-node");
  assert.equal(guardOf({ claims: [foreignClaim("b")] }), "zone-claim-unknown");
  assert.equal(
    guardOf({ claims: [claimOf("b:0", "node"), foreignClaim("b")] }),
    "zone-losing-node",
    "the first claim is reported",
  );
});

test("the claim that the function continues does not count as anything else", () => {
  const claim = claimOf("a:0", "process", { id: "own" });
  assert.equal(guardOf({ claims: [claim] }, undefined, "own"), undefined);
  assert.equal(guardOf({ claims: [claim] }, undefined, "other"), "zone-restarting-process");
  assert.equal(guardOf({ claims: [claim, claimOf("a:1", "process")] }, undefined, "own"), "zone-restarting-process");
});

test("an answer from before the read of the ledger permits nothing", () => {
  assert.equal(guardOf({}, { health: good, askedMs: 999 }), "health-stale");
  assert.equal(guardOf({}, { health: good, askedMs: 1_001 }), undefined);
});

test("a bad answer and a missing one have different guards, and neither permits anything", () => {
  for (const state of ["bad", "unknown"] as const) {
    const refused = refuseByHealth(ledger(), { health: { state, detail: "HTTP 503 quorum" }, askedMs: 2_000 });
    assert.equal(refused?.guard, `health-${state}`);
    assert.match(refused?.message ?? "", /HTTP 503 quorum$/);
  }
});
