/**
 * What the clients of one port may hold: so many connections, so many requests on each, and an answer that nobody reads only for
 * a while. Whoever reaches a port may open connections; memory must not be theirs to fill.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { waitingTime } from "../../functions/shared/kubernetes/clock/process-clock.ts";
import { Deadlines, type HasDeadline } from "../../functions/shared/review/deadlines.ts";
import { RequestFeed } from "./request-feed.ts";

/** How a connection was ended before its client did so. */
export type Cut = "too-many" | "idle" | "unread";

export interface ConnectionBounds {
  readonly mostConnections: number;
  /** Requests on one connection that are not answered yet: others are not read before. */
  readonly mostInFlight: number;
  /** How long a connection may be idle while there are nearly too many, in milliseconds. */
  readonly crowdedIdleMs: number;
  /** How long a client may take to take an answer that is there, in milliseconds. */
  readonly unreadMs: number;
}

/**
 * API servers, sources and scrapers together have some dozens, and an idle one costs 20 to 60 KB. Sources and API servers do not
 * pipeline at all: they wait for the answer before they send on.
 */
export const usualBounds = { mostConnections: 1_000, mostInFlight: 8, crowdedIdleMs: 5_000 } as const;

/** After a connection was opened its request comes within this time, or it was opened for later, in milliseconds. */
const unusedMs = 1_000;

type Answer = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

/** What goes on on a connection. */
interface Exchange extends HasDeadline {
  /** The answers that are due, in the order in which they have to be sent. */
  readonly due: ServerResponse[];
  readonly feed: RequestFeed;
  /** The request that came last. */
  last: IncomingMessage | undefined;
  /** What is said when all answers before it are sent: nothing more is read. */
  lastWords: string | undefined;
  /** Until when the answer that is due next is to be taken, once it is there. */
  deadlineMs: number;
}

export class Connections {
  readonly #bounds: ConnectionBounds;
  readonly #onCut: (how: Cut) => void;
  /** Those without a request, the longest idle first: since when, in milliseconds. */
  readonly #idle = new Map<Socket, number>();
  /** By where they come from: after a TLS handshake nothing else tells that two sockets are one connection. */
  readonly #opened = new Map<string, Socket>();
  readonly #exchanges = new WeakMap<Socket, Exchange>();
  readonly #unread = new Deadlines(waitingTime);
  readonly #unanswered = new Set<ServerResponse>();
  #isTurningAway = false;

  /** `onCut` hears of each connection that is ended here. */
  constructor(bounds: ConnectionBounds, onCut: (how: Cut) => void) {
    this.#bounds = bounds;
    this.#onCut = onCut;
  }

