/**
 * What the clients of one port may hold: so many connections, so many requests on each, and an answer that nobody reads only for
 * a while. Whoever reaches a port may open connections; memory must not be theirs to fill.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** How a connection was ended before its client did so. */
export type Cut = "too-many" | "idle" | "pipelined" | "unread";

export interface ConnectionBounds {
  readonly mostConnections: number;
  /** Requests on one connection that are not answered yet. */
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
export const usualBounds = { mostConnections: 1_000, mostInFlight: 16, crowdedIdleMs: 5_000 } as const;

type Answer = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

const sentence = "Send it again later: too many requests wait on this connection.";
const turnedAway = [
  "HTTP/1.1 503 Service Unavailable",
  "content-type: text/plain; charset=UTF-8",
  `content-length: ${Buffer.byteLength(sentence)}`,
  "retry-after: 1",
  "connection: close",
  "",
  sentence,
].join("\r\n");

export class Connections {
  readonly #bounds: ConnectionBounds;
  readonly #onCut: (how: Cut) => void;
  /** Those without a request, the longest idle first: since when, in milliseconds. */
  readonly #idle = new Map<Socket, number>();
  /** The answers that are due on each connection, in the order in which they have to be sent. */
  readonly #due = new WeakMap<Socket, ServerResponse[]>();
  /** Those that are being ended for too many requests; true from the turn of the event loop on that comes after. */
  readonly #turnedAway = new WeakMap<Socket, boolean>();
  #open = 0;

  /** `onCut` hears of each connection that is ended here. */
  constructor(bounds: ConnectionBounds, onCut: (how: Cut) => void) {
    this.#bounds = bounds;
    this.#onCut = onCut;
  }

  /** A connection has come; over TLS it is known by another socket later, and is {@link idle} from then on. */
  opened(socket: Socket): void {
    this.#open++;
    socket.once("close", () => {
      this.#open--;
    });
    this.makeRoom();
  }

  /** One more had to be turned away. */
  dropped(): void {
    this.#onCut("too-many");
    this.makeRoom();
  }

  /** A connection that requests come on has none now. */
  idle(socket: Socket): void {
    if (socket.destroyed) return;
    this.#dueOn(socket);
    // Taken out and put in anew: the order of the map is that of time.
    this.#idle.delete(socket);
    this.#idle.set(socket, performance.now());
  }

  /** While there are nearly too many, those that have been idle for a while make room for the next. */
  makeRoom(): void {
    const { mostConnections, crowdedIdleMs } = this.#bounds;
    if (this.#open < 0.9 * mostConnections) return;
    const before = performance.now() - crowdedIdleMs;
    for (const [socket, sinceMs] of this.#idle) {
      if (sinceMs > before) return;
      this.#cut(socket, "idle");
    }
  }

  /** Has a request answered, unless too many on its connection wait for theirs. */
  handle(request: IncomingMessage, response: ServerResponse, answer: Answer): void {
    const { socket } = request;
    const due = this.#dueOn(socket);
    if (due.length >= this.#bounds.mostInFlight || this.#turnedAway.has(socket)) {
      this.#turnAway(socket, due);
      return;
    }
    this.#idle.delete(socket);
    due.push(response);
    response.once("close", () => {
      due.splice(due.indexOf(response), 1);
      const [next] = due;
      if (next === undefined) this.idle(socket);
      else if (next.writableEnded) this.#limitReading(socket, next);
    });
    void answer(request, response).then(() => {
      if (due[0] === response && response.writableEnded) this.#limitReading(socket, response);
    });
  }

  #dueOn(socket: Socket): ServerResponse[] {
    const known = this.#due.get(socket);
    if (known !== undefined) return known;
    const due: ServerResponse[] = [];
    this.#due.set(socket, due);
    socket.once("close", () => this.#idle.delete(socket));
    return due;
  }

  /** Only the answer that is due next is the client's to take: those behind it wait for us. */
  #limitReading(socket: Socket, response: ServerResponse): void {
    if (response.closed) return;
    const late = setTimeout(() => this.#cut(socket, "unread"), this.#bounds.unreadMs);
    response.once("close", () => clearTimeout(late));
  }

  /** The requests of one piece of the stream come in one turn, and are let go of; who sends on after that is cut off. */
  #turnAway(socket: Socket, [first]: readonly ServerResponse[]): void {
    const isLater = this.#turnedAway.get(socket);
    if (isLater) socket.destroy();
    if (isLater !== undefined) return;
    this.#turnedAway.set(socket, false);
    setImmediate(() => this.#turnedAway.set(socket, true));
    this.#onCut("pipelined");
    // What is sent now is taken for the answer to the first: the middle of another is no place for it.
    if (first?.headersSent === false) socket.end(turnedAway, () => socket.destroy());
    else socket.destroy();
  }

  #cut(socket: Socket, how: Cut): void {
    this.#idle.delete(socket);
    this.#onCut(how);
    socket.destroy();
  }
}
