/** How kubectl sluice why reports claims. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { GroupInspection } from "../../../../triggers/plugin/inspection.ts";
import { claimOf, foreignClaim } from "../../functions/advance-zone-rollout/given.ts";
import { Harness } from "../../shared/reconcile/harness.ts";
import { sluice, writes } from "./terminal.ts";

async function claimed(...lines: readonly string[]): Promise<Harness> {
  const harness = await new Harness().prepare();
  harness.writeLedger({ "sluice.dev/claims": lines.join("\n") });
  return harness;
}

test("why prints for each claim its purpose, its function, its age and its end, and writes nothing", async () => {
  const harness = await claimed();
  const stampMs = harness.cluster.serverTimeMs() - 65_000;
  const { line } = claimOf("group-b:1", "scale-down", { stampMs, by: "prepare-downscale", phase: "preparing" });
  harness.writeLedger({ "sluice.dev/claims": line });
  const { out } = await sluice(harness, "why group");
  assert.deepEqual(writes(harness), []);
  assert.match(out, /^CLAIMED +FOR +FUNCTION +AGE +ENDS$/m);
  assert.match(out, /^group-b: 1 +scale-down \(preparing\) +prepare-downscale +65 s +when its StatefulSet wants none/m);
  assert.match(out, /^group-b +2\/2 +2 +1 +claimed: 1$/m);
  assert.match(
    out,
    /^Next: zone-scaling-down\n {2}group-b: 1 claimed for a scale-down \(preparing\) by prepare-downscale/m,
  );
});

test("the JSON has every field of a claim, and of a claim of an unknown kind those that can be known", async () => {
  const { line } = claimOf("group-a:0", "node", { terms: "announced" });
  const harness = await claimed(line, foreignClaim("group-b").line);
  const { claims } = JSON.parse((await sluice(harness, "why group -o json")).out) as GroupInspection;
  assert.deepEqual(claims[0], {
    id: "claim-of-group-a:0",
    kind: "node",
    zone: "group-a",
    guard: "zone-losing-node",
    function: "another-function",
    members: "0",
    phase: "begun",
    terms: "announced",
    at: "2026-01-01T00:09:59.000Z",
    since: "2026-01-01T00:09:59.000Z",
    anchor: { object: "leases/why", annotation: "example.dev/claim" },
    ends: "when each member is back and ready, elsewhere or with new containers, or its StatefulSet does not want it any more",
  });
  assert.deepEqual([claims[1]?.kind, claims[1]?.guard, claims[1]?.members], ["later", "zone-claim-unknown", null]);
  assert.match((await sluice(harness, "why group")).out, /^group-b +later +- +- +by the function of a later version/m);
});

test("release leaves the claims of the ledger as they are", async () => {
  const harness = await claimed(foreignClaim("group-b").line);
  const uid = "no-such-uid";
  const reservations = JSON.stringify({
    gone: { 0: [uid, "another-function", harness.cluster.serverTimeMs() - 200_000] },
  });
  harness.writeLedger({ "sluice.dev/reservations": reservations });
  const { code } = await sluice(harness, "release group gone-0");
  assert.equal(code, 0);
  assert.deepEqual(harness.ledger.reservations, []);
  assert.deepEqual(harness.ledger.claims, [foreignClaim("group-b")]);
});
