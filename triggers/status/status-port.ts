/** The address of the status. */
import type { Clock } from "../../functions/shared/clock/clock.ts";
import type { Cut } from "../server/connection-bounds.ts";
import { type Listening, listen } from "../server/server.ts";
import { formatListenAddress, isLoopback, type ListenAddress } from "../settings/listen-address.ts";
import type { Reporting } from "../telemetry/logs-and-metrics.ts";
import { createStatusApp, type StatusAppOptions } from "./status-app.ts";

export interface StatusPortOptions extends Pick<StatusAppOptions, "read"> {
  readonly address: ListenAddress;
  readonly requestTimeoutMs: number;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly reporting: Pick<Reporting, "log" | "metrics">;
}

/** How long an answer may take once the process ends, in milliseconds: a viewer asks again anyway, and nothing else is lost. */
const lastPagesMs = 100;

/** Listens there. Rejects with a message if the address cannot be had. */
export async function openStatusPort(options: StatusPortOptions): Promise<Pick<Listening, "port" | "close">> {
  const { address, read, requestTimeoutMs, clock, reporting } = options;
  const isLocal = isLoopback(address);
  const app = createStatusApp({ read, isLoopback: isLocal, reporting, monotonicMs: () => clock.monotonicMs() });
  const onCut = (reason: Cut) => reporting.metrics.connectionsEnded.inc({ door: "status", reason });
  const listening = await listen(app, { ...address, requestTimeoutMs, onCut }).catch((error: Error) => {
    throw new Error(`STATUS_LISTEN: ${formatListenAddress(address)} cannot be listened on: ${error.message}`);
  });
  const where = formatListenAddress({ ...address, port: listening.port });
  reporting.log("info", `the status is shown on http://${where}/`, { statusPort: listening.port });
  if (!isLocal) {
    const message = `STATUS_LISTEN is ${where}: any client that reaches it sees names and messages of all served namespaces`;
    reporting.log("warn", message, { reason: "status-listen" });
  }
  const close = (cutOff: AbortSignal) => listening.close(AbortSignal.any([cutOff, AbortSignal.timeout(lastPagesMs)]));
  return { port: listening.port, close };
}
