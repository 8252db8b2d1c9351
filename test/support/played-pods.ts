/** An HTTP server that plays the pods of a test, and a client whose resolver leads all their names to it. */
import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo, LookupFunction, Socket } from "node:net";
import { text } from "node:stream/consumers";
import { processClock } from "../../functions/shared/clock/process-clock.ts";
import { type ConnectedPods, type ConnectPodsOptions, connectPods } from "../../functions/shared/http/connections.ts";
import { type PodAddress, PodHttpError, type PodRequest } from "../../functions/shared/http/pod-http.ts";

export interface Asked {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly body: string;
  /** Number of requests before this one. */
  readonly index: number;
}

export interface PlayedPods {
  readonly address: PodAddress;
  readonly pods: ConnectedPods;
  readonly asked: readonly Pick<Asked, "request" | "body">[];
  /** The names that the client resolved, in order. */
  readonly resolved: readonly string[];
  /** All connections that were opened, in order. */
  readonly sockets: readonly Socket[];
  /** Sets how requests are answered from now on. */
  answer(handler: (asked: Asked) => unknown): void;
}

export interface PlayOptions extends Partial<ConnectPodsOptions> {
  /** Certificate and key for https. */
  readonly secure?: { readonly cert: string; readonly key: string };
}

/** The clock of this process, with the methods of `Cluster`. */
export const clock: ConnectPodsOptions["clock"] = {
  monotonicMs: () => processClock.nowMs(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      const finish = () => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(finish, ms);
      signal?.addEventListener("abort", finish, { once: true });
    }),
};

export const get: PodRequest = { method: "GET", path: "/ready" };
export const post: PodRequest = { method: "POST", path: "/prepare" };

/** Runs a test against a server of its own. */
export async function withPods(options: PlayOptions, run: (played: PlayedPods) => Promise<void>): Promise<void> {
  const { secure, ...connectOptions } = options;
  const asked: Asked[] = [];
  const [resolved, sockets]: [string[], Socket[]] = [[], []];
  let handler: (asked: Asked) => unknown = ({ response }) => response.end("ok");
  const listener: RequestListener = async (request, response) => {
    const index = asked.length;
    const one = { request, response, body: "", index };
    asked.push(one);
    const body = await text(request);
    asked[index] = { ...one, body };
    handler({ ...one, body });
  };
  const server = secure === undefined ? createServer(listener) : createSecureServer(secure, listener);
  server.on("connection", (socket: Socket) => sockets.push(socket));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const lookup: LookupFunction = (host, { all }, found) => {
    resolved.push(host);
    if (all) found(null, [{ address: "127.0.0.1", family: 4 }]);
    else found(null, "127.0.0.1", 4);
  };
  const pods = connectPods({ clock, userAgent: "sluice/0.0.0 (unit)", lookup, ...connectOptions });
  const { port } = server.address() as AddressInfo;
  const scheme = secure === undefined ? "http" : "https";
  const address: PodAddress = { scheme, pod: "web-0", service: "web", namespace: "ns", group: "web", port };
  const answer = (next: typeof handler) => {
    handler = next;
  };
  try {
    await run({ address, pods, asked, resolved, sockets, answer });
  } finally {
    await pods.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

/** The PodHttpError that the promise rejects with. */
export async function rejection(promise: Promise<unknown>): Promise<PodHttpError> {
  try {
    await promise;
  } catch (error) {
    assert.ok(error instanceof PodHttpError, `not a PodHttpError: ${error}`);
    return error;
  }
  assert.fail("it did not reject");
}

/** Resolves when `isSo` holds. The test's own time limit ends the wait. */
export async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 5));
}
