/** What a FoundationDBCluster's own settings of removals make of its volume claims, and of what is said. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decide } from "../../../../functions/hold-process-groups/decide.ts";
import { HeldGroups } from "../../../support/held-groups.ts";

function made(...ids: readonly string[]): HeldGroups {
  const held = new HeldGroups();
  held.furnish();
  for (const id of ids) held.exclude(id);
  return held;
}

test("removal-mode-unknown: a removalMode of its own that Sluice does not know is said, by name, while volumes of it are kept", () => {
  const held = made();
  const told = () => decide(held.snapshot).events.map(({ id, guard, message }) => `${id} ${guard}: ${message}`);
  held.spec.automationOptions = { removalMode: "None" };
  assert.deepEqual(told(), []);
  held.spec.automationOptions = { removalMode: "Half" } as never;
  assert.equal(decide(held.snapshot).guard, "removal-mode-unknown");
  assert.match(
    told().join(),
    /^orders removal-mode-unknown: spec\.automationOptions\.removalMode of orders is "Half", and none of/,
  );
});

test("a volume claim that goes already says still how fast its group may go, and nothing else new", () => {
  const held = made("storage-1");
  held.say("storage-1", { "suspend-state": "Removing", "removal-mode": "None", "suspend-duration": "1d" });
  const { step } = decide(held.snapshot);
  const changes = step?.kind === "annotate" ? step.changes : [];
  const said = changes.map(({ pvc, annotations }) => [pvc.group, annotations]);
  assert.deepEqual(said, [["storage-1", { "sluice.dev/removal-mode": null }]]);
});
