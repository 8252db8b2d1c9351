import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import { listen } from "../../triggers/server.ts";
import { eventually } from "../controlplane/api.ts";
import { binaryHeaders, createTestApp } from "./triggers-app.ts";

const limit = 1_048_576;
/** As many bodies of the largest size as may be read at once. */
const most = 128;

/** Sends the head of a request that says no length and never ends, and a part of its body. */
async function begin(port: number, body: string): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  const lines = Object.entries(binaryHeaders).map(([name, value]) => `${name}: ${value}`);
  const head = ["POST / HTTP/1.1", "host: sluice", "transfer-encoding: chunked", ...lines].join("\r\n");
  socket.write(`${head}\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n`);
  return socket;
}

test("bodies that never end take no more memory than is set aside for all of them: who comes then is asked to come again", async (context) => {
  const door = createTestApp({ bodyLimitBytes: limit });
  const listening = await listen(door.app, { port: 0, requestTimeoutMs: 60_000 });
  context.after(() => listening.close(AbortSignal.abort()));
  const sockets = await Promise.all(Array.from({ length: most + 20 }, () => begin(listening.port, "[")));
  const answers: string[] = [];
  for (const socket of sockets) socket.once("data", (data) => answers.push(String(data).slice(0, 12)));
  await eventually("those beyond it answered", 10_000, async () => (answers.length >= 20 ? true : undefined));
  assert.deepEqual(answers, Array(20).fill("HTTP/1.1 503"));
  const url = `http://127.0.0.1:${listening.port}`;
  const post = () => fetch(url, { method: "POST", headers: binaryHeaders, body: "{}" });
  const answer = await post();
  assert.equal(answer.status, 503);
  assert.equal(answer.headers.get("retry-after"), "1");
  assert.match(await answer.text(), /^Send it again later: .*\.$/);
  for (const socket of sockets) socket.destroy();
  await eventually("room again", 10_000, async () => ((await post()).status === 204 ? true : undefined));
  assert.match(await door.reporting.metrics.registry.metrics(), /^sluice_events_total\{result="refused"\} \d+$/m);
});

test("bodies that say how short they are are taken by the thousand", async () => {
  const door = createTestApp({ bodyLimitBytes: limit });
  const request = { method: "POST", headers: { ...binaryHeaders, "content-length": "2" }, body: "{}" };
  const answers = await Promise.all(Array.from({ length: 2_000 }, () => door.app.request("/", request)));
  assert.ok(answers.every(({ status }) => status === 204));
});
