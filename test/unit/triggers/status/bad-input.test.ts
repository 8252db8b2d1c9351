/** What clients may send to the address of the status, or leave out. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import type { Status } from "../../../../functions/shared/contract/status.ts";
import { usualBounds } from "../../../../triggers/server/connection-bounds.ts";
import { openStatusPort } from "../../../../triggers/status/status-port.ts";
import { createReporting } from "../../../../triggers/telemetry/logs-and-metrics.ts";
import { eventually } from "../../../controlplane/api.ts";
import { at, statusWith } from "./given.ts";

const clock = { monotonicMs: () => performance.now() };

/** Opens the port for as long as `use` takes. */
async function withPort(
  status: Status,
  use: (port: number, cuts: (reason: string) => Promise<number>) => Promise<void>,
): Promise<void> {
  const destination = { write() {} };
  const reporting = createReporting({ version: "1.2.3", serving: "all", level: "error", keys: () => 0, destination });
  const address = { host: "127.0.0.1", port: 0 };
  const read = async () => status;
  const opened = await openStatusPort({ address, read, requestTimeoutMs: 1_000, clock, reporting });
  const cuts = async (reason: string) => {
    const { values } = await reporting.metrics.connectionsEnded.get();
    return values.find(({ labels }) => labels.door === "status" && labels.reason === reason)?.value ?? 0;
  };
  try {
    await use(opened.port, cuts);
  } finally {
    await opened.close(AbortSignal.abort());
  }
}

function open(port: number): Socket {
  const socket = connect(port, "127.0.0.1");
  // The server may cut it at any moment.
  return socket.on("error", () => {});
}

/** Sends a request as it is written, and resolves to the first line of the answer. */
async function send(port: number, request: string): Promise<string> {
  const socket = open(port);
  socket.write(request);
  const [answer] = (await once(socket, "data")) as [Buffer];
  socket.destroy();
  return answer.toString().split("\r\n", 1)[0] ?? "";
}

const end = "Connection: close\r\n\r\n";

test("a request with two headers Host gets 400, also if both are names of the machine, and a foreign one gets 421", () =>
  withPort(statusWith(), async (port) => {
    const statusOf = async (...hosts: readonly string[]) => {
      const lines = hosts.map((host) => `Host: ${host}\r\n`).join("");
      return Number((await send(port, `GET / HTTP/1.1\r\n${lines}${end}`)).split(" ")[1]);
    };
    assert.equal(await statusOf("localhost"), 200);
    assert.equal(await statusOf("evil.test"), 421);
    for (const second of ["localhost", "evil.test"]) assert.equal(await statusOf("localhost", second), 400, second);
    assert.equal(await statusOf("evil.test", "localhost"), 400);
    assert.equal(await statusOf(), 400);
  }));

test("a query of 8 KiB changes nothing", () =>
  withPort(statusWith(), async (port) => {
    const query = `format=json&x=${"a".repeat(8_192)}`;
    assert.equal(await send(port, `GET /?${query} HTTP/1.1\r\nHost: localhost\r\n${end}`), "HTTP/1.1 200 OK");
  }));

test("more connections that send nothing than the port has places keep no client from the page", () =>
  withPort(statusWith(), async (port) => {
    const sockets: Socket[] = [];
    for (let batch = 0; batch < 4; batch++) {
      const opened = Array.from({ length: 500 }, () => open(port).resume());
      await Promise.all(opened.map((socket) => Promise.race([once(socket, "connect"), once(socket, "close")])));
      sockets.push(...opened);
    }
    assert.ok(sockets.length > 1.5 * usualBounds.mostConnections);
    const openNow = () => sockets.filter(({ closed }) => !closed).length;
    await eventually("no more than the usual bound of connections", 20_000, async () =>
      openNow() <= usualBounds.mostConnections ? true : undefined,
    );
    await eventually("an answer", 10_000, async () => {
      const answer = await fetch(`http://127.0.0.1:${port}/`).catch(() => undefined);
      return answer?.status === 200 ? true : undefined;
    });
    for (const socket of sockets) socket.destroy();
  }));

test("a client that asks again and again, and reads nothing, is cut off, and others are answered meanwhile", () => {
  const event = { namespace: "db", object: "a", reason: "RolloutStarted", message: "m".repeat(8_000_000), at };
  return withPort(statusWith({ events: [event] }), async (port, cuts) => {
    const socket = open(port);
    socket.pause();
    socket.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(8));
    assert.equal((await fetch(`http://127.0.0.1:${port}/`, { method: "HEAD" })).status, 200);
    await eventually("the end of the connection", 20_000, async () =>
      (await cuts("unread")) === 1 ? true : undefined,
    );
    assert.equal((await fetch(`http://127.0.0.1:${port}/`, { method: "HEAD" })).status, 200);
    socket.destroy();
  });
});
