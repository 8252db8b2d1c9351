/** What answers of the API server mean to an agent: its own Node, and its contact. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { contactAfter, contactMsOf, ownNodeOf } from "../../../../../functions/fence-node/agent/decide-renewal.ts";

test("a Node with the annotation is excluded whatever its value, and only the status True is maintenance", () => {
  const nodeOf = (annotations: object | undefined, ...conditions: readonly object[]) =>
    ownNodeOf({ metadata: { annotations }, status: { conditions } });
  const ready = { type: "Ready", status: "True" };
  const nothing = { isExcluded: false, isInMaintenance: false };
  assert.deepEqual(nodeOf(undefined, ready), nothing);
  assert.deepEqual(ownNodeOf({}), nothing);
  assert.deepEqual(nodeOf({ "sluice.dev/fence": "" }, ready), { ...nothing, isExcluded: true });
  assert.deepEqual(nodeOf({ "sluice.dev/fence-id": "x" }), nothing);
  const inMaintenance = (status: string) => nodeOf({}, ready, { type: "MaintenanceInProgress", status });
  assert.deepEqual(inMaintenance("True"), { ...nothing, isInMaintenance: true });
  for (const status of ["False", "Unknown"]) assert.deepEqual(inMaintenance(status), nothing);
  assert.equal(ownNodeOf({ status: { conditions: "x" } }), undefined);
});

test("a contact begins with an answer, and lasts to the sending of the last request that was answered", () => {
  const begun = contactAfter(undefined, { sentMs: 1_000, answeredMs: 1_500 }, 20_000);
  assert.deepEqual(begun, { sinceMs: 1_500, lastMs: 1_000 });
  assert.equal(contactMsOf(undefined), 0);
  assert.equal(contactMsOf(begun), 0, "until the next success");
  assert.equal(contactMsOf(contactAfter(begun, { sentMs: 6_000, answeredMs: 6_500 }, 20_000)), 4_500);
});

test("a contact breaks where an answer comes later than X after the last success was sent", () => {
  const before = { sinceMs: 0, lastMs: 10_000 };
  const after = (answeredMs: number) => contactAfter(before, { sentMs: 29_000, answeredMs }, 20_000);
  assert.deepEqual(after(30_000), { sinceMs: 0, lastMs: 29_000 });
  assert.deepEqual(after(30_001), { sinceMs: 30_001, lastMs: 29_000 }, "it has answered no-api to peers by then");
});
