/** The bodies that clients post: how much memory they may use, and how long they may take. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { Bodies } from "../../../../triggers/server/bodies.ts";
import { listen } from "../../../../triggers/server/server.ts";
import { eventually } from "../../../controlplane/api.ts";
import { binaryHeaders, createTestApp } from "../../../support/app.ts";

const mebibyte = 2 ** 20;
const reviewPath = "/admission/zpdb-validation";
const json = { "content-type": "application/json" };

async function serve(context: TestContext, options: Parameters<typeof createTestApp>[0] = {}) {
  const testApp = createTestApp(options);
  const listening = await listen(testApp.app, { port: 0, requestTimeoutMs: 60_000 });
  context.after(() => listening.close(AbortSignal.abort()));
  return { ...testApp, port: listening.port, url: `http://127.0.0.1:${listening.port}` };
}

interface Begun {
  readonly socket: Socket;
  /** The status, as soon as it has come. */
  status(): string | undefined;
}

/** Sends the head of a request with that length, and a part of its body. */
async function begin(
  context: TestContext,
  port: number,
  { path = "/", headers = binaryHeaders as Record<string, string>, length = 0, body = "" },
): Promise<Begun> {
  const socket = connect(port, "127.0.0.1");
  context.after(() => socket.destroy());
  const received: string[] = [];
  socket.on("error", () => {});
  socket.on("data", (data) => received.push(String(data)));
  await once(socket, "connect");
  const lines = Object.entries({ ...headers, "content-length": length }).map(([name, value]) => `${name}: ${value}`);
  socket.write(`${[`POST ${path} HTTP/1.1`, "host: sluice", ...lines].join("\r\n")}\r\n\r\n${body}`);
  return { socket, status: () => received.join("").split(" ")[1] };
}

function statuses(begun: readonly Begun[]): string[] {
  return begun.flatMap((one) => one.status() ?? []);
}

test("128 stalled posts refuse no event, because a body counts by the bytes that have come, and not by its announced length", async (context) => {
  const { port, url, triggered } = await serve(context);
  const length = mebibyte;
  const stalled = await Promise.all(Array.from({ length: 200 }, () => begin(context, port, { length, body: "[" })));
  const answer = await fetch(url, { method: "POST", headers: binaryHeaders, body: "{}" });
  assert.equal(answer.status, 204);
  assert.equal(triggered.length, 1);
  assert.deepEqual(statuses(stalled), []);
});

test("a stalled body is answered 408 with a message after three seconds, and one that goes on is read", async (context) => {
  const { port, lines } = await serve(context);
  const startedMs = performance.now();
  const still = await begin(context, port, { length: 10, body: "[" });
  const body = JSON.stringify({ filler: "x".repeat(30) });
  const slow = await begin(context, port, { length: body.length });
  const trickle = setInterval(() => slow.socket.write(body.charAt(sent++)), 100);
  let sent = 0;
  context.after(() => clearInterval(trickle));
  await eventually("the one that stands still answered", 8_000, async () => still.status());
  assert.equal(still.status(), "408");
  const tookMs = performance.now() - startedMs;
  assert.ok(tookMs > 2_900 && tookMs < 6_000, `${tookMs} ms`);
  await eventually("the slow one answered", 8_000, async () => slow.status());
  assert.equal(slow.status(), "204");
  assert.ok(!lines.some(({ level }) => level === "error"));
});

test("while all bodies together are too large, the largest is refused with Retry-After, and a small one is read", async (context) => {
  const { port, url, reporting } = await serve(context);
  const large = "x".repeat(900_000);
  const begun = await Promise.all(
    Array.from({ length: 60 }, () => begin(context, port, { length: mebibyte, body: `["${large}` })),
  );
  // 60 of them have 54 MB together, and 16 MiB may be read at once. Each takes a whole MiB of memory, so 16 stay.
  await eventually("some refused", 3_000, async () => (statuses(begun).length >= 40 ? true : undefined));
  assert.ok(statuses(begun).length <= 46, `${statuses(begun).length} were refused`);
  assert.ok(statuses(begun).every((status) => status === "503"));
  const answer = await fetch(url, { method: "POST", headers: binaryHeaders, body: "{}" });
  assert.equal(answer.status, 204);
  assert.match(await reporting.metrics.registry.metrics(), /^sluice_events_total\{result="refused"\} \d+$/m);
});

test("reviews have a limit of their own for bodies, so that a flood of events does not use it up", async (context) => {
  const { port, url } = await serve(context);
  const part = "x".repeat(900_000);
  await Promise.all(Array.from({ length: 40 }, () => begin(context, port, { length: mebibyte, body: `["${part}` })));
  const length = 5 * mebibyte;
  const options = { path: reviewPath, headers: json, length, body: `["${"x".repeat(2_000_000)}` };
  const reviews = await Promise.all(Array.from({ length: 12 }, () => begin(context, port, options)));
  // Eight of two megabytes are 16 MiB less 777 KB.
  await eventually("some refused", 3_000, async () => (statuses(reviews).length >= 4 ? true : undefined));
  assert.deepEqual([...new Set(statuses(reviews))], ["503"]);
  const review = { apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", request: { uid: "1" } };
  const asked = { method: "POST", headers: json, body: JSON.stringify(review) };
  assert.equal((await fetch(`${url}${reviewPath}`, asked)).status, 200);
});

/** A body in pieces of one byte, as on the wire. */
const inBytes = (length: number) => `${"1\r\n \r\n".repeat(length)}0\r\n\r\n`;

/** Sends it without a length. Resolves to the status of the answer. */
async function postChunked(context: TestContext, port: number, path: string, chunks: string): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  context.after(() => socket.destroy());
  socket.on("error", () => {});
  const headers = { ...binaryHeaders, "transfer-encoding": "chunked" };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  socket.write(`${[`POST ${path} HTTP/1.1`, "host: sluice", ...lines].join("\r\n")}\r\n\r\n${chunks}`);
  const [received] = await once(socket, "data");
  return String(received).slice(9, 12);
}

