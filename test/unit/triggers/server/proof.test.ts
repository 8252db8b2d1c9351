/** While a key is required, clients that have not shown it get few places, and clients that have shown it keep theirs. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { listen } from "../../../../triggers/server/server.ts";
import { eventually } from "../../../controlplane/api.ts";
import { createTestApp } from "../../../support/app.ts";

const get = (path: string) => `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`;
const [keyed, plain] = [get("/key/healthz"), get("/healthz")];

async function serve(context: TestContext, asked: { isAsked: boolean }) {
  const { app } = createTestApp();
  app.get("/key/healthz", (c) => c.text("alive\n"));
  const proof = { isShown: ({ url = "" }) => url.startsWith("/key/"), isAsked: () => asked.isAsked };
  const bounds = { mostConnections: 60, mostUnproven: 10, placesForGets: 0 };
  const listening = await listen(app, { port: 0, requestTimeoutMs: 60_000, proof, bounds });
  context.after(() => listening.close(AbortSignal.abort()));
  return async (localAddress: string, sent: string): Promise<Socket> => {
    const socket = connect({ port: listening.port, host: "127.0.0.1", localAddress });
    context.after(() => socket.destroy());
    socket.on("error", () => {});
    await once(socket, "connect");
    if (sent !== "") socket.write(sent);
    return socket;
  };
}

const [honest, crowd] = ["127.0.0.2", "127.0.0.3"];
const standing = (sockets: readonly Socket[]) => sockets.filter(({ destroyed }) => !destroyed).length;

async function open(times: number, one: () => Promise<Socket>): Promise<Socket[]> {
  const sockets: Socket[] = [];
  for (let count = 0; count < times; count++) sockets.push(await one());
  return sockets;
}

test("unproven clients get 10 of 60 places while the key is required, and a client that has shown it once keeps its connection", async (context) => {
  const dial = await serve(context, { isAsked: true });
  const known = await open(20, async () => {
    const socket = await dial(honest, keyed);
    await once(socket, "data");
    return socket;
  });
  const foreign = await open(50, () => dial(crowd, ""));
  await eventually("10 unproven clients", 5_000, async () => (standing(foreign) === 10 ? true : undefined));
  assert.equal(standing(known), 20);
  for (const socket of known) {
    const answered = once(socket, "data");
    socket.write(plain);
    assert.match(String((await answered)[0]), /^HTTP\/1\.1 200/);
  }
});

test("a new client of another address gets a place among the unproven ones, and keeps it once it has shown the key", async (context) => {
  const dial = await serve(context, { isAsked: true });
  const foreign = await open(30, () => dial(crowd, ""));
  const newcomer = await dial(honest, keyed);
  assert.match(String((await once(newcomer, "data"))[0]), /^HTTP\/1\.1 200/);
  foreign.push(...(await open(30, () => dial(crowd, ""))));
  await eventually("10 unproven clients", 5_000, async () => (standing(foreign) === 10 ? true : undefined));
  assert.ok(!newcomer.destroyed);
});

test("without a required key all clients share all places; once a key is required, each new connection closes unproven ones", async (context) => {
  const asked = { isAsked: false };
  const dial = await serve(context, asked);
  const foreign = await open(50, () => dial(crowd, ""));
  const newcomer = await dial(honest, plain);
  await once(newcomer, "data");
  assert.equal(standing(foreign), 50);
  asked.isAsked = true;
  for (let count = 0; count < 5; count++) foreign.push(await dial(crowd, ""));
  await eventually("9 unproven clients of one address", 5_000, async () =>
    standing(foreign) <= 10 ? true : undefined,
  );
});
