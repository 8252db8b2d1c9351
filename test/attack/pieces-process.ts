/**
 * A process with a port for reviews, which also asks pods: `node pieces-process.ts PORT_OF_THE_PODS CALLS`. It prints its
 * port, and then the results of its calls.
 */
import type { LookupFunction } from "node:net";
import { connectPods } from "../../functions/shared/http/connections.ts";
import { PodHttpError } from "../../functions/shared/http/pod-http.ts";
import { listen } from "../../triggers/server/server.ts";
import { createTestApp } from "../support/app.ts";
import { clock } from "../support/played-pods.ts";

const [port = 0, calls = 0] = process.argv.slice(2).map(Number);
const lookup: LookupFunction = (_host, { all }, found) =>
  all ? found(null, [{ address: "127.0.0.1", family: 4 }]) : found(null, "127.0.0.1", 4);

const { app } = createTestApp();
const listening = await listen(app, { port: 0, requestTimeoutMs: 120_000 });
console.log(listening.port);

const pods = connectPods({ clock, userAgent: "sluice/0.0.0 (unit)", lookup, timeoutMs: 600_000 });
const outcomes = Array.from({ length: calls }, async (_, index) => {
  const address = {
    scheme: "http",
    pod: `web-${index}`,
    service: "web",
    namespace: `ns-${index}`,
    group: "web",
    port,
  } as const;
  try {
    const { body } = await pods.send(address, { method: "GET", path: "/ready" });
    return `${body.length} bytes`;
  } catch (error) {
    return error instanceof PodHttpError ? error.failed : String(error);
  }
});
console.log(JSON.stringify(await Promise.all(outcomes)));
