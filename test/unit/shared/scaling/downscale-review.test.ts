/** What a review shows of an object's size: the rules are those of rollout-operator, and an unreadable value blocks nothing. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { AdmissionRequest } from "../../../../functions/shared/admission/definition.ts";
import { readDownscale } from "../../../../functions/shared/scaling/downscale-review.ts";

const kinds = { statefulsets: "StatefulSet", deployments: "Deployment", replicasets: "ReplicaSet" } as const;

function object(kind: string, replicas?: unknown, rest: object = {}): object {
  const metadata = { name: "db-zone-a", namespace: "mimir", uid: "u", resourceVersion: "7" };
  return { apiVersion: "apps/v1", kind, metadata, spec: { replicas }, ...rest };
}

function scale(replicas?: unknown): object {
  return { apiVersion: "autoscaling/v1", kind: "Scale", metadata: { name: "db-zone-a" }, spec: { replicas } };
}

function review(oldObject: unknown, now: unknown, rest: Partial<AdmissionRequest> = {}): AdmissionRequest {
  return {
    uid: "1",
    operation: "UPDATE",
    resource: { group: "apps", version: "v1", resource: "statefulsets" },
    subresource: "",
    user: "admin",
    namespace: "mimir",
    name: "db-zone-a",
    dryRun: false,
    object: now,
    oldObject,
    path: "/",
    deadlineMs: 0,
    ...rest,
  };
}

const atScale = { subresource: "scale" } as const;
const statefulSet = (replicas?: unknown, rest: object = {}) => object("StatefulSet", replicas, rest);

/** The guard of an answer, and whether it has a warning; or the sizes of a downscale. */
function parsed(request: AdmissionRequest): unknown {
  const read = readDownscale(request);
  if (!("allowed" in read)) return [read.from.replicas, read.to.replicas];
  assert.equal(read.allowed, true);
  return `${read.guard}${read.warnings.length > 0 ? " and a warning" : ""}`;
}

describe("a downscale is read from", () => {
  for (const [resource, kind] of Object.entries(kinds)) {
    const type = { group: "apps", version: "v1", resource };
    test(`${resource}, with the object as it is stored`, () => {
      const read = readDownscale(review(object(kind, 3), object(kind, 1), { resource: type }));
      assert.ok(!("allowed" in read));
      assert.deepEqual([read.resource, read.isScale, read.from.replicas, read.to.replicas], [resource, false, 3, 1]);
      assert.equal(read.old?.metadata.name, "db-zone-a");
    });
    test(`the scale of ${resource}, which has nothing of the object itself`, () => {
      const read = readDownscale(review(scale(3), scale(1), { resource: type, ...atScale }));
      assert.ok(!("allowed" in read));
      assert.deepEqual([read.resource, read.isScale, read.from.replicas, read.to.replicas], [resource, true, 3, 1]);
      assert.deepEqual([read.old, read.object], [undefined, undefined]);
    });
  }
});

test("only the keys and the first ordinal of an object are kept", () => {
  const labels = { "grafana.com/prepare-downscale": "true", "rollout-group": "ingester" };
  const metadata = { name: "db-zone-a", namespace: "mimir", labels, annotations: null, managedFields: [1, 2] };
  const spec = { replicas: 3, serviceName: "db", ordinals: { start: 2 }, template: { spec: "long" } };
  const read = readDownscale(review(statefulSet(3, { metadata, spec }), statefulSet(2)));
  assert.ok(!("allowed" in read) && read.old !== undefined);
  const empty = { uid: "", resourceVersion: "", annotations: {} };
  assert.deepEqual(read.old, { metadata: { name: "db-zone-a", namespace: "mimir", labels, ...empty }, start: 2 });
});

test("a size that stays or grows is no downscale", () => {
  assert.equal(parsed(review(statefulSet(3), statefulSet(3))), "not-a-downscale");
  assert.equal(parsed(review(statefulSet(3), statefulSet(4))), "not-a-downscale");
  assert.equal(parsed(review(scale(0), scale(1), atScale)), "not-a-downscale");
  assert.deepEqual(parsed(review(statefulSet(1), statefulSet(0))), [1, 0]);
});

test("two objects without replicas are no downscale, and one without replicas causes a warning", () => {
  assert.equal(parsed(review(statefulSet(), statefulSet(null))), "not-a-downscale");
  assert.equal(parsed(review(statefulSet(), statefulSet(1))), "replicas-unclear and a warning");
  assert.equal(parsed(review(statefulSet(3), statefulSet())), "replicas-unclear and a warning");
  assert.equal(parsed(review(statefulSet(3), statefulSet(3, { spec: null }))), "replicas-unclear and a warning");
});

test("a scale without replicas has 0", () => {
  assert.deepEqual(parsed(review(scale(3), scale(), atScale)), [3, 0]);
  assert.deepEqual(parsed(review(scale(3), { ...scale(), spec: undefined }, atScale)), [3, 0]);
  assert.equal(parsed(review(scale(), scale(), atScale)), "not-a-downscale");
});

