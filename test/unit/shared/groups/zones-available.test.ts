import assert from "node:assert/strict";
import { test } from "node:test";
import { surveyZone } from "../../../../functions/shared/groups/zones.ts";
import { nowMs, pod, statefulSet } from "../../functions/advance-zone-rollout/given.ts";

test("a zone is read again when the first of its pods will be available, whatever its ordinal", () => {
  const ages = [5_000, 29_000, 10_000];
  const pods = ages.map((ageMs, ordinal) => pod(`a-${ordinal}`, { readySinceMs: nowMs - ageMs }));
  assert.equal(surveyZone(statefulSet("a", { minReadySeconds: 30 }), pods, [], nowMs).nextAvailableInMs, 1_000);
});
