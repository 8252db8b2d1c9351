/** What the server knows of one connection, and of what is under way on it. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { HasDeadline } from "../../functions/shared/clock/deadlines.ts";
import type { ConnectionStanding, Placed } from "./crowd.ts";
import type { RequestFeed } from "./request-feed.ts";

/** The state of a connection from when requests can come on it. */
export interface Exchange extends HasDeadline {
  /** The answers that are due, in the order in which they have to be sent. */
  readonly due: ServerResponse[];
  readonly feed: RequestFeed;
  /** The request that came last. */
  last: IncomingMessage | undefined;
  /** The last answer, sent after all that are due before it. Nothing more is read then. */
  lastResponse: string | undefined;
  /** Monotonic time until which the client must have taken the answer that is due next, once it is there. */
  deadlineMs: number;
}

/** A connection. Its deadline is that of an unproven client's first request: of the head, and then of the body. */
export interface ClientConnection extends HasDeadline, Placed {
  /** Over TLS another one takes its place after the handshake. */
  socket: Socket;
  exchange: Exchange | undefined;
  /** As it was when a place was last lacking. */
  standing: ConnectionStanding;
  isStalled: boolean;
  readonly address: string;
  hasLeft: boolean;
  /** Its end is counted: several limits may be passed before its socket is closed. */
  isCounted: boolean;
  isAnswered: boolean;
  isProved: boolean;
  /** Monotonic time at which it was opened, its last request came, or its last answer was out. */
  sinceMs: number;
  /** What had been read by then. */
  bytesBefore: number;
  /** Monotonic time at which a part of the next head was first seen; undefined if none was. */
  partSeenMs: number | undefined;
  deadlineMs: number;
}

/** How it counts when a port has too many connections. */
export function standingOf({ exchange, isAnswered, isStalled }: ClientConnection): ConnectionStanding {
  if (exchange?.last === undefined) return "fresh";
  if (isStalled) return "stalled";
  if (!exchange.last.complete) return isAnswered ? "moving" : "fresh";
  const [first] = exchange.due;
  if (first === undefined) return "idle";
  return first.writableEnded ? "moving" : "working";
}
