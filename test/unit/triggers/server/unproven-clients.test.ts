/** What a client may use of a port before one of its requests was answered, and whose place it takes. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import type { Cut } from "../../../../triggers/server/connection-bounds.ts";
import { type ListenOptions, listen } from "../../../../triggers/server/server.ts";
import { eventually } from "../../../controlplane/api.ts";
import { binaryHeaders, createTestApp } from "../../../support/app.ts";
import { createAuthority } from "../../../support/certificates.ts";

const [honest, crowd] = ["127.0.0.2", "127.0.0.3"];
const get = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
const headers = Object.entries(binaryHeaders).map(([name, value]) => `${name}: ${value}`);
const postHead = (bytes: number) =>
  ["POST / HTTP/1.1", "host: x", ...headers, `content-length: ${bytes}`, "", ""].join("\r\n");

async function serve(context: TestContext, options: Partial<ListenOptions> = {}) {
  const { app, triggered } = createTestApp();
  app.get("/never", () => new Promise<Response>(() => {}));
  const cuts: Cut[] = [];
  const onCut = (how: Cut) => void cuts.push(how);
  const listening = await listen(app, { port: 0, requestTimeoutMs: 60_000, onCut, ...options });
  context.after(() => listening.close(AbortSignal.abort()));
  const track = (socket: Socket): Socket => {
    context.after(() => socket.destroy());
    return socket.on("error", () => {});
  };
  const open = async (localAddress = honest, sent = ""): Promise<Socket> => {
    const socket = track(connect({ port: listening.port, host: "127.0.0.1", localAddress }));
    await once(socket, "connect");
    socket.write(sent);
    return socket;
  };
  const openTls = async (options: ConnectionOptions, sent = ""): Promise<Socket> => {
    const socket = track(
      connectTls({ port: listening.port, host: "127.0.0.1", rejectUnauthorized: false, ...options }),
    );
    await once(socket, "secureConnect");
    socket.write(sent);
    return socket;
  };
  return { triggered, cuts, open, openTls };
}

/** Resolves to the status of the next answer; undefined if the connection ends without one. */
async function statusOf(socket: Socket): Promise<number | undefined> {
  const ended = once(socket, "close").then(() => [""]);
  const [data] = await Promise.race([once(socket, "data"), ended]);
  const [, status] = /^HTTP\/1\.1 (\d+)/.exec(String(data)) ?? [];
  return status === undefined ? undefined : Number(status);
}

/** Sends this many bytes at each interval until the connection ends. Resolves to the duration in milliseconds. */
async function trickle(socket: Socket, text: string, everyMs: number, bytes = 1): Promise<number> {
  const startedMs = performance.now();
  let at = 0;
  const timer = setInterval(() => {
    socket.write(text.slice(at, at + bytes));
    at += bytes;
  }, everyMs);
  socket.resume();
  await once(socket, "close");
  clearInterval(timer);
  return performance.now() - startedMs;
}

test("a first head that comes a byte a second is answered 408 after 2 s, and a silent connection is closed without an answer", async (context) => {
  const { cuts, open } = await serve(context);
  const [slow, silent] = await Promise.all([open(), open()]);
  const status = statusOf(slow);
  const [slowMs, silentMs] = await Promise.all([trickle(slow, "GET / HTTP/1.1\r\n", 900), trickle(silent, "", 900)]);
  assert.equal(await status, 408);
  for (const tookMs of [slowMs, silentMs]) assert.ok(tookMs > 1_800 && tookMs < 3_500, `${tookMs} ms`);
  assert.deepEqual(cuts, ["late", "late"]);
});

test("over TLS the handshake and the first head have 2 s together", async (context) => {
  const { cuts, open, openTls } = await serve(context, {
    pair: { ...(await (await createAuthority()).issue()), subject: "", notAfter: "" },
  });
  const startedMs = performance.now();
  const [never, late] = await Promise.all([open(), open()]);
  await delay(1_000);
  const slow = await openTls({ socket: late }, "GET / HT");
  const status = statusOf(slow);
  await Promise.all([never, slow].map((socket) => once(socket.resume(), "close")));
  const tookMs = performance.now() - startedMs;
  assert.ok(tookMs > 1_800 && tookMs < 2_900, `${tookMs} ms`);
  assert.equal(await status, 408);
  assert.deepEqual(cuts, ["late", "late"]);
});

test("a first body that is too slow for too long is answered 408, although it never stalls; one of 20 KiB/s is read", async (context) => {
  const { cuts, open, triggered } = await serve(context, { bounds: { slowBodyMs: 800 } });
  const body = JSON.stringify({ filler: "x".repeat(40_000) });
  const [slow, steady] = await Promise.all([open(honest, postHead(1_000)), open(honest, postHead(body.length))]);
  const [slowStatus, steadyStatus] = [statusOf(slow), statusOf(steady)];
  void trickle(steady, body, 50, 1_024);
  const tookMs = await trickle(slow, " ".repeat(99), 300);
  assert.ok(tookMs > 700 && tookMs < 2_300, `${tookMs} ms`);
  assert.equal(await slowStatus, 408);
  assert.equal(await steadyStatus, 204);
  assert.deepEqual([cuts, triggered.length], [["slow"], 1]);
});

