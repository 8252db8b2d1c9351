/** The answers to a review: what the client of the API server gets, and in which form. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  allow,
  askAgain,
  badRequest,
  conflict,
  forbidden,
  internalError,
  isFinal,
  notFound,
  tooLate,
} from "../../../../functions/shared/admission/answers.ts";

test("each refusal has the code of its kind, and Kubernetes' reason for that code", () => {
  const answers = [askAgain, badRequest, forbidden, notFound, conflict, internalError].map((refuse) => {
    const { allowed, guard, code, reason, message } = refuse("a-guard", "a message");
    assert.deepEqual({ allowed, guard, text: message }, { allowed: false, guard: "a-guard", text: "a message" });
    return [code, reason];
  });
  assert.deepEqual(answers, [
    [429, "TooManyRequests"],
    [400, "BadRequest"],
    [403, "Forbidden"],
    [404, "NotFound"],
    [409, "Conflict"],
    [500, "InternalError"],
  ]);
});

test("only a refusal after which the client does not try again is final", () => {
  assert.deepEqual(
    [badRequest, forbidden, notFound, conflict, internalError].map((one) => isFinal(one("a", "b"))),
    [true, true, true, true, true],
  );
  assert.deepEqual([askAgain("a", "b"), tooLate(), allow("allowed")].map(isFinal), [false, false, false]);
});

test("a refusal names a PodDisruptionBudget's cause, the field with the mistake, or nothing", () => {
  assert.equal(askAgain("a", "b").cause, "DisruptionBudget");
  const wrong = badRequest("a", "b", { field: "spec.maxUnavailable" });
  assert.deepEqual([wrong.cause, wrong.field], ["FieldValueInvalid", "spec.maxUnavailable"]);
  assert.deepEqual([forbidden("a", "b").cause, forbidden("a", "b", { zone: "c" }).field], ["", ""]);
});

test("an answer has the name of its zone", () => {
  assert.equal(askAgain("a", "b", "zone").zone, "zone");
  assert.equal(forbidden("a", "b", { zone: "zone" }).zone, "zone");
  assert.deepEqual(allow("allowed", { zone: "zone" }), { allowed: true, guard: "allowed", warnings: [], zone: "zone" });
});
