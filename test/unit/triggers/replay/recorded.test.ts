import assert from "node:assert/strict";
import { test } from "node:test";
import { readOnly } from "../../../../triggers/replay/read-only.ts";
import { readRecorded } from "../../../../triggers/replay/recorded.ts";
import { admissionFunctions } from "../../../../triggers/table.ts";

const json = { "content-type": "application/json" };
const review = { kind: "AdmissionReview", request: { resource: { resource: "pods" }, subResource: "eviction" } };

function read(value: unknown) {
  return readRecorded(typeof value === "string" ? value : JSON.stringify(value), admissionFunctions);
}

function mistakeOf(value: unknown): string {
  const recorded = read(value);
  return "mistake" in recorded ? recorded.mistake : "";
}

test("an event in structured mode is posted to the server of events unchanged", () => {
  const text = '{ "specversion": "1.0" }';
  assert.deepEqual(read(text), { path: "/", headers: { "content-type": "application/cloudevents+json" }, body: text });
  assert.equal("path" in read({ type: "a", source: "b" }), true, "the server says that its specversion is missing");
});

test("a request keeps its headers except those of its transfer, and its body as text or JSON", () => {
  const headers = { "Ce-Id": "1", "Content-Length": "7", "Transfer-Encoding": "chunked" };
  assert.deepEqual(read({ headers, body: { a: 1 } }), { path: "/", headers: { "ce-id": "1" }, body: '{"a":1}' });
  assert.deepEqual(read({ headers: {}, body: "{not" }), { path: "/", headers: {}, body: "{not" });
  assert.deepEqual(read({ headers: {} }), { path: "/", headers: {}, body: "{}" });
  assert.deepEqual(read({ path: "/events?a", headers: {} }), { path: "/events?a", headers: {}, body: "{}" });
});

test("a review is posted to the path that Sluice's configuration has for its resource, unless a path is recorded with it", () => {
  for (const value of [review, { headers: json, body: review }, { headers: json, body: JSON.stringify(review) }]) {
    const recorded = read(value);
    assert.ok(!("mistake" in recorded));
    assert.deepEqual([recorded.path, recorded.headers], ["/pods/eviction/pin", json]);
  }
  const elsewhere = read({ path: "/admission/pod-eviction", headers: json, body: review });
  assert.equal("path" in elsewhere && elsewhere.path, "/admission/pod-eviction");
  const ofPods = { kind: "AdmissionReview", request: { resource: { resource: "pods" } } };
  assert.match(
    mistakeOf(ofPods),
    /it reviews "pods", and here pods\/eviction or zoneaware.* is reviewed, unless a path/,
  );
  assert.match(mistakeOf({ kind: "AdmissionReview" }), /it reviews a resource that it does not name/);
});

test("a review that only the next version's configuration has is posted to the function that already answers it", () => {
  const ofPods = { kind: "AdmissionReview", request: { resource: { resource: "pods" } } };
  const [first = assert.fail()] = admissionFunctions;
  const rule = { ...first.registration.rule, operations: ["DELETE"], resources: ["pods"] };
  const recorded = readRecorded(JSON.stringify(ofPods), [{ ...first, nextRules: [rule] }]);
  assert.equal("path" in recorded && recorded.path, first.registration.path);
});

test("a file without a recorded request is rejected, with what is expected and what the file is instead", () => {
  const expected = /^write a CloudEvent in structured mode, an AdmissionReview, or a request as \{.*\}, in JSON: /;
  const cases: readonly [unknown, string][] = [
    ["", "it is no JSON object"],
    ["kind: AdmissionReview", "it is no JSON object"],
    [[{ specversion: "1.0" }], "it is no JSON object"],
    [{ kind: "Pod", metadata: {} }, "it is none of them"],
    [{ headers: "ce-id: 1", body: {} }, "its headers are not names with a text each"],
    [{ headers: { "ce-id": 1 }, body: {} }, "its headers are not names with a text each"],
    [{ headers: { "ce id": "1" }, body: {} }, "its headers are not names with a text each"],
    [{ headers: { "ce-id": "1\n2" }, body: {} }, "its headers are not names with a text each"],
    [{ path: "https://example.com/", headers: {} }, 'its path does not begin with "/"'],
  ];
  for (const [value, because] of cases) {
    assert.match(mistakeOf(value), expected);
    assert.ok(mistakeOf(value).endsWith(because), mistakeOf(value));
  }
});

test("a read-only cluster refuses every write, and sends none", async () => {
  const sent: string[] = [];
  const record = (verb: string) => async () => void sent.push(verb);
  const whole = { get: record("get"), create: record("create"), patch: record("patch"), delete: record("delete") };
  const cluster = readOnly(whole as never);
  const key = { namespace: "a", name: "b" };
  await cluster.get("pods", key);
  const writes = [
    () => cluster.create("leases", "a", {}),
    () => cluster.patch("leases", key, {}),
    () => cluster.delete("pods", key, { uid: "1" }),
  ];
  for (const write of writes)
    await assert.rejects(write, { code: 405, message: /^a replay writes nothing and follows nothing, and was/ });
  assert.deepEqual(sent, ["get"]);
});