test("a connection that has had a whole request answered may take its time for the next one", async (context) => {
  const { cuts, open } = await serve(context, { bounds: { firstHeadMs: 300, slowBodyMs: 300 } });
  const [head, body] = await Promise.all([open(honest, get), open(honest, get)]);
  assert.deepEqual(await Promise.all([head, body].map(statusOf)), [200, 200]);
  const statuses = [head, body].map(statusOf);
  head.write(get.slice(0, 10));
  body.write(postHead(2));
  await delay(1_500);
  head.write(get.slice(10));
  body.write("{}");
  assert.deepEqual(await Promise.all(statuses), [200, 204]);
  assert.deepEqual(cuts, []);
});

test("a request that was answered before all of it had come proves nothing", async (context) => {
  const { cuts, open } = await serve(context, { bounds: { slowBodyMs: 500 } });
  const socket = await open(honest, "POST /nothing HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n");
  assert.equal(await statusOf(socket), 404);
  const tookMs = await trickle(socket, "x".repeat(99), 200);
  assert.ok(tookMs < 2_000, `${tookMs} ms`);
  assert.deepEqual(cuts, ["slow"]);
});

test("slow bodies of one address take no place of another address, whose requests go on and are answered", async (context) => {
  // On a busy machine the three waves take longer than a head and a body may usually take.
  const patient = { firstHeadMs: 60_000, slowBodyMs: 60_000 };
  const { cuts, open } = await serve(context, { bounds: { mostConnections: 40, placesForGets: 0, ...patient } });
  // Ended connections no longer count.
  for (const socket of await Promise.all(Array.from({ length: 36 }, () => open(honest)))) socket.destroy();
  await delay(50);
  const begun = await Promise.all(Array.from({ length: 3 }, () => open(honest, `${postHead(2)}{`)));
  const waiting = await open(honest, "GET /never HTTP/1.1\r\nhost: x\r\n\r\n");
  const silent = await open(honest);
  for (let wave = 0; wave < 3; wave++) {
    await Promise.all(Array.from({ length: 40 }, () => open(crowd, `${postHead(1_000)}{`)));
    for (let turn = 0; turn < 5; turn++) assert.equal(await statusOf(await open(honest, get)), 200);
  }
  const statuses = [...begun, silent].map(statusOf);
  for (const socket of begun) socket.write("}");
  silent.write(get);
  assert.deepEqual(await Promise.all(statuses), [204, 204, 204, 200]);
  assert.ok(!waiting.destroyed);
  assert.ok(cuts.length >= 90 && cuts.every((how) => how === "crowded"), cuts.join());
});

test("within one address, a new connection that sends a request is answered before slow ones", async (context) => {
  const { open } = await serve(context, { bounds: { mostConnections: 40, placesForGets: 0, firstHeadMs: 400 } });
  for (let count = 0; count < 60; count++) {
    const slow = await open(crowd, get);
    await statusOf(slow);
    slow.write(`${postHead(1_000)}{`);
  }
  await delay(600);
  for (let turn = 0; turn < 20; turn++) {
    const [newcomer] = await Promise.all([open(crowd), open(crowd), open(crowd)]);
    await delay(5);
    newcomer.write(get);
    assert.equal(await statusOf(newcomer), 200, `turn ${turn}`);
  }
});

test("posts with slow bodies leave 20 places to GETs, so that a probe of the same address is answered", async (context) => {
  const { cuts, open } = await serve(context, { bounds: { mostConnections: 60 } });
  const slow = await Promise.all(Array.from({ length: 60 }, () => open(crowd, `${postHead(1_000)}{`)));
  await eventually("20 of them ended", 5_000, async () => (cuts.length === 20 ? true : undefined));
  const probes = await Promise.all(Array.from({ length: 20 }, () => open(crowd)));
  await delay(50);
  for (const probe of probes) probe.write(get);
  assert.deepEqual(await Promise.all(probes.map(statusOf)), Array(20).fill(200));
  await delay(50);
  assert.equal(slow.filter(({ destroyed }) => !destroyed).length, 40, "no slow post was ended for a GET");
});

test("a client with a certificate of the authorities keeps its connections, however many unproven clients come", async (context) => {
  const [authority, clients] = [await createAuthority(), await createAuthority()];
  const pair = { ...(await authority.issue()), subject: "", notAfter: "", clientAuthorities: clients.cert };
  const { open, openTls } = await serve(context, { pair, bounds: { mostConnections: 20, crowdedIdleMs: 60_000 } });
  const { cert, key } = await clients.issue();
  const known = await Promise.all(Array.from({ length: 15 }, () => openTls({ cert, key }, get)));
  await Promise.all(known.map(statusOf));
  for (let count = 0; count < 30; count++) await open(`127.0.0.${10 + count}`);
  await delay(100);
  const statuses = known.map(statusOf);
  for (const socket of known) socket.write(get);
  assert.deepEqual(await Promise.all(statuses), Array(15).fill(200));
});