  /** A connection has come; over TLS it is known by another socket after the handshake. It is idle until a request comes. */
  opened(socket: Socket): void {
    const place = placeOf(socket);
    this.#opened.set(place, socket);
    socket.once("close", () => {
      this.#idle.delete(socket);
      if (this.#opened.get(place) === socket) this.#opened.delete(place);
    });
    this.#makeRoom(socket);
    this.#rest(socket);
  }

  /** Requests can come on a connection from now on; it is to be told of after the HTTP server has begun to read it. */
  ready(socket: Socket): void {
    if (socket.destroyed) return;
    const { mostInFlight } = this.#bounds;
    const due: ServerResponse[] = [];
    // The body of a request that was begun is read all the same: what waits for it is its answer.
    const feed = new RequestFeed(socket, () => due.length < mostInFlight || exchange.last?.complete === false);
    const late = () => this.#cut(socket, "unread");
    const exchange: Exchange = { due, feed, last: undefined, lastWords: undefined, deadlineMs: 0, late };
    this.#exchanges.set(socket, exchange);
    socket.once("close", () => this.#idle.delete(socket));
    const raw = this.#opened.get(placeOf(socket));
    if (raw !== undefined) this.#idle.delete(raw);
    this.#rest(socket);
  }

  /** Has a request answered. */
  handle(request: IncomingMessage, response: ServerResponse, answer: Answer): void {
    const { socket } = request;
    const exchange = this.#exchanges.get(socket);
    if (exchange === undefined) throw new Error("a request came on a connection that was never ready");
    const { due, feed } = exchange;
    this.#idle.delete(socket);
    due.push(response);
    exchange.last = request;
    this.#unanswered.add(response);
    if (this.#isTurningAway) response.shouldKeepAlive = false;
    response.once("close", () => {
      this.#unanswered.delete(response);
      const at = due.indexOf(response);
      due.splice(at, 1);
      if (at === 0) this.#unread.delete(exchange);
      const [next] = due;
      if (next === undefined) this.#rest(socket);
      else if (next.writableEnded && at === 0) this.#limitReading(exchange, next);
      feed.feed();
      this.#sayLastWords(socket, exchange);
    });
    void answer(request, response).then(() => {
      if (due[0] === response && response.writableEnded) this.#limitReading(exchange, response);
    });
  }

  /**
   * From now on each answer ends its connection, also an answer that is due already: its client connects anew, and a Service
   * leads that to another replica. Idle connections stay open, because a client may be writing a request to one of them.
   */
  turnAway(): void {
    this.#isTurningAway = true;
    for (const response of this.#unanswered) response.shouldKeepAlive = false;
  }

  /**
   * Ends each connection that was opened a second ago, and on which nothing ever came. Clients such as API servers open one for
   * later and do not use it. To Node such a connection waits for its request, and is not idle.
   */
  endUnused(): void {
    const before = performance.now() - unusedMs;
    for (const [socket, sinceMs] of this.#idle) {
      if (sinceMs > before) return;
      // Over TLS nothing has come where nothing was decrypted. One without an exchange is in its handshake.
      if (socket.bytesRead === 0 && this.#exchanges.has(socket)) socket.destroy();
    }
  }

  /** Ends a connection on which something came that is no request: with these words, behind the answers that are due before. */
  refuse(socket: Socket, words: string): void {
    const exchange = this.#exchanges.get(socket);
    if (exchange === undefined) {
      socket.end(words, () => socket.destroy());
      return;
    }
    exchange.lastWords = words;
    this.#sayLastWords(socket, exchange);
  }

  /** The request that broke off may have begun to be answered: it waits for what never comes. */
  #sayLastWords(socket: Socket, { due: [first], last, lastWords }: Exchange): void {
    if (lastWords === undefined) return;
    const isBrokenOff = first !== undefined && first.req === last && !last.complete;
    if (first !== undefined && !isBrokenOff) return;
    if (first?.headersSent || !socket.writable) socket.destroy();
    else socket.end(lastWords, () => socket.destroy());
  }

  /** Those that have been idle for a while, or for the longest time, make room; where nobody is idle, who came last goes. */
  #makeRoom(newcomer: Socket): void {
    const { mostConnections, crowdedIdleMs } = this.#bounds;
    if (this.#opened.size <= 0.9 * mostConnections) return;
    const before = performance.now() - crowdedIdleMs;
    let surplus = this.#opened.size - mostConnections;
    for (const [socket, sinceMs] of this.#idle) {
      if (sinceMs > before && surplus <= 0) return;
      this.#cut(socket, "idle");
      surplus--;
    }
    if (surplus > 0) this.#cut(newcomer, "too-many");
  }

  #rest(socket: Socket): void {
    if (socket.destroyed) return;
    // Taken out and put in anew: the order of the map is that of time.
    this.#idle.delete(socket);
    this.#idle.set(socket, performance.now());
  }

  /** Only the answer that is due next is the client's to take: those behind it wait for us. */
  #limitReading(exchange: Exchange, response: ServerResponse): void {
    if (response.closed) return;
    exchange.deadlineMs = waitingTime.monotonicMs() + this.#bounds.unreadMs;
    this.#unread.add(exchange);
  }

  #cut(socket: Socket, how: Cut): void {
    this.#idle.delete(socket);
    this.#opened.delete(placeOf(socket));
    this.#onCut(how);
    socket.destroy();
  }
}

function placeOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
