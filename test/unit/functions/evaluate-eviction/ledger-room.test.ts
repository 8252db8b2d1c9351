/** What an eviction needs of its ledger: room for a reservation, and nothing where the pod is down or reserved already. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { reservation, zone } from "../advance-zone-rollout/given.ts";
import { guards } from "./given-evictions.ts";

test("a full ledger lets an unready pod go only if it has a reservation, or goes beside the budget as it was seen", () => {
  const whole = zone("b", "ooo");
  const reserved = [reservation("a-0")];
  const down = new Map([["uid-of-a-0", "77"]]);
  for (const [zones, changes, guard] of [
    [[zone("a", "xoo"), whole], {}, "ledger-full"],
    [[zone("a", "xoo", { reserved }), whole], {}, "allowed"],
    [[zone("a", "xoo"), zone("b", "oxo")], {}, "zones-down"],
    [[zone("a", "xoo"), zone("b", "oxo")], { down }, "allowed"],
  ] as const) {
    assert.deepEqual(guards(zones, ["a-0"], { room: 0, ...changes }), [guard]);
  }
});
