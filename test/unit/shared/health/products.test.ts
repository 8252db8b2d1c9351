/** The meaning of each product's answers, including malformed ones. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { healthQuestion } from "../../../../functions/shared/annotations/health.ts";
import { products } from "../../../../functions/shared/health/products.ts";
import type { PodAnswer } from "../../../../functions/shared/http/pod-http.ts";

const answered = (status: number, body: unknown = ""): PodAnswer => {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return { status, contentType: "", retryAfterMs: undefined, body: text };
};
const rabbitmq = (status: number, body?: unknown) => products.rabbitmq.read(answered(status, body), undefined);
const http = (status: number, body?: unknown, field?: string) => {
  const [names = "", value = ""] = field?.split("=") ?? [];
  return products.http.read(
    answered(status, body),
    field === undefined ? undefined : { path: names.split("."), value },
  );
};

test("RabbitMQ's answer is good only with 200 and its own word for it", () => {
  assert.equal(rabbitmq(200, { status: "ok" }).state, "good");
  for (const body of ["", "ok", "<html>", "[]", "null", { status: "failed" }, { state: "ok" }, "{"])
    assert.equal(rabbitmq(200, body).state, "unknown", JSON.stringify(body));
});

test("RabbitMQ's bad answer names the queues that would lose their majority, five at most", () => {
  const queue = (name: string) => ({ name, readable_name: `queue '${name}' in vhost '/'` });
  const no = (names: string[]) => rabbitmq(503, { status: "failed", reason: "critical", queues: names.map(queue) });
  assert.deepEqual(no(["orders"]), {
    state: "bad",
    detail: "without this node these would lose their majority: queue 'orders' in vhost '/'",
  });
  assert.match(no(["a", "b", "c", "d", "e", "f", "g"]).detail, /queue 'e' in vhost '\/' and 2 more$/);
  const long = no(Array.from({ length: 5 }, () => "x".repeat(5_000)));
  assert.ok(long.detail.length < 600, String(long.detail.length));
});

test("RabbitMQ's bad answer stays bad, whatever it has in place of the queues", () => {
  for (const body of ["", "<html>", { status: "failed" }, { status: "failed", queues: 7 }, { queues: [null, 7, {}] }])
    assert.equal(rabbitmq(503, body).state, "bad", JSON.stringify(body));
  assert.equal(rabbitmq(503, { status: "failed", queues: [null, 7, { name: "q" }] }).detail.endsWith(": q"), true);
});

test("a refusal, a fault or an unknown path is no answer; a redirect is a bad one", () => {
  for (const status of [400, 401, 403, 404, 500, 502, 504]) {
    assert.equal(rabbitmq(status, { status: "ok" }).state, "unknown", String(status));
    assert.equal(http(status, { status: "ok" }, "status=ok").state, "unknown", String(status));
  }
  for (const status of [301, 302, 307, 308]) {
    for (const health of [rabbitmq(status), http(status), http(status, { a: 1 }, "a=1")])
      assert.deepEqual([health.state, /leads elsewhere/.test(health.detail)], ["bad", true]);
  }
});

test("a plain question is answered by the status", () => {
  assert.equal(http(200, "<html>").state, "good");
  assert.equal(http(503, "shutting down").detail, "HTTP 503 shutting down");
  assert.equal(http(503).state, "bad");
});

test("a question with a field is answered by its value: another value is bad, and without a value there is no answer", () => {
  assert.equal(http(200, { status: "green" }, "status=green").state, "good");
  assert.equal(http(200, { a: { b: true } }, "a.b=true").state, "good");
  assert.equal(http(200, { n: 0 }, "n=0").state, "good");
  assert.deepEqual(http(200, { status: "red" }, "status=green"), {
    state: "bad",
    detail: "status is red, and not green",
  });
  assert.equal(http(503, { status: "green" }, "status=green").state, "bad", "the status comes first");
  for (const body of ["", "green", "[]", "null", {}, { status: null }, { status: {} }, { status: ["green"] }])
    assert.equal(http(200, body, "status=green").state, "unknown", JSON.stringify(body));
  assert.equal(http(200, {}, "__proto__.toString=x").state, "unknown");
  assert.equal(http(200, {}, "constructor.name=Object").state, "unknown");
});

test("only the rows of the table are products", () => {
  const names = ["rabbitmq", "http", "toString", ""].map(healthQuestion.parse);
  assert.deepEqual(names, ["rabbitmq", "http", undefined, undefined]);
});

test("each status has its meaning, up to the limits of its range", () => {
  const states = (read: typeof http, body: unknown) =>
    [199, 200, 299, 300, 399, 400, 503].map((status) => read(status, body).state);
  const meanings = ["unknown", "good", "good", "bad", "bad", "unknown", "bad"];
  assert.deepEqual(states(http, ""), meanings);
  assert.deepEqual(states(rabbitmq, { status: "ok" }), meanings);
});

test("a message quotes 300 characters of an answer, and 80 of a queue's name", () => {
  for (const status of [500, 503]) assert.equal(http(status, "x".repeat(400)).detail.length, 300);
  assert.equal(http(200, { a: "y".repeat(400) }, "a=z").detail.length, 300);
  const long = rabbitmq(503, { status: "failed", queues: [{ name: "q".repeat(100) }] });
  assert.match(long.detail, /: q{80}$/);
  assert.match(rabbitmq(200, "x".repeat(400)).detail, /^HTTP 200, and no answer of RabbitMQ's: x+$/);
  assert.equal(rabbitmq(200, "x".repeat(400)).detail.length, 300);
});

test("queues count only in an answer that says that the check failed", () => {
  const named = { queues: [{ name: "orders" }] };
  assert.equal(rabbitmq(503, { status: "ok", ...named }).detail.includes("majority"), false);
  for (const status of [200, 500]) assert.equal(rabbitmq(status, { status: "failed", ...named }).state, "unknown");
  for (const queues of [[], [{ name: "" }], [{ readable_name: 7, name: 8 }]]) {
    const { state, detail } = rabbitmq(503, { status: "failed", queues });
    assert.deepEqual([state, detail.startsWith("HTTP 503 ")], ["bad", true], JSON.stringify(queues));
  }
});

test("a field that is null, an object or a list is no answer", () => {
  for (const value of [null, {}, ["green"]]) assert.equal(http(200, { status: value }, "status=null").state, "unknown");
  assert.equal(http(200, { status: null }, "status=null").state, "unknown");
});
