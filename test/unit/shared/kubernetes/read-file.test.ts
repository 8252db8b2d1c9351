/** Reads a file in a container over a WebSocket, whose messages begin with the number of a channel. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { type TestContext, test } from "node:test";
import { Agent } from "undici";
import { readFileInPod } from "../../../../functions/shared/kubernetes/read-file.ts";
import { acceptWebSocket, webSocketMessage } from "../../../support/container-files.ts";

const success = '{"status":"Success"}';
const failure = '{"status":"Failure","reason":"NonZeroExitCode"}';

/** Reads from an API server that accepts the connection and sends this answer. */
async function read(context: TestContext, answer: (socket: Duplex) => void, status = 101) {
  const asked: IncomingMessage[] = [];
  const sockets: Duplex[] = [];
  const server = createServer();
  server.on("upgrade", (request: IncomingMessage, socket: Duplex) => {
    asked.push(request);
    sockets.push(socket);
    socket.on("error", () => {});
    if (status !== 101) {
      socket.end(`HTTP/1.1 ${status} Forbidden\r\ncontent-length: 0\r\n\r\n`);
      return;
    }
    acceptWebSocket(request, socket);
    answer(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const watches = new Agent();
  context.after(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await watches.destroy();
  });
  const { port } = server.address() as AddressInfo;
  const access = { origin: `http://127.0.0.1:${port}`, pathPrefix: "/proxied", headers: { authorization: "Bearer t" } };
  const pools = { watches, calls: watches, aside: watches };
  const pod = { namespace: "db", name: "orders-0" };
  const path = "/etc/pod-info/marker";
  const text = readFileInPod({ ...access, ...pools }, pod, "rabbitmq", path, AbortSignal.timeout(2_000));
  return { text, asked };
}

test("the text is the command's output, which the API server runs in the container, with Sluice's credentials", async (context) => {
  const { text, asked } = await read(context, (socket) => {
    socket.write(webSocketMessage(1, "tr"));
    socket.write(webSocketMessage(2, "some warning"));
    socket.write(Buffer.concat([webSocketMessage(1, "ue"), webSocketMessage(3, success)]));
  });
  assert.equal(await text, "true");
  const { pathname, searchParams } = new URL(asked[0]?.url ?? "", "http://x");
  assert.equal(pathname, "/proxied/api/v1/namespaces/db/pods/orders-0/exec");
  assert.deepEqual(searchParams.getAll("command"), ["cat", "/etc/pod-info/marker"]);
  assert.deepEqual([searchParams.get("container"), searchParams.get("stdout")], ["rabbitmq", "true"]);
  assert.equal(asked[0]?.headers.authorization, "Bearer t");
});

test("a missing file has no text, and an empty one has an empty text", async (context) => {
  const missing = await read(context, (socket) => void socket.write(webSocketMessage(3, failure)));
  assert.equal(await missing.text, undefined);
  const empty = await read(context, (socket) => void socket.write(webSocketMessage(3, success)));
  assert.equal(await empty.text, "");
});

test("a refusal, an ended connection, malformed messages and silence are errors, and never a text", async (context) => {
  const refused = await read(context, () => {}, 403);
  await assert.rejects(refused.text, /no connection to the container|ended before/);
  const broken = await read(context, (socket) => void socket.destroy());
  await assert.rejects(broken.text, { code: 0, resource: "pods/exec" });
  const nonsense = await read(context, (socket) => void socket.write(webSocketMessage(3, "{")));
  assert.equal(await nonsense.text, undefined);
  const silent = await read(context, () => {});
  await assert.rejects(silent.text, /no answer in time/);
});
