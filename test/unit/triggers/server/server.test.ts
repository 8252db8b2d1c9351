import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { listen } from "../../../../triggers/server/server.ts";
import { binaryHeaders, createTestApp, reference } from "../../../support/app.ts";

async function serve(
  context: TestContext,
  options: Parameters<typeof createTestApp>[0] = {},
  requestTimeoutMs = 10_000,
) {
  const testApp = createTestApp(options);
  const listening = await listen(testApp.app, { port: 0, requestTimeoutMs });
  context.after(() => listening.close(AbortSignal.abort()));
  return { ...testApp, listening, url: `http://127.0.0.1:${listening.port}` };
}

/** Everything that a server sends on a connection until it closes it. */
async function readAll(socket: Socket): Promise<string> {
  const chunks: Buffer[] = [];
  socket.on("data", (chunk) => chunks.push(chunk));
  socket.on("error", () => {});
  await new Promise((resolve) => socket.once("close", resolve));
  return Buffer.concat(chunks).toString();
}

test("the process is healthy while it answers; readiness gives the reason if it is not ready", async () => {
  let reason: string | undefined = "the API server has not answered yet";
  const { app } = createTestApp({ notReady: () => reason });
  assert.equal((await app.request("/healthz")).status, 200);
  for (const path of ["/readyz", "/ready"]) {
    const response = await app.request(path);
    assert.equal(response.status, 503);
    assert.equal(await response.text(), "the API server has not answered yet\n");
  }
  reason = undefined;
  assert.equal((await app.request("/readyz")).status, 200);
});

test("other paths and methods are answered 404 with a message, and never by a bare error", async () => {
  const { app } = createTestApp();
  for (const [path, method] of [
    ["/nothing", "POST"],
    ["/", "GET"],
    ["/events", "PUT"],
    ["/readyz", "POST"],
  ] as const) {
    const response = await app.request(path, { method });
    assert.equal(response.status, 404);
    assert.match(await response.text(), /POST CloudEvents to/);
  }
});

test("requests are measured by route, status and size, and paths that no route serves are one route", async () => {
  const { app } = createTestApp();
  const body = JSON.stringify(reference);
  const headers = { ...binaryHeaders, "content-length": String(body.length) };
  await app.request("/events", { method: "POST", headers, body });
  await app.request("/", { method: "POST", headers, body });
  await app.request("/readyz");
  for (const path of ["/a", "/b", "/EVENTS"]) await app.request(path);
  const text = await (await app.request("/metrics")).text();
  const has = (line: string) => assert.ok(text.includes(line), line);
  const seconds = "rollout_operator_request_duration_seconds_count";
  has(`${seconds}{method="POST",route="events",status_code="204",ws="false"} 1`);
  has(`${seconds}{method="POST",route="root",status_code="204",ws="false"} 1`);
  has(`${seconds}{method="GET",route="readyz",status_code="200",ws="false"} 1`);
  has(`${seconds}{method="GET",route="notfound",status_code="404",ws="false"} 3`);
  has(`rollout_operator_request_message_bytes_sum{method="POST",route="events"} ${body.length}`);
  has('rollout_operator_response_message_bytes_sum{method="POST",route="events"} 0');
  has('rollout_operator_response_message_bytes_sum{method="GET",route="readyz"} 6');
  has('rollout_operator_inflight_requests{method="POST",route="events"} 0');
  has('sluice_build_info{version="1.2.3"');
  has("sluice_queue_keys 7");
});

test("a review's answer has its type and its length in bytes, also over a socket", async (context) => {
  const { app, url } = await serve(context);
  const uid = "ü".repeat(20);
  const review = { apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", request: { uid } };
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${url}/admission/zpdb-validation`, {
    method: "POST",
    headers,
    body: JSON.stringify(review),
  });
  const { byteLength } = await response.arrayBuffer();
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-type"), "application/json");
  assert.equal(response.headers.get("content-length"), String(byteLength));
  const series = 'rollout_operator_response_message_bytes_sum{method="POST",route="admission_zpdb_validation"}';
  const text = await (await app.request("/metrics")).text();
  assert.ok(
    text.includes(`${series} ${byteLength}\n`),
    text.split("\n").find((line) => line.startsWith(series)),
  );
});

test("over a socket an event is answered 204 with no body at all", async (context) => {
  const { url, triggered } = await serve(context);
  const response = await fetch(url, { method: "POST", headers: binaryHeaders, body: JSON.stringify(reference) });
  assert.equal(response.status, 204);
  assert.equal(response.body, null);
  assert.deepEqual(triggered, ["statefulsets app/ingester-zone-a"]);
});

test("over a socket a body beyond the limit is answered 413, with and without an announced length", async (context) => {
  const { url, triggered } = await serve(context, { bodyLimitBytes: 1_024 });
  const large = JSON.stringify({ filler: "x".repeat(100_000) });
  const reported = await fetch(url, { method: "POST", headers: binaryHeaders, body: large });
  assert.equal(reported.status, 413);
  assert.match(await reported.text(), /larger than 1024 bytes/);
  const streamed = new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(large));
      controller.close();
    },
  });
  const untold = await fetch(url, { method: "POST", headers: binaryHeaders, body: streamed, duplex: "half" });
  assert.equal(untold.status, 413);
  assert.deepEqual(triggered, []);
});

test("a client that does not finish its request is cut off with 408", async (context) => {
  const { listening } = await serve(context, {}, 1_000);
  const socket = connect(listening.port, "127.0.0.1");
  socket.write(
    "POST / HTTP/1.1\r\nhost: x\r\nce-id: 1\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n{",
  );
  assert.match(await readAll(socket), /^HTTP\/1\.1 408 /);
});

test("a request that is no HTTP is answered 400, and the server goes on", async (context) => {
  const { listening, url } = await serve(context);
  const socket = connect(listening.port, "127.0.0.1");
  socket.write("\x16\x03\x01 hello\r\n\r\n");
  assert.match(await readAll(socket), /^HTTP\/1\.1 400 /);
  assert.equal((await fetch(`${url}/healthz`)).status, 200);
});

test("the close ends idle connections at once, and waits for an answer that is under way", async (context) => {
  const asked = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<undefined>();
  const { app } = createTestApp();
  app.get("/slow", async (c) => {
    asked.resolve();
    await answer.promise;
    return c.text("at last");
  });
  const listening = await listen(app, { port: 0, requestTimeoutMs: 10_000 });
  const idle = connect(listening.port, "127.0.0.1");
  idle.write("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
  await once(idle, "data");
  const slow = fetch(`http://127.0.0.1:${listening.port}/slow`);
  await asked.promise;
  const cutOff = new AbortController();
  context.after(() => cutOff.abort());
  const closed = listening.close(cutOff.signal);
  await readAll(idle);
  answer.resolve(undefined);
  assert.equal(await (await slow).text(), "at last");
  await closed;
});

test("the close ends a connection that stays busy after a limited time", async () => {
  const { app } = createTestApp();
  const listening = await listen(app, { port: 0, requestTimeoutMs: 10_000 });
  const socket = connect(listening.port, "127.0.0.1");
  socket.write("POST / HTTP/1.1\r\nhost: x\r\n");
  await once(socket, "connect");
  const cutOff = new AbortController();
  const closed = listening.close(cutOff.signal);
  cutOff.abort();
  await Promise.all([closed, readAll(socket)]);
});

test("a port that is in use is reported", async (context) => {
  const { listening, app } = await serve(context);
  await assert.rejects(listen(app, { port: listening.port, requestTimeoutMs: 10_000 }), /EADDRINUSE/);
});
