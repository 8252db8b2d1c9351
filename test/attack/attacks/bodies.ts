/** Bodies that never end. */
import type { Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type { Attack, Scene } from "../attack.ts";
import { connectTo, type Endpoint, hasRoom, isConnected } from "../wire.ts";
import { closeAll, openMany, openSince } from "./sockets.ts";

const largestReview = 8 * 2 ** 20;
const largestEvent = 2 ** 20;
const piece = Buffer.alloc(64 * 1024, " ");
const openMs = { short: 2_500, long: 8_000 } as const;
const unfinished = { short: 40, long: 100 } as const;
const stalled = 128;
const aborted = { short: 400, long: 8_000 } as const;
const abortedAtOnce = 64;

function headOf(path: string, length: number): string {
  const event = "ce-specversion: 1.0\r\nce-id: 1\r\nce-source: /x\r\nce-type: dev.knative.sources.ping\r\n";
  const headers = `host: sluice.example\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n${event}`;
  return `POST ${path} HTTP/1.1\r\n${headers}\r\n`;
}

/** Reviews of the largest size, whose last byte never comes. */
export const unfinishedReviews: Attack = {
  name: "reviews-unfinished",
  description: (size) => `${unfinished[size]} reviews of 8 MiB on TLS_PORT whose last byte never comes`,
  run: (scene) =>
    leaveUnfinished(scene, scene.target.tls, "/admission/pod-eviction", unfinished[scene.size], largestReview),
};

/** The same on the port for events. */
export const unfinishedEvents: Attack = {
  name: "events-unfinished",
  description: (size) => `${4 * unfinished[size]} events of 1 MiB whose last byte never comes`,
  mayTurnEventsAway: true,
  run: (scene) => leaveUnfinished(scene, scene.target.plain, "/", 4 * unfinished[scene.size], largestEvent),
};

async function leaveUnfinished(
  { target, size, signal, atHeight }: Scene,
  endpoint: Endpoint,
  path: string,
  count: number,
  bytes: number,
) {
  const before = await target.sockets();
  const sockets = await openMany(endpoint, count, signal);
  for (const socket of sockets) socket.resume();
  const head = headOf(path, bytes);
  await Promise.all(sockets.map((socket) => send(socket, head, bytes - 1)));
  signal.throwIfAborted();
  atHeight();
  await delay(openMs[size], undefined, { signal });
  const open = await openSince(before, target);
  closeAll(sockets);
  const failures = target.end() === undefined ? [] : ["the server has ended"];
  return { seen: `${open} of ${count} are held in the end`, failures };
}

/** Sends as fast as the server reads; ends early if the server closes the connection. */
async function send(socket: Socket, head: string, bytes: number): Promise<void> {
  socket.write(head);
  for (let left = bytes; left > 0 && !socket.destroyed; left -= piece.length) {
    if (!socket.write(piece.subarray(0, Math.min(left, piece.length)))) await hasRoom(socket);
  }
}

/** Posts that stop after a few bytes. Meanwhile the server must answer honest events and reviews as before. */
export const stalledPosts: Attack = {
  name: "posts-stalled",
  description: () => `${stalled} events, and as many reviews, that say 1 MiB and send 100 bytes`,
  async run({ target, size, signal, atHeight }) {
    const before = await target.sockets();
    const [events, reviews] = [
      await openMany(target.plain, stalled, signal),
      await openMany(target.tls, stalled, signal),
    ];
    for (const [sockets, path] of [
      [events, "/"],
      [reviews, "/admission/pod-eviction"],
    ] as const) {
      for (const socket of sockets) socket.resume().write(`${headOf(path, largestEvent)}${" ".repeat(100)}`);
    }
    atHeight();
    await delay(openMs[size], undefined, { signal });
    const open = await openSince(before, target);
    closeAll([...events, ...reviews]);
    return { seen: `${open} of ${2 * stalled} are held in the end`, failures: [] };
  },
};

/** Bodies that come slowly, and whose senders disconnect in the middle. The log must not report an error. */
export const abortedBodies: Attack = {
  name: "bodies-aborted",
  description: (size) => `${aborted[size]} bodies, half of them reviews, that come slowly and are aborted`,
  async run({ target, size, signal, atHeight }) {
    atHeight();
    let next = 0;
    const work = async (): Promise<void> => {
      while (next < aborted[size]) {
        signal.throwIfAborted();
        const number = next++;
        const [endpoint, path] =
          number % 2 === 0 ? ([target.plain, "/"] as const) : ([target.tls, "/admission/pod-eviction"] as const);
        await abortSlowly(endpoint, path);
      }
    };
    await Promise.all(Array.from({ length: abortedAtOnce }, work));
    const errors = await target.errors();
    const failures =
      errors.length === 0 ? [] : [`${errors.length} lines of the level error, the first: ${errors[0]?.slice(0, 200)}`];
    return { seen: `${errors.length} lines of the level error`, failures };
  },
};

async function abortSlowly(endpoint: Endpoint, path: string): Promise<void> {
  const socket = connectTo(endpoint);
  if (!(await isConnected(socket))) return;
  socket.resume().write(headOf(path, 4_000));
  for (let part = 0; part < 3 && !socket.destroyed; part++) {
    await delay(10);
    socket.write(piece.subarray(0, 500));
  }
  socket.destroy();
}
