import assert from "node:assert/strict";
import { test } from "node:test";
import { withoutOwnFields } from "../../../../functions/shared/workloads/managed-fields.ts";

const entry = (manager: string, operation = "Update") => ({ manager, operation, fieldsV1: {} });

test("the entries of Sluice are removed, and those of all other managers stay in their order", () => {
  const managedFields = [entry("helm", "Apply"), entry("sluice"), entry("kubectl"), entry("sluice", "Apply")];
  assert.deepEqual(withoutOwnFields({ managedFields }), [entry("helm", "Apply"), entry("kubectl")]);
});

test("nothing is written without an entry of Sluice, or without one of another manager", () => {
  for (const managedFields of [undefined, [], [entry("sluice")], [entry("helm"), entry("kubectl")], "none"])
    assert.equal(withoutOwnFields({ managedFields }), undefined);
});
