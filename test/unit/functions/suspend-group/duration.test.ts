/** How long volumes are kept: their StatefulSet sets the minimum before their time begins. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Suspended } from "../../../support/suspended.ts";
import { decided } from "./given.ts";

test("duration-missing and duration-malformed: no suspension begins without a StatefulSet's duration, whatever the volume claim says", () => {
  const missing = Suspended.of(["a"], 3, {});
  missing.ask("a", 2);
  assert.deepEqual(decided(missing), ["duration-missing"]);
  missing.annotate("a", 2, { "suspend-duration": "0" });
  assert.deepEqual(decided(missing), ["duration-missing"], "a user who may only patch volume claims takes no pod away");
  const malformed = Suspended.of(["a"], 3, { "suspend-duration": "a week" });
  malformed.ask("a", 2);
  assert.deepEqual(decided(malformed), ["duration-malformed"]);
  malformed.annotate("a", 2, { "suspend-duration": "7d" });
  assert.deepEqual(decided(malformed), ["duration-malformed"]);
  malformed.policy("a", { "suspend-duration": "1h" });
  assert.deepEqual(decided(malformed), ["protect db-a-2"]);
});
