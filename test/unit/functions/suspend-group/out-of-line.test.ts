/** The message on each volume claim says what its own pod waits for. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Suspended } from "../../../support/suspended.ts";
import { decideOn } from "./given.ts";

test("the volume claim of a pod that its ordinal blocks says so, whatever other pods wait for", () => {
  const on = Suspended.of(["a", "b"]);
  for (const [zone, ordinal] of [
    ["a", 2],
    ["b", 0],
  ] as const) {
    on.ask(zone, ordinal);
    on.annotate(zone, ordinal, { "suspend-state": "Suspending", "suspend-owner-uid": `uid-db-${zone}` });
    on.hold(zone, ordinal, ["sluice.dev/volume-hold"]);
  }
  on.pods.delete("db-b-1");
  const verdict = decideOn(on);
  const targets = verdict.kind === "take" ? verdict.targets : [];
  const reported = targets.flatMap((one) => (one.kind === "tell" ? [`${one.member.name}: ${one.guard}`] : []));
  assert.deepEqual(reported, ["db-a-2: zones-down", "db-b-0: not-top-ordinal"]);
});
