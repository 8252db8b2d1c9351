/** What clients of a port may use: connections, requests on each connection, and answers that they have not read. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { connect as connectTls } from "node:tls";
import type { HttpBindings } from "@hono/node-server";
import { type Cut, usualBounds } from "../../../../triggers/server/connection-bounds.ts";
import { type ListenOptions, listen } from "../../../../triggers/server/server.ts";
import { createMetricsPage, servesForMs } from "../../../../triggers/telemetry/metrics-page.ts";
import { eventually } from "../../../controlplane/api.ts";
import { binaryHeaders, createTestApp } from "../../../support/app.ts";
import { createAuthority } from "../../../support/certificates.ts";

async function serve(context: TestContext, options: Partial<ListenOptions> = {}) {
  const testApp = createTestApp();
  const cuts: Cut[] = [];
  const onCut = (how: Cut) => void cuts.push(how);
  const listening = await listen(testApp.app, { port: 0, requestTimeoutMs: 10_000, onCut, ...options });
  context.after(() => listening.close(AbortSignal.abort()));
  const open = async (): Promise<Socket> => {
    const socket = connect(listening.port, "127.0.0.1");
    socket.on("error", () => {});
    context.after(() => socket.destroy());
    await once(socket, "connect");
    return socket;
  };
  return { ...testApp, cuts, open, port: listening.port, url: `http://127.0.0.1:${listening.port}` };
}

const get = (path: string) => `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`;

/** Everything that the server sends until it closes the connection. */
async function readAll(socket: Socket): Promise<string> {
  const chunks: Buffer[] = [];
  socket.on("data", (chunk) => chunks.push(chunk));
  await once(socket, "close");
  return Buffer.concat(chunks).toString();
}

test("2,000 requests that come at once are read a few at a time, and are all answered in order", async (context) => {
  const { open, cuts, app } = await serve(context);
  let [asked, inFlight, most] = [0, 0, 0];
  app.get("/number", async (c) => {
    const number = asked++;
    most = Math.max(most, ++inFlight);
    (c.env as HttpBindings).outgoing.once("close", () => inFlight--);
    await delay(number % 3);
    return c.text(`number ${number}\n`);
  });
  const socket = await open();
  const received: string[] = [];
  socket.on("data", (chunk) => received.push(String(chunk)));
  const answered = () => received.join("").match(/^number/gm)?.length ?? 0;
  socket.write(get("/number").repeat(2_000));
  await eventually("all answers", 20_000, async () => (answered() === 2_000 ? true : undefined));
  const numbers = [...received.join("").matchAll(/^number (\d+)$/gm)].map(([, number]) => Number(number));
  assert.deepEqual(numbers, [...numbers.keys()]);
  assert.ok(most <= 2 * usualBounds.mostInFlight, `${most} at once`);
  assert.deepEqual(cuts, []);
});

test("the server reads no more from a connection whose answers are not read, whatever the client sends", async (context) => {
  const { open, app } = await serve(context);
  let asked = 0;
  app.get("/never", () => {
    asked++;
    return new Promise<Response>(() => {});
  });
  const socket = await open();
  for (let part = 0; part < 50; part++) socket.write(get("/never").repeat(1_000));
  await eventually("requests", 5_000, async () => (asked > 0 ? true : undefined));
  await delay(300);
  assert.equal(asked, usualBounds.mostInFlight);
});

test("a client that reads slowly gets all its answers, although Node and Sluice pause its connection", async (context) => {
  const { open, app } = await serve(context);
  app.get("/large", (c) => c.text(`${"x".repeat(300_000)}\n`));
  const socket = await open();
  let bytes = 0;
  socket.write(get("/large").repeat(200));
  await delay(300);
  socket.on("data", (chunk) => {
    bytes += chunk.length;
    socket.pause();
    setImmediate(() => socket.resume());
  });
  await eventually("all answers", 20_000, async () => (bytes > 200 * 300_000 ? true : undefined));
  assert.ok(!socket.destroyed);
});

test("bodies arrive whole, however they are split, and whatever follows them", async (context) => {
  const { open, triggered } = await serve(context);
  const socket = await open();
  const received: string[] = [];
  socket.on("data", (chunk) => received.push(String(chunk)));
  const heads = Object.entries(binaryHeaders).map(([name, value]) => `${name}: ${value}`);
  const body = JSON.stringify({ filler: "\r\n\r\n".repeat(300), long: "x".repeat(200_000) });
  const post = [`POST / HTTP/1.1`, "host: x", ...heads, `content-length: ${body.length}`, "", body].join("\r\n");
  const all = (post + get("/healthz")).repeat(20);
  for (let at = 0; at < all.length; at += 7_919) socket.write(all.slice(at, at + 7_919));
  const answers = () => received.join("").match(/HTTP\/1\.1 \d+/g) ?? [];
  await eventually("all answers", 10_000, async () => (answers().length === 40 ? true : undefined));
  assert.deepEqual(answers(), Array(20).fill(["HTTP/1.1 204", "HTTP/1.1 200"]).flat());
  assert.equal(triggered.length, 20);
});

