/** The HTTP server: events come in, health and metrics go out. */

import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { createAdaptorServer } from "@hono/node-server";
import { type Context, Hono, type MiddlewareHandler } from "hono";
import { bodyLimit } from "hono/body-limit";
import { HTTPException } from "hono/http-exception";
import { createEventDoor, type EventDoorOptions } from "./event.ts";
import type { Reporting } from "./reporting.ts";

export interface AppOptions extends Omit<EventDoorOptions, "count"> {
  readonly reporting: Reporting;
  readonly bodyLimitBytes: number;
  /** Milliseconds of a clock that never jumps. */
  monotonicMs(): number;
}

const eventPaths = ["/", "/events"];
/** `/ready` is where rollout-operator's users look. */
const readyPaths = ["/readyz", "/ready"];
const paths = new Set([...eventPaths, ...readyPaths, "/healthz", "/metrics"]);
/** As rollout-operator has it: longer than a source or a probe waits between two requests on one connection. */
const idleMs = 180_000;

/** All doors and what is to be seen of them. Errors are one sentence of plain text; there is never a bare 500. */
export function createApp(options: AppOptions): Hono {
  const { reporting, notReady } = options;
  const app = new Hono();
  app.use(measure(options));
  app.get("/healthz", (c) => c.text("alive\n"));
  for (const path of readyPaths) {
    app.get(path, (c) => {
      const reason = notReady();
      return reason === undefined ? c.text("ready\n") : c.text(`${reason}\n`, 503);
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
  const limit = bodyLimit({ maxSize: options.bodyLimitBytes, onError: tooLarge });
  const receiveEvent = createEventDoor({ ...options, count: (result) => reporting.event(result) });
  for (const path of eventPaths) app.post(path, limit, receiveEvent);
  app.notFound((c) => c.text("There is nothing here: POST CloudEvents to / or to /events.", 404));
  app.onError((error, c) => {
    if (error instanceof HTTPException) return error.res ?? c.text(error.message, error.status);
    reporting.log("error", `a request could not be handled: ${error.message}`, { path: c.req.path, err: error });
    // A source gives up after a plain 500 and tries again after a 503 (DESIGN section 2).
    return c.text("Send it again later: it could not be handled now.", 503, { "retry-after": "1" });
  });
  return app;
}

function measure({ reporting, monotonicMs }: AppOptions): MiddlewareHandler {
  return async function measureRequest(c, next) {
    const { method } = c.req;
    const route = routeOf(c.req.path);
    const startedMs = monotonicMs();
    reporting.requestBegan(method, route);
    await next();
    const seconds = (monotonicMs() - startedMs) / 1000;
    const requestBytes = Number(c.req.header("content-length") ?? 0) || 0;
    const responseBytes = c.res.body === null ? 0 : (await c.res.clone().arrayBuffer()).byteLength;
    reporting.requestEnded({ method, route, status: c.res.status, seconds, requestBytes, responseBytes });
  };
}

/** As rollout-operator labels its routes. */
function routeOf(path: string): string {
  if (!paths.has(path)) return "notfound";
  return (
    path
      .replaceAll(/[^a-z0-9]+/gi, "_")
      .replaceAll(/^_|_$/g, "")
      .toLowerCase() || "root"
  );
}

export interface Listening {
  readonly port: number;
  /** Takes no more connections, and resolves when the last answer is out. What is not by then is cut off with the signal. */
  close(cutOff: AbortSignal): Promise<void>;
}

export interface ListenOptions {
  /** 0: any free port. */
  readonly port: number;
  /** How long a client may take to send a whole request, in milliseconds. */
  readonly requestTimeoutMs: number;
}

/** Listens on all interfaces. Rejects when the port cannot be had. */
export async function listen(app: Hono, { port, requestTimeoutMs }: ListenOptions): Promise<Listening> {
  const serverOptions = {
    requestTimeout: requestTimeoutMs,
    headersTimeout: requestTimeoutMs,
    keepAliveTimeout: idleMs,
    connectionsCheckingInterval: Math.min(requestTimeoutMs, 1_000),
  };
  const server = createAdaptorServer({ fetch: app.fetch, serverOptions }) as Server;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, () => {
      server.off("error", reject);
      resolve();
    });
  });
  let closing = false;
  // A connection that was busy when the server closed is kept alive by Node after its answer, and would keep us too.
  server.on("request", (_request, response) => {
    response.once("close", () => closing && server.closeIdleConnections());
  });
  return {
    port: (server.address() as AddressInfo).port,
    async close(cutOff) {
      closing = true;
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      cutOff.addEventListener("abort", () => server.closeAllConnections(), { once: true });
      if (cutOff.aborted) server.closeAllConnections();
      else server.closeIdleConnections();
      await closed;
    },
  };
}
