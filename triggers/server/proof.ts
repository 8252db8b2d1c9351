/** How a client proves who it is. Clients without a proof are strangers, and have fewer places at a port. */
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";

export interface Proof {
  /** True where a request shows it, by its head alone. */
  isShown(request: IncomingMessage): boolean;
  /** True while every client that is welcome shows it: strangers have few places then. */
  isAsked(): boolean;
}

/** No request proves anything. */
export const noProof: Proof = { isShown: () => false, isAsked: () => false };

/** True where the client of a connection has shown a certificate of an authority in `TLS_CLIENT_CA_FILE`. */
export function hasCertificate(socket: Socket): boolean {
  return "authorized" in socket && socket.authorized === true;
}
