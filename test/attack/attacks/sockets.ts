/** Connections that cost the server something: answers that the client does not read, and sockets that send nothing. */
import type { Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type { Attack, Scene } from "../attack.ts";
import type { Target } from "../target.ts";
import { connectTo, type Endpoint, isConnected } from "../wire.ts";

const pipelined = 2_000;
const getMetrics = Buffer.from("GET /metrics HTTP/1.1\r\nhost: sluice.example\r\n\r\n".repeat(pipelined));
const openMs = { short: 2_000, long: 8_000 } as const;
/** Idle sockets at each server. */
const idle = { short: 3_000, long: 8_000 } as const;
/** Most connections that may stay open at both servers: no client that calls webhooks, sends events or scrapes needs more. */
const mostOpen = 2_500;
const atOnce = 100;

/** Thousands of requests for metrics on one connection, whose answers the client does not read. */
export const metricsOnOne: Attack = {
  name: "metrics-unread-1",
  description: () => `${pipelined} pipelined GET /metrics on 1 connection, no answer is read`,
  run: (scene) => askUnread(scene, 1),
};

/** The same on many connections. */
export const metricsOnMany: Attack = {
  name: "metrics-unread-200",
  description: () => `${pipelined} pipelined GET /metrics on each of 200 connections, no answer is read`,
  run: (scene) => askUnread(scene, 200),
};

async function askUnread({ target, size, signal, atHeight }: Scene, connections: number) {
  const before = await target.sockets();
  const sockets = await openMany(target.plain, connections, signal);
  for (const socket of sockets) socket.pause().write(getMetrics);
  atHeight();
  await delay(openMs[size], undefined, { signal });
  const open = await openSince(before, target);
  closeAll(sockets);
  return { seen: `${open} of ${connections} are held in the end`, failures: [] };
}

/** Sockets that send nothing, and sockets that stay after one request. */
export const idleSockets: Attack = {
  name: "idle-sockets",
  description: (size) => `${idle[size]} idle sockets on PORT, and as many on TLS_PORT`,
  async run({ target, size, signal, atHeight }) {
    const before = await target.sockets();
    const opened: Socket[] = [];
    for (const endpoint of [target.plain, target.tls]) {
      const sockets = await openMany(endpoint, idle[size], signal);
      for (const [index, socket] of sockets.entries()) {
        socket.resume();
        if (index % 2 === 0) socket.write("GET /healthz HTTP/1.1\r\nhost: sluice.example\r\n\r\n");
      }
      opened.push(...sockets);
    }
    const open = await openSince(before, target);
    atHeight();
    await delay(openMs[size], undefined, { signal });
    closeAll(opened);
    return { seen: `${open} are held`, failures: open > mostOpen ? [`${open} idle connections are held`] : [] };
  },
};

/** Opens this many connections. Resolves to those that the server accepted. */
export async function openMany(endpoint: Endpoint, count: number, signal: AbortSignal): Promise<Socket[]> {
  const taken: Socket[] = [];
  for (let left = count; left > 0; left -= atOnce) {
    signal.throwIfAborted();
    const sockets = Array.from({ length: Math.min(atOnce, left) }, () => connectTo(endpoint));
    const connected = await Promise.all(sockets.map(isConnected));
    taken.push(...sockets.filter((_, index) => connected[index]));
  }
  return taken;
}

/**
 * Number of connections that the server has in addition. A client that does not read does not notice that a connection was
 * closed.
 */
export async function openSince(before: number, target: Target): Promise<number> {
  return Math.max(0, (await target.sockets()) - before);
}

export function closeAll(sockets: readonly Socket[]): void {
  for (const socket of sockets) socket.destroy();
}
