/** The HTTP server: events and reviews come in, health and metrics go out. */

import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createSecureServer, type Server as SecureServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { getRequestListener } from "@hono/node-server";
import { type Context, Hono, type MiddlewareHandler } from "hono";
import { HTTPException } from "hono/http-exception";
import { getPath } from "hono/utils/url";
import { messageOf } from "../../functions/shared/base/error-message.ts";
import { escapeControls } from "../../functions/shared/base/escape-control.ts";
import { splitPath } from "../../functions/shared/certificates/review-key.ts";
import type { Reporting } from "../telemetry/logs-and-metrics.ts";
import { createMetricsPage } from "../telemetry/metrics-page.ts";
import { type AdmissionEndpointOptions, serveAdmissions } from "./admission.ts";
import { Bodies, BodyAborted } from "./bodies.ts";
import type { KeyPair } from "./certificate-source.ts";
import { createEventEndpoint, type EventEndpointOptions } from "./cloud-event.ts";
import { type ConnectionBounds, type Cut, type Proof, usualBounds } from "./connection-bounds.ts";
import { ClientConnections } from "./connections.ts";
import type { ReviewKeyCheck } from "./review-keys.ts";

export interface AppOptions
  extends Omit<EventEndpointOptions, "reporting" | "bodies">,
    Pick<AdmissionEndpointOptions, "admissions"> {
  readonly reporting: Reporting;
  /** Whether the plain port also answers reviews: without TLS, and to any client. */
  readonly reviewsOnPort: boolean;
  /** Whether clients of the TLS port have to show a certificate of the client authorities. */
  readonly asksForCertificates: boolean;
  /** Clients of the TLS port have to show the key of API servers when this says so. Absent: no client has to. */
  readonly reviewKeys?: ReviewKeyCheck | undefined;
  /** Milliseconds of a clock that never jumps. */
  monotonicMs(): number;
}

const eventPaths = ["/", "/events"];
/** Users of rollout-operator probe `/ready`. */
const readyPaths = ["/readyz", "/ready"];
/** Where rollout-operator has its status page; here it is on another port. */
const statusPath = "/ui/status";
const ownPaths = [...eventPaths, ...readyPaths, "/healthz", "/metrics", statusPath];
/** Memory for all bodies of events together, and at each port for those of reviews. Most have some KiB, the largest 5 MiB. */
const mostBytes = 16 * 2 ** 20;
/** As in rollout-operator: longer than a source or a probe waits between two requests on one connection. */
const idleMs = 180_000;
const notHere =
  "The status is on STATUS_LISTEN alone. Where that is 127.0.0.1:8002: kubectl port-forward POD 8002, then open http://127.0.0.1:8002/";
/** The plain port is for kubelets, a Prometheus or two and a user. Over TLS no client has to GET anything. */
const placesForGets = 20;
/** How often a port that closes ends its unused connections, in milliseconds. */
const endUnusedEveryMs = 100;

/** All endpoints of `PORT`, with health and metrics. An error is one line of plain text, and never a bare 500. */
export function createApp(options: AppOptions): Hono {
  const { reporting, notReady } = options;
  const app = createBareApp(options, "There is nothing here: POST CloudEvents to / or to /events.");
  app.get("/healthz", (c) => respond(c, "alive\n", 200));
  app.on("GET", readyPaths, (c) => {
    const reason = notReady();
    return reason === undefined ? respond(c, "ready\n", 200) : respond(c, `${reason}\n`, 503);
  });
  const page = createMetricsPage(reporting.metrics.registry, () => options.monotonicMs());
  app.get("/metrics", async (c) => {
    const { text, contentType } = await page();
    return c.body(text, 200, { "content-type": contentType, "content-length": String(text.byteLength) });
  });
  app.on("POST", eventPaths, createEventEndpoint({ ...options, bodies: new Bodies(mostBytes) }));
  app.all(statusPath, (c) => c.text(notHere, 421));
  if (options.reviewsOnPort) serveReviews(app, options);
  else refuseReviews(app, options);
  return app;
}

/** The endpoints of `TLS_PORT`, which only API servers need to reach: reviews alone. */
export function createAdmissionApp(options: AppOptions): Hono {
  const app = createBareApp(options, "There is nothing here: AdmissionReviews are posted to /admission/….");
  if (options.reviewKeys !== undefined) app.use(options.reviewKeys.refuseUnkeyed());
  if (options.asksForCertificates) for (const path of reviewPaths(options)) app.use(path, requireCertificate);
  serveReviews(app, options);
  return app;
}

function serveReviews(app: Hono, options: AppOptions): void {
  serveAdmissions(app, { ...options, bodies: new Bodies(mostBytes) });
}

/** A client of the plain port does not prove its identity, and an allowed review reserves a pod. */
function refuseReviews(app: Hono, options: AppOptions): void {
  const message = "Reviews are answered on TLS_PORT alone. REVIEWS_ON_PORT=true lets everybody post them here, too.";
  for (const path of reviewPaths(options)) app.all(path, (c) => c.text(message, 421));
}

