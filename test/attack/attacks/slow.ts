/** Thousands of connections that send a byte a second, from one address, and honest clients beside them. */
import type { Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type { Attack, Outcome, Scene } from "../attack.ts";
import { askAfresh, type Tally } from "../fresh-thread.ts";
import { connectTo, type Endpoint } from "../wire.ts";
import { closeAll } from "./sockets.ts";

/** Connections at each port. */
const slow = { short: 1_200, long: 2_000 } as const;
const openMs = { short: 6_000, long: 60_000 } as const;
const everyMs = 1_000;
const slices = 50;
/**
 * Connections that the attack opens at one port in a slice of time: 100 a second, which is a thousand that last for 10 s. More
 * would be a flood, which is another attack.
 */
const mostOpened = 2;
/** Share of honest reviews that must be answered. Every probe must be. */
const leastAnswered = 0.99;
const attacker = "127.0.0.3";

const get = "GET /healthz HTTP/1.1\r\nhost: sluice.example\r\n\r\n";
const post = (path: string) =>
  `POST ${path} HTTP/1.1\r\nhost: sluice.example\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n`;

/**
 * First bytes of the connections: a request with a body, or one after an answered request. Endless heads make room as idle
 * connections do, so they are not here.
 */
const beginnings = [post("/admission/pod-eviction"), get + post("/admission/pod-eviction")];

/** The honest clients have another address than the attacker. */
export const slowConnections: Attack = {
  name: "slow-connections",
  description: (size) =>
    `${slow[size]} connections at each port from one address that send a byte a second, for ${openMs[size] / 1_000} s`,
  mayTurnEventsAway: true,
  run: (scene) => sendSlowly(scene, "127.0.0.2"),
};

/**
 * The attacker and the honest clients share an address: that of an ingress, or of a node that hides the addresses of its pods.
 */
export const slowOfOneAddress: Attack = {
  name: "slow-one-address",
  description: (size) => `the same for ${openMs[size] / 1_000} s, and honest clients have that address, too`,
  mayTurnEventsAway: true,
  run: (scene) => sendSlowly(scene, attacker),
};

async function sendSlowly({ target, size, signal, atHeight }: Scene, honestAddress: string): Promise<Outcome> {
  const holds = [target.plain, target.tls].map((endpoint) => new SlowClient(endpoint, slow[size]));
  while (holds.some((client) => client.opened < slow[size])) await turn(holds, signal);
  const startedMs = performance.now();
  atHeight();
  const honest = askAfresh(target, honestAddress);
  while (performance.now() - startedMs < openMs[size]) await turn(holds, signal);
  const tally = await honest.stop();
  const opened = holds.reduce((sum, client) => sum + client.opened, 0);
  for (const client of holds) client.end();
  return { seen: `${opened} opened; ${describeTally(tally)}`, failures: failuresOf(tally) };
}

/** Takes a second, in which each connection sends a byte or is opened again. */
async function turn(holds: readonly SlowClient[], signal: AbortSignal): Promise<void> {
  const endsMs = performance.now() + everyMs;
  for (let slice = 0; slice < slices; slice++) {
    for (const client of holds) client.go(slice);
    await delay(Math.max(0, endsMs - performance.now()) / (slices - slice), undefined, { signal });
  }
}

/** The slow connections to one server. One that the server has ended is opened again in the next turn. */
class SlowClient {
  opened = 0;
  readonly #endpoint: Endpoint;
  readonly #sockets: (Socket | undefined)[];

  constructor(endpoint: Endpoint, count: number) {
    this.#endpoint = endpoint;
    this.#sockets = Array(count).fill(undefined);
  }

  go(slice: number): void {
    let left = mostOpened;
    for (let at = slice; at < this.#sockets.length; at += slices) {
      const socket = this.#sockets[at];
      if (socket?.writable) socket.write("x");
      else if (left-- > 0) this.#sockets[at] = this.#open(at);
    }
  }

  end(): void {
    closeAll(this.#sockets.filter((socket) => socket !== undefined));
  }

  #open(at: number): Socket {
    this.opened++;
    const socket = connectTo(this.#endpoint, attacker).resume();
    socket.write(beginnings[at % beginnings.length] ?? "");
    return socket;
  }
}

function describeTally({ reviews, reviewsAnswered, probes, probesAnswered, p99Ms }: Tally): string {
  const answered = `${reviewsAnswered} of ${reviews} reviews and ${probesAnswered} of ${probes} probes`;
  return `${answered} over new connections were answered, p99 ${p99Ms.toFixed(0)} ms`;
}

function failuresOf(tally: Tally): string[] {
  const { reviews, reviewsAnswered, probes, probesAnswered } = tally;
  const isServed = reviews > 0 && reviewsAnswered >= leastAnswered * reviews && probes > 0 && probesAnswered === probes;
  return isServed ? [] : [`too few answers: ${describeTally(tally)}`];
}
