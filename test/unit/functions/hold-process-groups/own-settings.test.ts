/** The effect of a FoundationDBCluster's own settings of removals on its volume claims, and on reports. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decide } from "../../../../functions/hold-process-groups/decide.ts";
import { HeldGroups } from "../../../support/held-groups.ts";

function made(...ids: readonly string[]): HeldGroups {
  const groups = new HeldGroups();
  groups.furnish();
  for (const id of ids) groups.exclude(id);
  return groups;
}

test("removal-mode-unknown: an unknown removalMode of the cluster is reported by name while its volumes are kept", () => {
  const groups = made();
  const reported = () => decide(groups.snapshot).events.map(({ id, guard, message }) => `${id} ${guard}: ${message}`);
  groups.spec.automationOptions = { removalMode: "None" };
  assert.deepEqual(reported(), []);
  groups.spec.automationOptions = { removalMode: "Half" } as never;
  assert.equal(decide(groups.snapshot).guard, "removal-mode-unknown");
  assert.match(
    reported().join(),
    /^orders removal-mode-unknown: spec\.automationOptions\.removalMode of orders is "Half", and none of/,
  );
});

test("a volume claim that is being deleted still gets the removal policy of its group, and nothing else", () => {
  const groups = made("storage-1");
  groups.annotate("storage-1", { "suspend-state": "Removing", "removal-mode": "None", "suspend-duration": "1d" });
  const { step } = decide(groups.snapshot);
  const changes = step?.kind === "annotate" ? step.changes : [];
  const written = changes.map(({ pvc, annotations }) => [pvc.group, annotations]);
  assert.deepEqual(written, [["storage-1", { "sluice.dev/removal-mode": null }]]);
});