function reviewPaths({ admissions }: AppOptions): string[] {
  return admissions.flatMap(({ definition }) => definition.paths);
}

/** The handshake has found out whose certificate it is. */
const requireCertificate: MiddlewareHandler = async (c, next) => {
  const { incoming } = (c.env ?? {}) as { readonly incoming?: IncomingMessage };
  const { authorized, authorizationError } = (incoming?.socket ?? {}) as Partial<TLSSocket>;
  if (authorized) return next();
  const why = authorizationError === undefined ? "there is none" : String(authorizationError);
  return c.text(`Show a certificate of an authority in TLS_CLIENT_CA_FILE (${why}).`, 401);
};

function createBareApp(options: AppOptions, nothingHere: string): Hono {
  // A webhook configuration may have a key before the path, also where no key is asked for.
  const app = new Hono({ getPath: (request) => splitPath(getPath(request)).path });
  app.use(measure(options));
  app.notFound((c) => c.text(nothingHere, 404));
  app.onError((error, c) => {
    if (error instanceof HTTPException) return error.res ?? c.text(escapeControls(error.message), error.status);
    if (error instanceof BodyAborted) {
      options.reporting.log("debug", error.message, { path: c.req.path });
      return c.text(`This cannot be answered: ${escapeControls(error.message)}.`, 400);
    }
    options.reporting.log("error", `a request could not be handled: ${error.message}`, {
      path: c.req.path,
      err: error,
    });
    // A source gives up after a plain 500 and tries again after a 503.
    return c.text("Send it again later: it could not be handled now.", 503, { "retry-after": "1" });
  });
  return app;
}

function measure({ reporting: { metrics }, admissions, monotonicMs }: AppOptions): MiddlewareHandler {
  const paths = [...ownPaths, ...admissions.flatMap(({ definition }) => definition.paths)];
  const routes = new Map(paths.map((path) => [path, routeOf(path)]));
  return async function measureRequest(c, next) {
    const { method } = c.req;
    const route = routes.get(c.req.path) ?? "notfound";
    const startedMs = monotonicMs();
    metrics.inflight.inc({ method, route });
    await next();
    const seconds = (monotonicMs() - startedMs) / 1000;
    const requestBytes = Number(c.req.header("content-length") ?? 0) || 0;
    const responseBytes = c.get("responseBytes") ?? (await lengthOf(c.res));
    metrics.inflight.dec({ method, route });
    metrics.requestSeconds.observe({ method, route, status_code: String(c.res.status), ws: "false" }, seconds);
    metrics.requestBytes.observe({ method, route }, requestBytes);
    metrics.responseBytes.observe({ method, route }, responseBytes);
  };
}

/** The answer has a Content-Length: probes come before any event, and a start is faster while `lengthOf` counts nothing. */
function respond(c: Context, text: string, status: 200 | 503): Response {
  return c.text(text, status, { "content-length": String(Buffer.byteLength(text)) });
}

/** Reads a copy of the body only if no header gives its length, because that costs as much as a whole review. */
async function lengthOf(response: Response): Promise<number> {
  if (response.status === 204) return 0;
  const header = response.headers.get("content-length");
  if (header !== null) return Number(header);
  return response.body === null ? 0 : (await response.clone().arrayBuffer()).byteLength;
}

/** The label `route` of a path in metrics, as rollout-operator makes it: `admission_pod_eviction`. */
export function routeOf(path: string): string {
  return (
    path
      .replaceAll(/[^a-z0-9]+/gi, "_")
      .replaceAll(/^_|_$/g, "")
      .toLowerCase() || "root"
  );
}

export interface Listening {
  readonly port: number;
  /** Presents another certificate to new connections. Does nothing on a plain port. */
  present(pair: KeyPair): void;
  /** Requests are answered as before, and connections taken; each answer says `connection: close`, and ends its connection. */
  refuseNew(): void;
  /** Takes no more connections, and resolves when the last answer is out. The signal cuts off all that are left. */
  close(cutOff: AbortSignal): Promise<void>;
}

export interface ListenOptions {
  /** 0: any free port. */
  readonly port: number;
  /** Absent: all addresses, of both families. */
  readonly host?: string;
  /** How long a client may take to send a whole request once one was answered, and to take its answer, in milliseconds. */
  readonly requestTimeoutMs: number;
  /** Over TLS, with this certificate; plain when absent. */
  readonly pair?: KeyPair;
  /** Called for each connection that the server ends before its client does. */
  readonly onCut?: (how: Cut) => void;
  /** In the place of {@link usualBounds}. */
  readonly bounds?: Partial<ConnectionBounds>;
  /** What, besides a certificate, proves who a client is. */
  readonly proof?: Proof | undefined;
}

