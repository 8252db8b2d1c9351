/**
 * What the clients of one port may use, what happens to a connection that uses more, and how a client proves its identity.
 * Clients without a proof are unproven, and have fewer places at a port.
 */
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";

/**
 * How a connection was ended before its client did so: the port had too many and it was the newcomer, was idle, or made room for
 * another address (`crowded`); an answer was not read (`unread`); the handshake or a head took too long (`late`), or a body
 * (`slow`).
 */
export const cuts = ["too-many", "idle", "crowded", "unread", "late", "slow"] as const;
export type Cut = (typeof cuts)[number];

export interface ConnectionBounds {
  readonly mostConnections: number;
  /** How many of these unproven clients may have while every welcome client shows proof. */
  readonly mostUnproven: number;
  /** How many of these requests with a body may not take, so that a GET, such as a probe, finds one. */
  readonly placesForGets: number;
  /** Requests of one connection that wait for answers. Further ones are not read until one of them is answered. */
  readonly mostInFlight: number;
  /** How long a connection may be idle while there are nearly too many, in milliseconds. */
  readonly crowdedIdleMs: number;
  /** How long a client may take to take an answer that is there, in milliseconds. */
  readonly unreadMs: number;
  /** How long the TLS handshake and the head of the first request may take together, in milliseconds. */
  readonly firstHeadMs: number;
  /** How long a body may come at any rate until a request of its connection has been answered, in milliseconds. */
  readonly slowBodyMs: number;
}

/**
 * API servers, sources and scrapers together have some dozens, and an idle one costs 20 to 60 KB. Sources and API servers do not
 * pipeline at all: they wait for the answer before they send on.
 *
 * `firstHeadMs`: TLS 1.2 takes two and a half round trips to the head of a request. That is 0.75 s over a link of 300 ms, and
 * leaves a second for one lost packet. `slowBodyMs`: a usual review has 2 to 5 KB, so that two or three packets carry it, and
 * two that are lost one after the other are sent again within 3 s.
 */
export const usualBounds = {
  ...{ mostConnections: 1_000, mostUnproven: 100, placesForGets: 0, mostInFlight: 8, crowdedIdleMs: 5_000 },
  ...{ firstHeadMs: 2_000, slowBodyMs: 5_000 },
} as const;

export interface Proof {
  /** True where a request shows it, by its head alone. */
  isShown(request: IncomingMessage): boolean;
  /** True while every client that is welcome shows it: unproven clients have few places then. */
  isAsked(): boolean;
}

/** No request proves anything. */
export const noProof: Proof = { isShown: () => false, isAsked: () => false };

/** True if the client of a connection has shown a certificate of an authority in `TLS_CLIENT_CA_FILE`. */
export function hasCertificate(socket: Socket): boolean {
  return "authorized" in socket && socket.authorized === true;
}
