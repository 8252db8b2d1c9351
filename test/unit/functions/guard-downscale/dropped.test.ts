/** A manifest without a number of replicas: Kubernetes sets 1, although the user did not ask for that. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { AdmissionRequest } from "../../../../functions/shared/admission/definition.ts";
import { decideReview, type Given, objectOf, owner, protection, reviewOf, scaleOf } from "./given.ts";

const follows = { "grafana.com/rollout-downscale-leader": "db-b" };
const mirrors = {
  "grafana.com/rollout-mirror-replicas-from-resource-kind": "ReplicaTemplate",
  "grafana.com/rollout-mirror-replicas-from-resource-name": "db",
};
const delayed = {
  "grafana.com/rollout-delayed-downscale": "1h",
  "grafana.com/rollout-prepare-delayed-downscale-url": "http://pod/prepare",
};
const prepared = { "grafana.com/prepare-downscale": "true" };

const owners = [owner("kubectl", "Apply", ["replicas", "template"])];
const leftOut = [owner("kubectl", "Apply", ["template"]), owner("kube-controller-manager", "Update", [], "status")];
const lastApplied = (spec: object) => ({
  "kubectl.kubernetes.io/last-applied-configuration": JSON.stringify({ kind: "StatefulSet", spec }),
});

/** By default from 5 replicas to 1. */
function fall(before: Given, after: Given): AdmissionRequest {
  return reviewOf(objectOf({ replicas: 5, ...before }), objectOf({ replicas: 1, ...after }));
}

async function guardOf(request: AdmissionRequest): Promise<string> {
  return (await decideReview(request)).guard;
}

describe("replicas-dropped: after a server-side apply no field manager owns the number any more", () => {
  const cares: readonly (readonly [string, Given, RegExp])[] = [
    ["follows another one", { annotations: follows }, /It follows "db-b"\./],
    ["mirrors an object", { annotations: mirrors }, /It mirrors "ReplicaTemplate" "db"\./],
    ["has a delay", { annotations: delayed }, /It has its pods told some time before they go\./],
    ["is prepared", { labels: prepared }, /It has its pods told before they go\./],
  ];
  for (const [what, given, text] of cares) {
    test(`a StatefulSet that ${what} does not fall to 1, and the refusal says what to write`, async () => {
      const request = fall({ ...given, managedFields: owners }, { ...given, managedFields: leftOut });
      const answer = await decideReview(request);
      assert.ok(!answer.allowed);
      const { guard, code, cause, field, message } = answer;
      assert.deepEqual([guard, code, cause, field], ["replicas-dropped", 400, "FieldValueInvalid", "spec.replicas"]);
      assert.match(message, /^statefulsets\/db-a in mimir would go from 5 replicas to 1: the manifest that is applied/);
      assert.match(message, /leaves out spec\.replicas, which "kubectl" had written, and Kubernetes takes 1\./);
      assert.match(message, text);
      assert.match(message, /Write "replicas: 5" into the manifest; where 1 is meant, use kubectl scale$/);
      assert.equal(await guardOf({ ...request, dryRun: true }), "replicas-dropped");
    });
  }

  test("this also applies to the first and to the last manifest that omits the number", async () => {
    const [with_, without] = [{ annotations: follows }, {}];
    assert.equal(
      await guardOf(fall({ ...without, managedFields: owners }, { ...with_, managedFields: leftOut })),
      "replicas-dropped",
    );
    assert.equal(
      await guardOf(fall({ ...with_, managedFields: owners }, { ...without, managedFields: leftOut })),
      "replicas-dropped",
    );
  });

  test("if a field manager owns the 1, or none owned the number before, 1 is intended", async () => {
    const one = async (before: unknown, after: unknown) =>
      guardOf(fall({ annotations: follows, managedFields: before }, { annotations: follows, managedFields: after }));
    assert.equal(await one(owners, owners), "allowed", "a manifest that says 1");
    assert.equal(await one(owners, [...leftOut, owner("sluice", "Update", ["replicas"])]), "allowed", "who follows it");
    assert.equal(await one(leftOut, leftOut), "allowed");
    assert.equal(await one(owners, [...leftOut, owner("kubectl", "Update", ["replicas"], "scale")]), "allowed");
  });

  test("without managed fields Sluice knows no owner of the number, and allows the change", async () => {
    for (const managedFields of [undefined, null, [], [{}], "none", { 0: owners }, [1, null, [owners]]]) {
      const request = fall({ annotations: follows, managedFields: owners }, { annotations: follows, managedFields });
      assert.equal(await guardOf(request), "allowed", JSON.stringify(managedFields));
    }
    const hostile = [
      { ...owner("x", "Update", []), fieldsV1: { "f:spec": "f:replicas" } },
      { manager: 5, operation: {}, fieldsV1: { "f:spec": { "f:replicas": null } } },
    ];
    const request = fall(
      { annotations: follows, managedFields: hostile },
      { annotations: follows, managedFields: leftOut },
    );
    const answer = await decideReview(request);
    assert.match(answer.allowed ? "" : answer.message, /which an unnamed manager had written/);
  });
});