test("a malformed request also gets a status and a message", async (context) => {
  const { open } = await serve(context, { requestTimeoutMs: 1_000 });
  for (const [sent, status] of [
    ["P@ST / HTTP/1.1\r\n\r\n", 400],
    ["GET / HTTP/1.1\r\nconnection: close\r\n\r\n", 400],
    [`GET / HTTP/1.1\r\nx: ${"y".repeat(20_000)}\r\n\r\n`, 431],
    ["GET /healthz HTTP/1.1\r\nhost: x\r\nexpect: miracles\r\nconnection: close\r\n\r\n", 417],
    ["GET / HTTP/1.1\r\n", 408],
    ["POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip\r\n\r\nabc", 400],
  ] as const) {
    const socket = await open();
    socket.write(sent);
    assert.match(await readAll(socket), new RegExp(`^HTTP/1\\.1 ${status} [^]*\r\n\r\n[A-Z].+\\.$`));
  }
});

test("the most requests that may be in flight are answered in order, again and again", async (context) => {
  const { open, cuts } = await serve(context);
  const socket = await open();
  const received: string[] = [];
  socket.on("data", (chunk) => received.push(String(chunk)));
  const answers = () => received.join("").match(/^(alive|ready)$/gm) ?? [];
  for (let round = 1; round <= 5; round++) {
    socket.write((get("/healthz") + get("/readyz")).repeat(usualBounds.mostInFlight / 2));
    const due = round * usualBounds.mostInFlight;
    await eventually("all answers", 5_000, async () => (answers().length === due ? true : undefined));
  }
  assert.deepEqual([...new Set(answers().join(" ").split(" "))], ["alive", "ready"]);
  assert.equal(
    answers().join(" "),
    Array((5 * usualBounds.mostInFlight) / 2)
      .fill("alive ready")
      .join(" "),
  );
  assert.deepEqual(cuts, []);
});

test("the server closes the connection of a client that never reads its answer, and not of one that waits for a slow answer", async (context) => {
  const { app, open, cuts } = await serve(context, { bounds: { unreadMs: 300 } });
  app.get("/large", (c) => c.text("x".repeat(50_000_000)));
  app.get("/slow", async (c) => {
    await delay(900);
    return c.text("at last");
  });
  const patient = await open();
  patient.write(get("/slow") + get("/healthz"));
  const answered = once(patient, "data");
  const deaf = await open();
  deaf.write(get("/large"));
  await eventually("the connection ended", 5_000, async () => (cuts.length > 0 ? true : undefined));
  assert.deepEqual(cuts, ["unread"]);
  const [text] = await answered;
  assert.match(String(text), /at last/);
  assert.deepEqual(cuts, ["unread"]);
});

test("requests before a malformed or unfinished one are answered first, and that gets a message in its turn", async (context) => {
  const { open, app } = await serve(context, { requestTimeoutMs: 1_000 });
  app.get("/slow", async (c) => {
    await delay(300);
    return c.text("at last.");
  });
  for (const [broken, status] of [
    ["P@ST / HTTP/1.1\r\n\r\n", 400],
    [
      "POST /events HTTP/1.1\r\nhost: x\r\nce-id: 1\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{",
      408,
    ],
  ] as const) {
    const socket = await open();
    socket.write(get("/slow") + get("/healthz") + broken);
    const statuses = [...(await readAll(socket)).matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, found]) => Number(found));
    assert.deepEqual(statuses, [200, 200, status]);
  }
});

test("the body of a request without a route is discarded, however slowly it comes, and the next request is answered", async (context) => {
  const { open } = await serve(context);
  const socket = await open();
  const received: string[] = [];
  socket.on("data", (chunk) => received.push(String(chunk)));
  const statuses = () => [...received.join("").matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, found]) => Number(found));
  socket.write("POST /nothing HTTP/1.1\r\nhost: x\r\ncontent-length: 8\r\n\r\n");
  for (let part = 0; part < 8; part++) {
    await delay(150);
    socket.write("x");
  }
  socket.write(get("/healthz"));
  await eventually("both answers", 5_000, async () => (statuses().length === 2 ? true : undefined));
  assert.deepEqual(statuses(), [404, 200]);
});

