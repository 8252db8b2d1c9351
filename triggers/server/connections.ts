/**
 * Limits what the clients of one port may use: the number of connections, the requests on each, and how long an answer waits
 * for its client to read it. Any client that reaches a port may open connections, and must not fill the memory by them.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { Deadlines } from "../../functions/shared/clock/deadlines.ts";
import { waitingTime } from "../../functions/shared/clock/process-clock.ts";
import { type ClientConnection, type Exchange, standingOf } from "./client-connection.ts";
import { type ConnectionBounds, type Cut, hasCertificate, noProof, type Proof } from "./connection-bounds.ts";
import { addressOf, type Crowd, chooseToGo, placeOf } from "./crowd.ts";
import { isBare, RequestFeed } from "./request-feed.ts";

/** Bytes in a millisecond: 128 kbit/s. An API server waits 30 s at most, so that a review of 1 MiB has to come faster. */
const slowestBody = 16_384 / 1_000;

const never = Number.POSITIVE_INFINITY;

/** In milliseconds: how long the list of stalled connections is used again. To check a thousand sockets takes a millisecond. */
const stalledEveryMs = 250;

/** After a connection was opened its request comes within this time, or the client has opened it for later, in milliseconds. */
const unusedMs = 1_000;

type RequestHandler = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

export class ClientConnections {
  readonly #bounds: ConnectionBounds;
  readonly #onCut: (how: Cut) => void;
  readonly #lateResponse: string;
  readonly #proof: Proof;
  #unproven = 0;
  /** Connections without a request, the longest idle first: since when, in milliseconds. */
  readonly #idle = new Map<ClientConnection, number>();
  /** By their addresses and ports, because after a TLS handshake nothing else shows that two sockets are one connection. */
  readonly #opened = new Map<string, ClientConnection>();
  /** By address. */
  readonly #crowds = new Map<string, Crowd>();
  readonly #known = new WeakMap<Socket, ClientConnection>();
  /** Connections on which a body is coming; some of these may be whole by now. */
  readonly #sending = new Set<ClientConnection>();
  #stalledAsOfMs = 0;
  readonly #unread = new Deadlines(waitingTime);
  readonly #coming = new Deadlines(waitingTime);
  readonly #unanswered = new Set<ServerResponse>();
  #isTurningAway = false;

  /** `onCut` is called for each connection that is closed here. `lateResponse`: the answer to a request that comes too slowly. */
  constructor(bounds: ConnectionBounds, onCut: (how: Cut) => void, lateResponse: string, proof = noProof) {
    this.#bounds = bounds;
    this.#onCut = onCut;
    this.#lateResponse = lateResponse;
    this.#proof = proof;
  }

