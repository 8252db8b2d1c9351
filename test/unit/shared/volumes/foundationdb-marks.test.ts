/** Which volume claims and pods belong to a FoundationDBCluster, by the labels that it defines itself. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Metadata } from "../../../../functions/shared/kubernetes/cluster.ts";
import {
  belongs,
  clusterOf,
  parseMarks,
  processGroupOf,
  selectorOf,
  usualMarks,
} from "../../../../functions/shared/volumes/foundationdb-marks.ts";

const usualCluster = "foundationdb.org/fdb-cluster-name";
const usualId = "foundationdb.org/fdb-process-group-id";

function marksOf(labels?: unknown) {
  const metadata = { name: "orders", namespace: "db", uid: "uid-orders", resourceVersion: "1" };
  return parseMarks({ metadata, spec: labels === undefined ? undefined : { labels } } as never);
}

function metadata(labels: Record<string, string>, owner?: { name: string; uid: string }): Metadata {
  const reference = { apiVersion: "apps.foundationdb.org/v1beta2", kind: "FoundationDBCluster", ...owner };
  const ownerReferences = owner === undefined ? [] : [reference as never];
  return { name: "x", namespace: "db", uid: "u", resourceVersion: "1", labels, ownerReferences };
}

test("a cluster without labels of its own has the operator's default labels", () => {
  for (const labels of [undefined, null, {}, { matchLabels: {}, processGroupIDLabels: [] }, { matchLabels: null }]) {
    const marks = marksOf(labels);
    assert.equal(selectorOf(marks), `${usualCluster}=orders`);
    assert.deepEqual([marks.idLabels, marks.unreadable], [[usualId], undefined]);
  }
});

test("the cluster's own labels select its volume claims and pods, and the first of several names the process group", () => {
  const marks = marksOf({ matchLabels: { app: "fdb", tier: "" }, processGroupIDLabels: ["my/id", "old-id"] });
  assert.equal(selectorOf(marks), "app=fdb,tier=");
  const own = metadata({ app: "fdb", tier: "", "my/id": "storage-1", "old-id": "storage-9" });
  assert.deepEqual([belongs(own, marks), processGroupOf(own, marks)], [true, "storage-1"]);
  assert.equal(
    processGroupOf(metadata({ [usualId]: "storage-2" }), marks),
    "storage-2",
    "created before the labels were named",
  );
  assert.equal(processGroupOf(metadata({ "my/id": "" }), marks), undefined);
  assert.equal(belongs(metadata({ app: "fdb" }), marks), false, "all labels must match");
});

test("an object that the cluster owns belongs to it whatever its labels are, and another owner's object does not", () => {
  const marks = marksOf({ matchLabels: { app: "fdb" } });
  assert.equal(belongs(metadata({}, { name: "orders", uid: "uid-orders" }), marks), true);
  assert.equal(belongs(metadata({ app: "fdb" }, { name: "payments", uid: "uid-payments" }), marks), false);
  assert.equal(belongs(metadata({ app: "fdb" }, { name: "orders", uid: "uid-before" }), marks), true, "by its labels");
  assert.equal(belongs(metadata({}, { name: "orders", uid: "uid-before" }), marks), false);
  const marked = metadata({});
  const annotations = {
    "sluice.dev/owner": "FoundationDBCluster.apps.foundationdb.org/orders",
    "sluice.dev/removal-held": "true",
  };
  assert.equal(belongs({ ...marked, annotations }, marks), true, "Sluice keeps it");
});

test("after its cluster is gone an object belongs to it by its owner reference, or by the default label", () => {
  const owned = metadata({}, { name: "orders", uid: "uid-before" });
  assert.deepEqual([clusterOf(owned), belongs(owned, usualMarks("orders"))], ["orders", true]);
  const labelled = metadata({ [usualCluster]: "orders" });
  assert.deepEqual([clusterOf(labelled), belongs(labelled, usualMarks("orders"))], ["orders", true]);
  assert.equal(clusterOf(metadata({})), undefined);
});

test("labels of wrong types select nothing, and malformed fields are reported by name", () => {
  const cases: readonly [unknown, RegExp][] = [
    ["app=fdb", /^spec\.labels of orders is "app=fdb", which Sluice cannot read$/],
    [{ matchLabels: ["app"] }, /^spec\.labels\.matchLabels of orders is \["app"\]/],
    [{ matchLabels: { app: 1 } }, /matchLabels of orders is \{"app":1\}/],
    [{ matchLabels: { "a b": "c" } }, /matchLabels/],
    [{ matchLabels: { app: "a,b" } }, /matchLabels/],
  ];
  for (const [labels, message] of cases) {
    const marks = marksOf(labels);
    assert.match(marks.unreadable ?? "", message);
    assert.equal(selectorOf(marks), undefined, JSON.stringify(labels));
    assert.equal(belongs(metadata({ [usualCluster]: "orders" }), marks), false);
    assert.equal(belongs(metadata({}, { name: "orders", uid: "uid-orders" }), marks), true);
  }
  for (const processGroupIDLabels of ["my/id", [1], ["a b"], { 0: "my/id" }]) {
    const marks = marksOf({ processGroupIDLabels });
    assert.match(marks.unreadable ?? "", /^spec\.labels\.processGroupIDLabels of orders is /);
    assert.deepEqual([selectorOf(marks), marks.idLabels], [`${usualCluster}=orders`, [usualId]]);
  }
});
