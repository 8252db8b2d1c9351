import assert from "node:assert/strict";
import { test } from "node:test";
import { decide } from "../../../../functions/validate-zone-budget/decide.ts";

test("a refusal names a field as its cause only if a field is wrong", () => {
  const parsed = { field: "spec.maxUnavailable", message: "it is wrong" };
  const causeOf = (operation: string) => {
    const answer = decide({ operation, parsed, isLeaving: false, hasIdleGroup: false });
    return answer.allowed ? undefined : answer.cause;
  };
  assert.equal(causeOf("CREATE"), "FieldValueInvalid");
  assert.equal(causeOf("DELETE"), "");
});
