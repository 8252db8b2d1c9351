import assert from "node:assert/strict";
import { test } from "node:test";
import { validateZoneBudget } from "../../../../functions/validate-zone-budget/function.ts";

const selector = { matchLabels: { "rollout-group": "ingester" } };

function objectOf(spec: object, metadata: object = {}) {
  return { kind: "ZoneAwarePodDisruptionBudget", metadata, spec };
}

function decideReview(object: unknown, given: { operation?: string; oldObject?: unknown } = {}) {
  const request = {
    uid: "1",
    namespace: "mimir",
    name: "ingester",
    resource: { group: "", version: "v1", resource: "pods" },
    user: "",
    subresource: "",
    path: "/admission/zpdb-validation",
    deadlineMs: 0,
    dryRun: false,
    operation: "CREATE",
    oldObject: null,
  };
  return validateZoneBudget.open(undefined as never).review({ ...request, object, ...given });
}

const allowed = { allowed: true, guard: "allowed", warnings: [] };

test("a user may create and change a budget", async () => {
  for (const operation of ["CREATE", "UPDATE"]) {
    assert.deepEqual(await decideReview(objectOf({ selector, maxUnavailable: 2 }), { operation }), allowed);
  }
});

test("Sluice refuses a bad budget by its first wrong field", async () => {
  const answer = await decideReview(objectOf({ selector, maxUnavailablePercentage: 101 }));
  assert.deepEqual(answer, {
    allowed: false,
    guard: "invalid-budget",
    code: 400,
    reason: "BadRequest",
    cause: "FieldValueInvalid",
    field: "spec.maxUnavailablePercentage",
    message: "spec.maxUnavailablePercentage is 101: write an integer from 0 to 100, without a percent sign",
  });
});

test("Sluice refuses any other operation, because the webhook is then registered wrongly", async () => {
  for (const operation of ["DELETE", "CONNECT", "create", "", "x".repeat(1_000)]) {
    const answer = await decideReview(objectOf({ selector }), { operation });
    assert.ok(!answer.allowed && answer.guard === "wrong-operation" && answer.code === 400);
    assert.ok(answer.message.length < 200);
  }
});

test("a bad budget that is being deleted may lose its finalizers, and change in nothing else", async () => {
  const leaving = { deletionTimestamp: "2026-11-21T12:00:00Z", finalizers: [] };
  const bad = { selector, maxUnavailable: -1 };
  const oldObject = objectOf(bad, { ...leaving, finalizers: ["foregroundDeletion"] });
  const update = { operation: "UPDATE", oldObject };
  assert.deepEqual(await decideReview(objectOf(bad, leaving), update), allowed);
  assert.equal((await decideReview(objectOf({ selector, maxUnavailable: -2 }, leaving), update)).allowed, false);
  assert.equal((await decideReview(objectOf(bad), update)).allowed, false, "not being deleted");
  assert.equal((await decideReview(objectOf(bad, leaving), { oldObject })).allowed, false, "being created");
});

test("Sluice allows with a warning what is legal and probably not meant", async () => {
  const everything = await decideReview(objectOf({ selector: { matchLabels: {} } }));
  assert.match(everything.allowed ? everything.warnings.join() : "", /governs every pod of the namespace$/);
  const idle = await decideReview(objectOf({ selector, podNameRegexGroup: 2 }));
  assert.match(idle.allowed ? idle.warnings.join() : "", /means nothing without spec\.podNamePartitionRegex/);
});
