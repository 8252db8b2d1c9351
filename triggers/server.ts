/** The HTTP server: events and reviews come in, health and metrics go out. */

import type { Server } from "node:http";
import { createServer as createSecureServer, type Server as SecureServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { createAdaptorServer } from "@hono/node-server";
import { type Context, Hono, type MiddlewareHandler } from "hono";
import { HTTPException } from "hono/http-exception";
import { type AdmissionDoorOptions, serveAdmissions } from "./admission.ts";
import { createBodyBudget } from "./body-budget.ts";
import { limitBody } from "./body-limit.ts";
import type { KeyPair } from "./certificate.ts";
import { createEventDoor, type EventDoorOptions, refused } from "./event.ts";
import type { EventResult, Reporting } from "./reporting.ts";

export interface AppOptions extends Omit<EventDoorOptions, "count">, Pick<AdmissionDoorOptions, "admissions"> {
  readonly reporting: Reporting;
  readonly bodyLimitBytes: number;
  /** Milliseconds of a clock that never jumps. */
  monotonicMs(): number;
}

const eventPaths = ["/", "/events"];
/** `/ready` is where rollout-operator's users look. */
const readyPaths = ["/readyz", "/ready"];
const ownPaths = [...eventPaths, ...readyPaths, "/healthz", "/metrics"];
/** Of events that are being sent at once: a quarter of the memory that a pod has, and the largest there are by the hundred. */
const mostEventBytes = 128 * 2 ** 20;
/** As rollout-operator has it: longer than a source or a probe waits between two requests on one connection. */
const idleMs = 180_000;

/** All doors and what is to be seen of them. Errors are one sentence of plain text; there is never a bare 500. */
export function createApp(options: AppOptions): Hono {
  const { reporting, notReady } = options;
  const app = createBareApp(options, "There is nothing here: POST CloudEvents to / or to /events.");
  app.get("/healthz", (c) => say(c, "alive\n", 200));
  for (const path of readyPaths) {
    app.get(path, (c) => {
      const reason = notReady();
      return reason === undefined ? say(c, "ready\n", 200) : say(c, `${reason}\n`, 503);
    });
  }
  app.get("/metrics", async (c) => {
    const { registry } = reporting.metrics;
    return c.body(await registry.metrics(), 200, { "content-type": registry.contentType });
  });
  const tooLarge = (c: Context) => {
    reporting.event("malformed");
    return c.text(`The body is larger than ${options.bodyLimitBytes} bytes.`, 413);
  };
  const limit = limitBody(options.bodyLimitBytes, tooLarge);
  const doorOptions = { ...options, count: (result: EventResult) => reporting.event(result) };
  const receiveEvent = createEventDoor(doorOptions);
  const budget = createBodyBudget({
    ...options,
    mostBytes: mostEventBytes,
    refuse: () => refused(doorOptions, "too much is being sent at once").getResponse(),
  });
  for (const path of eventPaths) app.post(path, budget, limit, receiveEvent);
  serveAdmissions(app, options);
  return app;
}

/** What the API server alone has to reach: the reviews, and nothing else. */
export function createAdmissionApp(options: AppOptions): Hono {
  const app = createBareApp(options, "There is nothing here: AdmissionReviews are posted to /admission/….");
  serveAdmissions(app, options);
  return app;
}

function createBareApp(options: AppOptions, nothingHere: string): Hono {
  const app = new Hono();
  app.use(measure(options));
  app.notFound((c) => c.text(nothingHere, 404));
  app.onError((error, c) => {
    if (error instanceof HTTPException) return error.res ?? c.text(error.message, error.status);
    options.reporting.log("error", `a request could not be handled: ${error.message}`, {
      path: c.req.path,
      err: error,
    });
    // A source gives up after a plain 500 and tries again after a 503 (DESIGN section 2).
    return c.text("Send it again later: it could not be handled now.", 503, { "retry-after": "1" });
  });
  return app;
}

function measure({ reporting, admissions, monotonicMs }: AppOptions): MiddlewareHandler {
  const paths = new Set([...ownPaths, ...admissions.flatMap(({ definition }) => definition.paths)]);
  return async function measureRequest(c, next) {
    const { method } = c.req;
    const route = paths.has(c.req.path) ? routeOf(c.req.path) : "notfound";
    const startedMs = monotonicMs();
    reporting.requestBegan(method, route);
    await next();
    const seconds = (monotonicMs() - startedMs) / 1000;
    const requestBytes = Number(c.req.header("content-length") ?? 0) || 0;
    const responseBytes = await lengthOf(c.res);
    reporting.requestEnded({ method, route, status: c.res.status, seconds, requestBytes, responseBytes });
  };
}

/** Probes come before any event: what nobody has to count costs a start less. */
function say(c: Context, text: string, status: 200 | 503): Response {
  return c.text(text, status, { "content-length": String(Buffer.byteLength(text)) });
}

/** A copy is read only where nobody has counted: that costs as much as a whole review. */
async function lengthOf(response: Response): Promise<number> {
  if (response.status === 204) return 0;
  const told = response.headers.get("content-length");
  if (told !== null) return Number(told);
  return response.body === null ? 0 : (await response.clone().arrayBuffer()).byteLength;
}

/** As rollout-operator labels its routes. */
function routeOf(path: string): string {
  return (
    path
      .replaceAll(/[^a-z0-9]+/gi, "_")
      .replaceAll(/^_|_$/g, "")
      .toLowerCase() || "root"
  );
}

export interface Listening {
  readonly port: number;
  /** Presents another certificate from now on; connections that there are go on. Only where there is one already. */
  present(pair: KeyPair): void;
  /** Takes no more connections, and resolves when the last answer is out. What is not by then is cut off with the signal. */
  close(cutOff: AbortSignal): Promise<void>;
}

export interface ListenOptions {
  /** 0: any free port. */
  readonly port: number;
  /** How long a client may take to send a whole request, in milliseconds. */
  readonly requestTimeoutMs: number;
  /** Over TLS, with this certificate; plain when absent. */
  readonly pair?: KeyPair;
}

/** Listens on all interfaces. Rejects when the port cannot be had. */
export async function listen(app: Hono, { port, requestTimeoutMs, pair }: ListenOptions): Promise<Listening> {
  const serverOptions = {
    requestTimeout: requestTimeoutMs,
    headersTimeout: requestTimeoutMs,
    keepAliveTimeout: idleMs,
    connectionsCheckingInterval: Math.min(requestTimeoutMs, 1_000),
  };
  const secured = pair && {
    createServer: createSecureServer,
    serverOptions: { ...serverOptions, ...contextOf(pair), handshakeTimeout: requestTimeoutMs },
  };
  const server = createAdaptorServer({ fetch: app.fetch, serverOptions, ...secured }) as Server | SecureServer;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, () => {
      server.off("error", reject);
      resolve();
    });
  });
  const sockets = rememberSockets(server);
  let closing = false;
  // A connection that was busy when the server closed is kept alive by Node after its answer, and would keep us too.
  server.on("request", (_request, response) => {
    response.once("close", () => closing && server.closeIdleConnections());
  });
  return {
    port: (server.address() as AddressInfo).port,
    present(other) {
      if ("setSecureContext" in server) server.setSecureContext(contextOf(other));
    },
    async close(cutOff) {
      closing = true;
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      const cut = () => {
        server.closeAllConnections();
        // Those in the middle of a TLS handshake are none that HTTP knows of.
        for (const socket of sockets) socket.destroy();
      };
      cutOff.addEventListener("abort", cut, { once: true });
      if (cutOff.aborted) cut();
      else server.closeIdleConnections();
      await closed;
    },
  };
}

/**
 * Keys that are agreed on anew for each connection (ECDHE), and encryption that also authenticates (AEAD): what is recorded today
 * cannot be read with a key that is stolen tomorrow. Every API server that speaks TLS 1.2 knows these.
 */
const protocols = {
  minVersion: "TLSv1.2",
  maxVersion: "TLSv1.3",
  ciphers: [
    ...["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"],
    ...["ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305"],
    ...["ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-CHACHA20-POLY1305"],
  ].join(":"),
} as const;

function contextOf({ cert, key }: KeyPair) {
  return { cert, key, ...protocols } as const;
}

function rememberSockets(server: Server | SecureServer): ReadonlySet<Socket> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  return sockets;
}
