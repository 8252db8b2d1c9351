import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseAnswer, reviewOf } from "../../support/review.ts";

const pod = { namespace: "bench-1", name: "bench-zone-a-0" };

describe("reviews", () => {
  it("are AdmissionReviews v1 of creating a pod's eviction, as the API server posts them", () => {
    const { kind, apiVersion, request } = JSON.parse(reviewOf(pod, "u", false));
    assert.deepEqual([kind, apiVersion], ["AdmissionReview", "admission.k8s.io/v1"]);
    assert.deepEqual(
      [request.uid, request.operation, request.resource.resource, request.subResource, request.dryRun],
      ["u", "CREATE", "pods", "eviction", false],
    );
    assert.deepEqual([request.namespace, request.name], [pod.namespace, pod.name]);
    assert.deepEqual([request.object.kind, request.object.metadata.name], ["Eviction", pod.name]);
  });

  it("of dry runs say so", () => {
    const { request } = JSON.parse(reviewOf(pod, "u", true));
    assert.equal(request.dryRun, true);
    assert.deepEqual(request.options.dryRun, ["All"]);
  });
});

describe("answers to reviews", () => {
  const answer = (response: unknown) => parseAnswer(JSON.stringify({ kind: "AdmissionReview", response }));

  it("are allowances, or refusals with a code and a message", () => {
    assert.deepEqual(answer({ uid: "u", allowed: true, status: { code: 200 } }), {
      uid: "u",
      allowed: true,
      code: 0,
      message: "",
    });
    const refusal = answer({ uid: "u", allowed: false, status: { code: 429, message: "5 down" } });
    assert.deepEqual([refusal.allowed, refusal.code, refusal.message], [false, 429, "5 down"]);
  });

  it("that are malformed do not count as refusals", () => {
    assert.throws(() => parseAnswer("{}"), /no answer/);
    assert.throws(() => answer({ uid: "u" }), /no answer/);
    assert.throws(() => parseAnswer("<html>"));
  });
});
