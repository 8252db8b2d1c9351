/** The bounds of a small HTTP server on a node or in a pod: no client makes it wait, or costs it more than a little memory. */
import type { Server, ServerOptions } from "node:http";
import type { AddressInfo } from "node:net";

export interface ServerBounds {
  /** Any further connection is closed at once. */
  readonly mostConnections: number;
  /** The most bytes of the path and the headers of a request. */
  readonly mostHeaderBytes: number;
  /** How long a request may take to arrive, and how long its connection may then be quiet, each in milliseconds. */
  readonly timeMs: number;
}

/** The options with which such a server is created. */
export function boundedOptions({ timeMs, mostHeaderBytes }: ServerBounds): ServerOptions {
  return {
    headersTimeout: timeMs,
    requestTimeout: timeMs,
    connectionsCheckingInterval: timeMs / 4,
    maxHeaderSize: mostHeaderBytes,
  };
}

/**
 * Sets the other bounds and listens; each connection has one request. Resolves to the port. Rejects with the error of the system:
 * EADDRINUSE while another process listens there.
 *
 * @param at port 0 for any free one; without a host all addresses, of both families
 */
export async function listenBounded(
  server: Server,
  at: { readonly port: number; readonly host?: string },
  { mostConnections, timeMs }: ServerBounds,
): Promise<number> {
  server.timeout = timeMs;
  server.maxConnections = mostConnections;
  server.maxRequestsPerSocket = 1;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once("error", reject);
  server.listen(at, resolve);
  await promise;
  server.off("error", reject);
  return (server.address() as AddressInfo).port;
}

/** Ends all connections, and resolves once the port is free. */
export async function closeServer(server: Server): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  server.close(() => resolve());
  server.closeAllConnections();
  await promise;
}
