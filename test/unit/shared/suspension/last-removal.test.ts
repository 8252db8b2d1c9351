/** The time of a group's last removal, by the annotations of its volume claims. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { lastRemovalOf } from "../../../../functions/shared/suspension/looks.ts";
import { Owned } from "../../../support/owned.ts";
import { minutesAgo, nowMs } from "../../../support/suspended.ts";

test("a time on a volume claim that is days ahead is ignored, so that the group does not wait until then", () => {
  const on = Owned.of(["a"], 1);
  on.suspend("a-0", 90);
  const last = (minutes: number) => {
    on.log("a-0-data", { "suspended-at": minutesAgo(minutes) });
    return lastRemovalOf({}, { members: on.members, zones: on.zones, nowMs }, on.members);
  };
  assert.equal(last(90), nowMs - 90 * 60_000);
  assert.equal(last(-4), nowMs, "a clock may be a little ahead");
  assert.equal(last(-8 * 24 * 60), undefined);
});