/** Listens. Rejects if the port cannot be had. */
export async function listen(app: Hono, options: ListenOptions): Promise<Listening> {
  const { port, host, requestTimeoutMs, pair, onCut = () => {}, proof } = options;
  const places = { placesForGets: pair === undefined ? placesForGets : 0 };
  const bounds = { ...usualBounds, ...places, unreadMs: requestTimeoutMs, ...options.bounds };
  const lateResponse = answerTo(timedOut);
  const connections = new ClientConnections(bounds, onCut, lateResponse, proof);
  // Node discards the unread rest of a body within a request's time; hono would close the connection, and lose later requests.
  const answer = getRequestListener(app.fetch, {
    autoCleanupIncoming: false,
    // Hono cannot make a request of it, for instance because its host is invalid.
    errorHandler: (error) =>
      new Response(`This is not a request that can be answered: ${messageOf(error)}.`, { status: 400 }),
  });
  const handle = (request: IncomingMessage, response: ServerResponse) => connections.handle(request, response, answer);
  const serverOptions = {
    requestTimeout: requestTimeoutMs,
    // Hono's listener answers a request without a host by a message.
    requireHostHeader: false,
    headersTimeout: requestTimeoutMs,
    keepAliveTimeout: idleMs,
    connectionsCheckingInterval: Math.min(requestTimeoutMs, 1_000),
  };
  // The handshake accepts any client. One with a wrong certificate, or with none, gets an answer that says so.
  const asked = { requestCert: pair?.clientAuthorities !== undefined, rejectUnauthorized: false };
  const secured = pair && { ...serverOptions, ...contextOf(pair), ...asked, handshakeTimeout: requestTimeoutMs };
  const server = secured === undefined ? createServer(serverOptions, handle) : createSecureServer(secured, handle);
  answerConnectionErrors(server, connections, pair === undefined ? "connection" : "secureConnection");
  server.listen({ port, ...(host === undefined ? {} : { host }) });
  // Rejects if the port cannot be had.
  await once(server, "listening");
  const sockets = rememberSockets(server);
  let authorities = pair?.clientAuthorities;
  let closing = false;
  // Node keeps a connection alive after its answer if it was busy at the close, and it would keep the process as well.
  server.on("request", (_request, response) => {
    response.once("close", () => closing && server.closeIdleConnections());
  });
  return {
    port: (server.address() as AddressInfo).port,
    present(other) {
      if (!("setSecureContext" in server)) return;
      server.setSecureContext(contextOf(other));
      if (other.clientAuthorities === authorities) return;
      authorities = other.clientAuthorities;
      // A client of the former authorities could come back by a TLS ticket, or go on over an idle connection.
      server.setTicketKeys(randomBytes(48));
      server.closeIdleConnections();
    },
    refuseNew: () => connections.refuseNew(),
    async close(cutOff) {
      closing = true;
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      const cut = () => {
        server.closeAllConnections();
        // The HTTP server does not know connections that are in their TLS handshake.
        for (const socket of sockets) socket.destroy();
      };
      cutOff.addEventListener("abort", cut, { once: true });
      if (cutOff.aborted) cut();
      else server.closeIdleConnections();
      connections.endUnused();
      const ending = setInterval(() => connections.endUnused(), endUnusedEveryMs);
      await closed;
      clearInterval(ending);
    },
  };
}

/** Reports connections to their bounds, and answers what Node cannot parse. `ready`: event from which requests can come. */
function answerConnectionErrors(
  server: Server | SecureServer,
  connections: ClientConnections,
  ready: "connection" | "secureConnection",
): void {
  server.on("connection", (socket: Socket) => connections.opened(socket));
  server.on(ready, (socket: Socket) => connections.ready(socket));
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    if (error.code === timedOut.code) connections.endTimedOut(socket);
    else connections.refuse(socket, answerTo(error));
  });
  server.on("checkExpectation", (_request: IncomingMessage, response: ServerResponse) => {
    const message = "Send the request without expecting anything of it.";
    response.writeHead(417, { "content-type": plainText, "content-length": message.length }).end(message);
  });
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

const plainText = "text/plain; charset=UTF-8";

/** The error of Node about a request that takes too long to come. */
const timedOut = { code: "ERR_HTTP_REQUEST_TIMEOUT" } as const;

/** The whole answer to bytes that Node cannot read as a request. It gives the client the reason, and ends the connection. */
function answerTo({ code, message = "" }: Partial<NodeJS.ErrnoException>): string {
  const [status, body] = {
    [timedOut.code]: ["408 Request Timeout", "The request took too long to come."],
    HPE_HEADER_OVERFLOW: ["431 Request Header Fields Too Large", "The headers are too large."],
    HPE_CHUNK_EXTENSIONS_OVERFLOW: ["413 Payload Too Large", "The extensions of a chunk are too large."],
  }[code ?? ""] ?? ["400 Bad Request", `This is not a request of HTTP: ${message}.`];
  const length = Buffer.byteLength(body as string);
  const head = [`HTTP/1.1 ${status}`, `content-type: ${plainText}`, `content-length: ${length}`, "connection: close"];
  return `${head.join("\r\n")}\r\n\r\n${body}`;
}

function contextOf({ cert, key, clientAuthorities: ca }: KeyPair) {
  return { cert, key, ...protocols, ...(ca === undefined ? {} : { ca }) } as const;
}

function rememberSockets(server: Server | SecureServer): ReadonlySet<Socket> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  return sockets;
}