test("at the limit the connection that has been idle longest is closed for a new one; if none is idle, the new one is", async (context) => {
  const { open, cuts, app } = await serve(context, { bounds: { mostConnections: 100 } });
  app.get("/never", () => new Promise<Response>(() => {}));
  const sockets = await Promise.all(Array.from({ length: 100 }, open));
  const [first, second, ...others] = sockets as [Socket, Socket, ...Socket[]];
  const closed = once(second, "close");
  first.write(get("/healthz"));
  await once(first, "data");
  const newcomer = await open();
  await closed;
  assert.deepEqual(cuts, ["idle"]);
  assert.ok(!first.destroyed, "it has been idle for a shorter time");
  newcomer.write(get("/healthz"));
  await once(newcomer, "data");
  for (const socket of [first, newcomer, ...others]) socket.write(get("/never"));
  await delay(300);
  await readAll(await open());
  assert.equal(cuts.at(-1), "too-many");
});

test("near the limit idle connections are closed, and a TLS connection does not count twice", async (context) => {
  const authority = await createAuthority();
  const { cert, key } = await authority.issue();
  const pair = { cert, key, subject: "", notAfter: "" };
  const { cuts, port } = await serve(context, {
    pair,
    bounds: { mostConnections: 40, crowdedIdleMs: 3_000, firstHeadMs: 60_000 },
  });
  const open = async () => {
    const socket = connectTls({ port, host: "127.0.0.1", ca: authority.cert });
    socket.on("error", () => {});
    context.after(() => socket.destroy());
    await once(socket, "secureConnect");
    return socket;
  };
  const sockets = await Promise.all(Array.from({ length: 36 }, open));
  assert.deepEqual(cuts, []);
  for (const socket of sockets.splice(0, 10)) socket.destroy();
  sockets.push(...(await Promise.all(Array.from({ length: 10 }, open))));
  assert.deepEqual(cuts, [], "closed connections no longer count");
  await delay(3_100);
  const asked = await open();
  asked.write(get("/healthz"));
  await once(asked, "data");
  await eventually("the idle ones ended", 5_000, async () => (cuts.length >= 36 ? true : undefined));
  assert.deepEqual([...new Set(cuts)], ["idle"]);
});

test("a port accepts a thousand connections, and not 17,800 as it once did", async (context) => {
  const { open, cuts } = await serve(context, { bounds: { firstHeadMs: 60_000 } });
  for (let count = 0; count < usualBounds.mostConnections + 200; count += 100) {
    await Promise.all(Array.from({ length: 100 }, open));
  }
  await eventually("200 ended", 5_000, async () => (cuts.length === 200 ? true : undefined));
});

test("a connection whose request Node finds to take too long is counted once, by what was missing", async (context) => {
  const { open, cuts } = await serve(context, { requestTimeoutMs: 300 });
  const [head, body] = ["GET / HTTP/1.1\r\n", "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n1"];
  const ended = async (request: string, isAnswered = false): Promise<Cut[]> => {
    const socket = await open();
    const all = readAll(socket);
    if (isAnswered) {
      socket.write(get("/healthz"));
      await once(socket, "data");
    }
    socket.write(request);
    const answers = await all;
    // A client that has sent no byte gets no answer, and one whose body is not wanted has got another one.
    if (request === head) assert.match(answers, /HTTP\/1\.1 408 /);
    return cuts.splice(0);
  };
  assert.deepEqual(await ended(""), ["late"]);
  assert.deepEqual(await ended(head), ["late"]);
  assert.deepEqual(await ended(body), ["slow"]);
  assert.deepEqual(await ended(head, true), ["late"]);
  assert.deepEqual(await ended(body, true), ["slow"]);
});

test("far from the limit idle connections stay open", async (context) => {
  const { open, cuts } = await serve(context, { bounds: { crowdedIdleMs: 1 } });
  const socket = await open();
  for (let count = 0; count < 20; count++) (await open()).destroy();
  socket.write(get("/healthz"));
  await once(socket, "data");
  assert.deepEqual(cuts, []);
});

test("one rendering of the metrics serves all clients for half a second, with its length", async () => {
  let nowMs = 0;
  const rendered: PromiseWithResolvers<string>[] = [];
  const registry = {
    contentType: "text/plain" as const,
    metrics() {
      const one = Promise.withResolvers<string>();
      rendered.push(one);
      return one.promise;
    },
  };
  const page = createMetricsPage(registry as never, () => nowMs);
  const first = page();
  nowMs += 10 * servesForMs;
  assert.equal(page(), first, "a client that asks during the rendering gets its result");
  rendered[0]?.resolve("one");
  await first;
  nowMs += servesForMs - 1;
  assert.equal(page(), first);
  nowMs += 1;
  const second = page();
  rendered[1]?.reject(new Error("no"));
  await assert.rejects(second, /no/);
  const third = page();
  rendered[2]?.resolve("three");
  assert.equal(new TextDecoder().decode((await third).text), "three");
  assert.equal(rendered.length, 3);
  const { app } = createTestApp();
  const answer = await app.request("/metrics");
  assert.equal(answer.headers.get("content-length"), String((await answer.arrayBuffer()).byteLength));
});