describe("replicas-dropped: kubectl apply keeps the last manifest, which had the number, and the new one does not", () => {
  const kubectl = [owner("kubectl-client-side-apply", "Update", ["replicas", "template"])];
  const apply = (before: object, after: object, given: Given = { labels: prepared }) =>
    fall(
      { ...given, annotations: { ...given.annotations, ...before }, managedFields: kubectl },
      { ...given, annotations: { ...given.annotations, ...after }, managedFields: kubectl },
    );

  test("Sluice refuses the scale to 1, whichever client sends it", async () => {
    for (const given of [{ labels: prepared }, { annotations: delayed }, { annotations: follows }]) {
      const request = apply(lastApplied({ replicas: 5 }), lastApplied({}), given);
      const answer = await decideReview(request);
      assert.equal(answer.guard, "replicas-dropped");
      assert.match(answer.allowed ? "" : answer.message, /which the one before it had, and Kubernetes takes 1/);
    }
  });

  test("Sluice does not refuse a manifest that has 1, that never had a number, or that it cannot read", async () => {
    assert.equal(await guardOf(apply(lastApplied({ replicas: 5 }), lastApplied({ replicas: 1 }))), "allowed");
    assert.equal(await guardOf(apply(lastApplied({}), lastApplied({}))), "allowed");
    assert.equal(await guardOf(apply({}, lastApplied({}))), "allowed");
    const unreadable = { "kubectl.kubernetes.io/last-applied-configuration": "{" };
    assert.equal(await guardOf(apply(lastApplied({ replicas: 5 }), unreadable)), "allowed");
    assert.equal(await guardOf(apply(unreadable, lastApplied({}))), "allowed");
  });
});

describe("replicas-dropped: a client that writes whole manifests by patches, as Helm does, sets a follower to 1", () => {
  const helm = [owner("helm", "Update", ["replicas", "template"])];
  const sluice = [owner("helm", "Update", ["template"]), owner("sluice", "Update", ["replicas"])];

  test("such a patch does not set a StatefulSet that follows or mirrors to 1", async () => {
    for (const annotations of [follows, mirrors]) {
      for (const before of [helm, sluice]) {
        const answer = await decideReview(
          fall({ annotations, managedFields: before }, { annotations, managedFields: helm }),
        );
        assert.equal(answer.guard, "replicas-dropped");
        assert.match(answer.allowed ? "" : answer.message, /that "helm" writes leaves out spec\.replicas, or says 1\./);
      }
      const handedOver = fall({ managedFields: helm }, { annotations, managedFields: helm });
      assert.equal(await guardOf(handedOver), "replicas-dropped", "the manifest that hands the size over");
    }
  });

  test("such a patch may set a StatefulSet to 1 that only prepares, or no longer follows", async () => {
    for (const given of [{ labels: prepared }, { annotations: delayed }]) {
      assert.equal(
        await guardOf(fall({ ...given, managedFields: helm }, { ...given, managedFields: helm })),
        "allowed",
      );
    }
    assert.equal(
      await guardOf(fall({ annotations: follows, managedFields: helm }, { managedFields: helm })),
      "allowed",
    );
  });

  test("a client that writes only the number intends 1", async () => {
    const request = fall(
      { annotations: follows, managedFields: helm },
      { annotations: follows, managedFields: sluice },
    );
    assert.equal(await guardOf(request), "allowed");
  });
});

describe("Sluice does not report replicas-dropped for", () => {
  const dropped = { annotations: follows, managedFields: leftOut };

  test("a number other than 1, or a StatefulSet whose manifest alone decides its size", async () => {
    assert.equal(await guardOf(fall({ ...dropped, managedFields: owners }, { ...dropped, replicas: 2 })), "allowed");
    assert.equal(await guardOf(fall({ ...dropped, managedFields: owners }, { ...dropped, replicas: 0 })), "allowed");
    assert.equal(await guardOf(fall({ managedFields: owners }, { managedFields: leftOut })), "allowed");
    const ones = fall({ ...dropped, managedFields: owners, replicas: 1 }, dropped);
    assert.equal(await guardOf(ones), "not-a-downscale");
  });

  test("a Deployment, or the scale subresource, whose request always has the number", async () => {
    const resource = "deployments";
    const before = objectOf({ resource, ...dropped, managedFields: owners });
    const after = objectOf({ resource, ...dropped, replicas: 1 });
    assert.equal(await guardOf(reviewOf(before, after, { resource })), "allowed");
    const scaled = reviewOf(scaleOf(5), scaleOf(1), { subresource: "scale" });
    const get = async () => ({ metadata: { annotations: follows } });
    assert.equal((await decideReview(scaled, { get })).guard, "allowed");
  });

  test("an object with the label against any downscale, because Sluice reports that guard first", async () => {
    const request = fall({ ...dropped, labels: protection, managedFields: owners }, dropped);
    assert.equal(await guardOf(request), "no-downscale");
  });
});

test("Sluice cuts names that others wrote in its message", async () => {
  const annotations = { "grafana.com/rollout-downscale-leader": "x".repeat(10_000) };
  const managers = [owner("y".repeat(10_000), "Update", ["replicas", "template"])];
  const answer = await decideReview(
    fall({ annotations, managedFields: managers }, { annotations, managedFields: managers }),
  );
  assert.ok(!answer.allowed && answer.message.length < 500);
});