test("a body in pieces of one byte counts only its bytes, so that an honest body is read beside several of them", async (context) => {
  const { port, triggered } = await serve(context);
  // 300,000 pieces were 77 MB when each counted as 256 bytes.
  const answers = Array.from({ length: 3 }, () => postChunked(context, port, "/", inBytes(100_000)));
  assert.deepEqual(await Promise.all(answers), ["204", "204", "204"]);
  assert.equal(triggered.length, 3);
});

test("a body of 5 MiB is read, and a larger one is answered 413, with and without an announced length", async (context) => {
  const { url, port } = await serve(context);
  for (const [more, status] of [
    [0, 400],
    [1, 413],
  ] as const) {
    const length = 5 * mebibyte + more;
    const response = await fetch(`${url}${reviewPath}`, { method: "POST", headers: json, body: " ".repeat(length) });
    assert.equal(response.status, status);
    const piece = `${(65_536).toString(16)}\r\n${" ".repeat(65_536)}\r\n`;
    const last = more > 0 ? "1\r\n \r\n" : "";
    const untold = await postChunked(context, port, reviewPath, `${piece.repeat(80)}${last}0\r\n\r\n`);
    assert.equal(untold, String(status));
  }
});

/** A server with little room for bodies, whose length does not matter. */
function serveBodies(mostBytes: number) {
  const bodies = new Bodies(mostBytes);
  const malformed = (because: string) => new HTTPException(400, { message: because });
  const app = new Hono().post("/", async (c) => c.json((await bodies.json(c, 1_000, malformed)) ?? null));
  const post = (body: RequestInit["body"]) =>
    app.request("/", { method: "POST", body, duplex: "half" } as RequestInit & { duplex: "half" });
  return { bodies, post };
}

test("a single body is limited like any other", async () => {
  const { bodies, post } = serveBodies(100);
  assert.equal((await post(`"${"x".repeat(98)}"`)).status, 200);
  assert.equal((await post(`"${"x".repeat(99)}"`)).status, 503);
  assert.equal(bodies.bytes, 0);
});

test("of two bodies that are too large together, the larger is refused, and the smaller is read", async () => {
  const { bodies, post } = serveBodies(100);
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const writer = writable.getWriter();
  const large = post(readable);
  await writer.write(Buffer.from(`"${"x".repeat(59)}`));
  await eventually("the larger in memory", 3_000, async () => (bodies.bytes >= 60 ? true : undefined));
  assert.equal((await post(`"${"x".repeat(48)}"`)).status, 200);
  assert.equal((await large).status, 503);
  assert.equal(bodies.bytes, 0);
});

test("thousands of bodies with a short announced length are read at once", async () => {
  const testApp = createTestApp();
  const request = { method: "POST", headers: { ...binaryHeaders, "content-length": "2" }, body: "{}" };
  const answers = await Promise.all(Array.from({ length: 2_000 }, () => testApp.app.request("/", request)));
  assert.ok(answers.every(({ status }) => status === 204));
});

test("a client that disconnects in the middle of its body is logged at debug, and not as an error", async (context) => {
  const { port, lines } = await serve(context);
  const reviews = { path: reviewPath, headers: json, length: 1_000, body: "[" };
  const begun = await Promise.all([
    ...Array.from({ length: 10 }, () => begin(context, port, { length: 1_000, body: "[" })),
    ...Array.from({ length: 10 }, () => begin(context, port, reviews)),
  ]);
  for (const { socket } of begun) socket.destroy();
  const logged = () => lines.filter(({ msg }) => String(msg).includes("the client went away"));
  await eventually("a line for each", 5_000, async () => (logged().length === begun.length ? true : undefined));
  assert.deepEqual([...new Set(lines.map(({ level }) => level))], ["debug"]);
});

test("a request that cannot be read is the client's fault, 400 with a message: deep nesting, or a malformed query or host", async (context) => {
  const { port, url, lines } = await serve(context);
  const deep = "[".repeat(200_000) + "]".repeat(200_000);
  for (const [path, body] of [
    [reviewPath, deep],
    ["/", deep],
    [`${reviewPath}?timeout=%zz`, "{}"],
  ] as const) {
    const headers = path === "/" ? binaryHeaders : json;
    const answer = await fetch(`${url}${path}`, { method: "POST", headers, body });
    assert.equal(answer.status, 400, path);
    assert.match(await answer.text(), /^This is not .+\.$/, path);
  }
  const odd = await begin(context, port, { path: "//[", headers: json });
  await eventually("an answer", 5_000, async () => odd.status());
  assert.match(odd.status() ?? "", /^4/);
  assert.ok(!lines.some(({ level }) => level === "error"));
});