  /** A connection was opened; over TLS it is known by another socket after the handshake. It is idle until a request comes. */
  opened(socket: Socket): void {
    const place = placeOf(socket);
    const connection = this.#connect(socket);
    this.#opened.set(place, connection);
    socket.once("close", () => {
      this.#leave(connection);
      if (this.#opened.get(place) === connection) this.#opened.delete(place);
    });
    this.#makeRoom(connection);
    if (socket.destroyed) return;
    this.#coming.add(connection);
    this.#rest(connection);
  }

  #connect(socket: Socket): ClientConnection {
    const nowMs = waitingTime.monotonicMs();
    const address = addressOf(socket.remoteAddress);
    const crowd = this.#crowds.get(address) ?? { unproven: 0 };
    this.#crowds.set(address, crowd);
    crowd.unproven++;
    this.#unproven++;
    const known = {
      socket,
      address,
      crowd,
      exchange: undefined,
      partSeenMs: undefined,
      hasLeft: false,
      isCounted: false,
    };
    const placed = {
      standing: "fresh",
      isStalled: false,
      isAnswered: false,
      isProved: false,
      sinceMs: nowMs,
      bytesBefore: 0,
    } as const;
    const deadlineMs = nowMs + this.#bounds.firstHeadMs;
    // Bytes that came while this process was busy are read before the connection is checked.
    const late = () => void setImmediate(() => this.#endLate(connection));
    const connection: ClientConnection = { ...known, ...placed, deadlineMs, late };
    this.#known.set(socket, connection);
    return connection;
  }

  /** Requests can come on a connection from now on. Call it after the HTTP server has begun to read the socket. */
  ready(socket: Socket): void {
    if (socket.destroyed) return;
    const { mostInFlight } = this.#bounds;
    const connection = this.#opened.get(placeOf(socket)) ?? this.#connect(socket);
    const due: ServerResponse[] = [];
    // The body of a request that was begun is still read, because its answer is being waited for.
    const feed = new RequestFeed(socket, () => due.length < mostInFlight || exchange.last?.complete === false);
    const late = () => this.#cut(connection, "unread");
    const exchange: Exchange = { due, feed, last: undefined, lastResponse: undefined, deadlineMs: never, late };
    connection.socket = socket;
    connection.exchange = exchange;
    if (hasCertificate(socket)) this.#prove(connection);
    this.#known.set(socket, connection);
    socket.once("close", () => this.#leave(connection));
    this.#rest(connection);
  }

  /** Answers a request. */
  handle(request: IncomingMessage, response: ServerResponse, answer: RequestHandler): void {
    const { socket } = request;
    const connection = this.#known.get(socket);
    const exchange = connection?.exchange;
    if (connection === undefined || exchange === undefined) {
      throw new Error("a request came on a connection that was never ready");
    }
    const { due, feed } = exchange;
    this.#idle.delete(connection);
    if (!connection.isProved && this.#proof.isShown(request)) this.#prove(connection);
    due.push(response);
    exchange.last = request;
    this.#begin(connection, request);
    if (socket.destroyed) return;
    this.#unanswered.add(response);
    if (this.#isTurningAway) response.shouldKeepAlive = false;
    response.once("close", () => {
      this.#unanswered.delete(response);
      const at = due.indexOf(response);
      due.splice(at, 1);
      if (at === 0) {
        exchange.deadlineMs = never;
        this.#unread.delete(exchange);
      }
      if (request.complete && response.writableFinished) this.#trust(connection);
      const [next] = due;
      if (next === undefined) {
        this.#beginRequest(connection);
        this.#rest(connection);
      }
      if (next?.writableEnded && at === 0) this.#limitReading(exchange, next);
      feed.feed();
      this.#writeLastResponse(socket, exchange);
    });
    void answer(request, response).then(() => {
      if (due[0] === response && response.writableEnded) this.#limitReading(exchange, response);
    });
  }

  /** The head of a request has come. An unproven client's first body must come at a minimum rate. */
  #begin(connection: ClientConnection, request: IncomingMessage): void {
    this.#beginRequest(connection);
    if (isBare(request)) {
      this.#coming.delete(connection);
      return;
    }
    if (!connection.isAnswered && !connection.isProved) {
      connection.deadlineMs = connection.sinceMs + this.#bounds.slowBodyMs;
      this.#coming.add(connection);
    }
    if (this.#bounds.placesForGets > 0) this.#keepPlacesForGets(connection);
  }

  #keepPlacesForGets(sender: ClientConnection): void {
    const most = this.#bounds.mostConnections - this.#bounds.placesForGets;
    this.#sending.add(sender);
    if (this.#sending.size <= most) return;
    for (const one of this.#sending) if (one.exchange?.last?.complete !== false) this.#sending.delete(one);
    if (this.#sending.size > most) this.#endFor(sender, this.#sending, most);
  }

  /** The client has proved its identity: from now on it is not unproven. */
  #prove(connection: ClientConnection): void {
    connection.isProved = true;
    connection.crowd.unproven--;
    this.#unproven--;
    this.#coming.delete(connection);
  }

  /** Records what the connection does from now on. */
  #beginRequest(connection: ClientConnection): void {
    connection.sinceMs = waitingTime.monotonicMs();
    connection.bytesBefore = connection.socket.bytesRead;
    connection.partSeenMs = undefined;
    connection.isStalled = false;
  }

  /** One of its requests was answered as a whole: from now on its requests have the usual times. */
  #trust(connection: ClientConnection): void {
    connection.isAnswered = true;
    this.#coming.delete(connection);
  }

  /** Checks an unproven client whose time is over. Its connection stays if an answer is due, or if its body comes fast enough. */
  #endLate(connection: ClientConnection): void {
    const { socket, exchange, isAnswered, isProved, sinceMs, bytesBefore } = connection;
    if (socket.destroyed || isAnswered || isProved) return;
    const last = exchange?.last;
    const mayTakeMs = this.#bounds.slowBodyMs + (socket.bytesRead - bytesBefore) / slowestBody;
    // Without a handshake, or a byte of HTTP, there is nothing to answer.
    if (exchange === undefined || socket.bytesRead === 0) this.#cut(connection, "late");
    else if (last === undefined) this.#endWithResponse(connection, "late");
    else if (last.complete) this.#coming.delete(connection);
    else if (sinceMs + mayTakeMs <= waitingTime.monotonicMs()) this.#endWithResponse(connection, "slow");
    else {
      connection.deadlineMs = sinceMs + mayTakeMs;
      this.#coming.add(connection);
    }
  }

  /**
   * Ends a connection whose request Node has found to take longer than a request may. Node finds it before this class does if
   * that is less than the time for a first head, and on a connection that was answered before.
   */
  endTimedOut(socket: Socket): void {
    const connection = this.#known.get(socket);
    const isBody = connection?.exchange?.last?.complete === false;
    if (connection === undefined) this.refuse(socket, this.#lateResponse);
    else this.#endWithResponse(connection, isBody ? "slow" : "late");
  }

  #endWithResponse(connection: ClientConnection, how: Cut): void {
    this.#count(connection, how);
    this.refuse(connection.socket, this.#lateResponse);
  }

  #count(connection: ClientConnection, how: Cut): void {
    if (!connection.isCounted) this.#onCut(how);
    connection.isCounted = true;
  }

  /**
   * From now on each answer ends its connection, also an answer that is due already: its client connects anew, and a Service
   * leads that to another replica. Idle connections stay open, because a client may be writing a request to one of them.
   */
  refuseNew(): void {
    this.#isTurningAway = true;
    for (const response of this.#unanswered) response.shouldKeepAlive = false;
  }

  /**
   * Closes each connection that was opened a second ago, and on which nothing ever came. Clients such as API servers open one
   * for later and do not use it. For Node such a connection waits for its request, and is not idle.
   */
  endUnused(): void {
    const before = performance.now() - unusedMs;
    for (const [{ socket, exchange }, sinceMs] of this.#idle) {
      if (sinceMs > before) return;
      // Over TLS nothing has come if nothing was decrypted. A connection without an exchange is in its handshake.
      if (socket.bytesRead === 0 && exchange !== undefined) socket.destroy();
    }
  }

  /** Closes a connection on which bytes came that are no request: with this message, after the answers that are due before. */
  refuse(socket: Socket, response: string): void {
    const exchange = this.#known.get(socket)?.exchange;
    if (exchange === undefined) {
      socket.end(response, () => socket.destroy());
      return;
    }
    exchange.lastResponse = response;
    this.#writeLastResponse(socket, exchange);
  }

  /** The request that broke off may have begun to be answered, and would wait for ever. */
  #writeLastResponse(socket: Socket, { due: [first], last, lastResponse }: Exchange): void {
    if (lastResponse === undefined) return;
    const isBrokenOff = first !== undefined && first.req === last && !last.complete;
    if (first !== undefined && !isBrokenOff) return;
    if (first?.headersSent || !socket.writable) socket.destroy();
    else socket.end(lastResponse, () => socket.destroy());
  }

  /** Connections that have been idle for a while make room. If that is not enough, one of the most crowded address does. */
  #makeRoom(newcomer: ClientConnection): void {
    const { mostConnections, mostUnproven, crowdedIdleMs } = this.#bounds;
    // Many may be open when proof is first required: each newcomer closes some of them, so that none waits for all.
    for (let ended = 0; ended < 8 && this.#unproven > mostUnproven && this.#proof.isAsked(); ended++)
      this.#endFor(newcomer, this.#opened.values(), mostUnproven);
    if (newcomer.socket.destroyed) return;
    if (this.#opened.size <= 0.9 * mostConnections) return;
    const before = performance.now() - crowdedIdleMs;
    for (const [connection, sinceMs] of this.#idle) {
      if (sinceMs > before) break;
      this.#cut(connection, "idle");
    }
    if (this.#opened.size > mostConnections) this.#endFor(newcomer, this.#opened.values(), mostConnections);
  }

  /** Closes one of these for the newcomer; or the newcomer, if its address is the most crowded one and all the others work. */
  #endFor(newcomer: ClientConnection, among: Iterable<ClientConnection>, most: number): void {
    const nowMs = waitingTime.monotonicMs();
    const all = [...among];
    if (this.#stalledAsOfMs + stalledEveryMs <= nowMs) {
      this.#stalledAsOfMs = nowMs;
      for (const one of this.#opened.values()) one.isStalled = this.#isStalled(one, nowMs);
    }
    for (const one of all) one.standing = standingOf(one);
    const chosen = chooseToGo(all, newcomer, most);
    const isUnused = chosen?.standing === "fresh" && chosen.socket.bytesRead === 0;
    if (chosen === undefined) this.#cut(newcomer, "too-many");
    else this.#cut(chosen, isUnused || chosen.standing === "idle" ? "idle" : "crowded");
  }

  /** Whether its client sends, or reads, more slowly than an honest one does. */
  #isStalled(connection: ClientConnection, nowMs: number): boolean {
    const { socket, exchange, sinceMs, bytesBefore } = connection;
    const { firstHeadMs: patienceMs, unreadMs } = this.#bounds;
    if (exchange?.last === undefined) return false;
    const bytes = socket.bytesRead - bytesBefore;
    if (!exchange.last.complete) return sinceMs + patienceMs + bytes / slowestBody <= nowMs;
    if (exchange.due.length > 0) return exchange.deadlineMs - unreadMs + patienceMs <= nowMs;
    if (bytes > 0) connection.partSeenMs ??= nowMs;
    return connection.partSeenMs !== undefined && connection.partSeenMs + patienceMs <= nowMs;
  }

  #rest(connection: ClientConnection): void {
    const { socket } = connection;
    if (socket.destroyed) return;
    // Removed and added again, because the order of the map is that of time.
    this.#idle.delete(connection);
    this.#idle.set(connection, performance.now());
  }

  /** Only the answer that is due next can wait for the client. Later answers wait for this process. */
  #limitReading(exchange: Exchange, response: ServerResponse): void {
    if (response.closed) return;
    exchange.deadlineMs = waitingTime.monotonicMs() + this.#bounds.unreadMs;
    this.#unread.add(exchange);
  }

  #cut(connection: ClientConnection, how: Cut): void {
    this.#leave(connection);
    this.#opened.delete(placeOf(connection.socket));
    this.#count(connection, how);
    connection.socket.destroy();
  }

  #leave(connection: ClientConnection): void {
    this.#idle.delete(connection);
    this.#sending.delete(connection);
    this.#coming.delete(connection);
    if (connection.hasLeft) return;
    connection.hasLeft = true;
    const { crowd, address, isProved } = connection;
    if (!isProved) {
      crowd.unproven--;
      this.#unproven--;
    }
    if (crowd.unproven === 0 && this.#crowds.get(address) === crowd) this.#crowds.delete(address);
  }
}