test("an unreadable object is allowed, with a warning that gives the reason", () => {
  const good = statefulSet(3);
  const bad: readonly (readonly [unknown, string])[] = [
    [undefined, "there is none"],
    [null, "there is none"],
    ["StatefulSet", "there is none"],
    [[good], "there is none"],
    [scale(1), 'it is "autoscaling/v1" "Scale", and not apps/v1 StatefulSet'],
    [object("Deployment", 1), 'it is "apps/v1" "Deployment", and not apps/v1 StatefulSet'],
    [statefulSet(1, { apiVersion: "apps/v1beta1" }), 'it is "apps/v1beta1" "StatefulSet"'],
    [statefulSet(1, { kind: { a: 1 } }), "nothing that is a text"],
    [statefulSet("1"), "spec.replicas is not an integer"],
    [statefulSet(1.5), "spec.replicas is not an integer"],
    [statefulSet(2 ** 31), "spec.replicas is not an integer"],
    [statefulSet([1]), "spec.replicas is not an integer"],
    [statefulSet(1, { spec: "none" }), "its spec is no object"],
    [statefulSet(1, { spec: { replicas: 1, serviceName: 5 } }), "spec.serviceName is no text"],
    [statefulSet(1, { metadata: [] }), "its metadata is no object"],
    [statefulSet(1, { metadata: { name: 5 } }), "metadata has a name that is no text"],
    [statefulSet(1, { metadata: { labels: { "grafana.com/no-downscale": true } } }), "metadata.labels are not texts"],
    [statefulSet(1, { metadata: { labels: "true" } }), "metadata.labels are not texts"],
    [statefulSet(1, { metadata: { annotations: { a: {} } } }), "metadata.annotations are not texts"],
  ];
  for (const [value, why] of bad) {
    for (const request of [review(good, value), review(value, good)]) {
      const read = readDownscale(request);
      assert.ok("allowed" in read && read.allowed, why);
      assert.equal(read.guard, "unreadable-object", why);
      assert.equal(read.warnings.length, 1);
      assert.ok(read.warnings[0]?.includes(why), `${read.warnings[0]} contains ${why}`);
    }
  }
  assert.equal(parsed(review(good, statefulSet(1), atScale)), "unreadable-object and a warning");
  assert.equal(parsed(review(scale(3), scale(1))), "unreadable-object and a warning");
});

test("ordinals-malformed: malformed ordinals are refused, because Sluice cannot tell which pods leave; other types have none", () => {
  for (const ordinals of [{ start: "x" }, { start: 2 ** 31 }, { start: -1 }, { start: 0.5 }, [], "0"]) {
    const odd = statefulSet(1, { spec: { replicas: 1, ordinals } });
    for (const request of [review(statefulSet(3), odd), review(odd, statefulSet(3))]) {
      const read = readDownscale(request);
      assert.ok("allowed" in read && !read.allowed);
      assert.deepEqual([read.guard, read.code], ["ordinals-malformed", 400]);
    }
    const type = { group: "apps", version: "v1", resource: "deployments" };
    const small = object("Deployment", 1, { spec: { replicas: 1, ordinals } });
    assert.deepEqual(parsed(review(object("Deployment", 3), small, { resource: type })), [3, 1]);
  }
});

test("a change of the first ordinal is a downscale if a pod leaves by it, and both ranges are read", () => {
  const at = (start: unknown, replicas = 3) => statefulSet(replicas, { spec: { replicas, ordinals: { start } } });
  const read = readDownscale(review(statefulSet(3), at(1)));
  assert.ok(!("allowed" in read));
  assert.deepEqual(
    [read.from, read.to],
    [
      { start: 0, replicas: 3 },
      { start: 1, replicas: 3 },
    ],
  );
  assert.deepEqual(parsed(review(statefulSet(3), at(1, 9))), [3, 9]);
  assert.equal(parsed(review(at(1), at(0, 4))), "not-a-downscale");
  assert.deepEqual(parsed(review(at(1), at(0))), [3, 3]);
  assert.equal(parsed(review(at(0), at(null))), "not-a-downscale");
});

test("other types are allowed, with a warning", () => {
  for (const resource of ["pods", "", "replicationcontrollers", "toString"]) {
    const type = { group: "apps", version: "v1", resource };
    assert.equal(parsed(review(statefulSet(3), statefulSet(1), { resource: type })), "unreadable-object and a warning");
  }
  const foreign = { group: "example.com", version: "v1", resource: "statefulsets" };
  assert.equal(
    parsed(review(statefulSet(3), statefulSet(1), { resource: foreign })),
    "unreadable-object and a warning",
  );
});

test("a label or a field that is null counts as absent, as in Kubernetes", () => {
  const read = readDownscale(review(statefulSet(3, { metadata: { labels: { a: null } } }), statefulSet(1)));
  assert.ok(!("allowed" in read));
  assert.deepEqual(read.old?.metadata.labels, { a: "" });
});
