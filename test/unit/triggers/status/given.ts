/** A status of one group at rest, and the endpoints that show it. */
import type { Status } from "../../../../functions/shared/contract/status.ts";
import { createStatusApp, type StatusAppOptions } from "../../../../triggers/status/status-app.ts";
import { createReporting } from "../../../../triggers/telemetry/logs-and-metrics.ts";

export const at = "2026-11-29T10:00:00.000Z";

export function statusWith(changes: Partial<Status> = {}): Status {
  return {
    at,
    unansweredSince: null,
    answeredBy: { replica: "sluice-0", version: "1.2.3", mode: "act", namespaces: ["db"] },
    needsPerson: [],
    groups: [],
    waiting: null,
    events: null,
    parked: [],
    volumes: null,
    leftOut: [],
    ...changes,
  };
}

export function appWith(changes: Partial<StatusAppOptions> = {}) {
  const lines: Record<string, unknown>[] = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line)) };
  const reporting = createReporting({ version: "1.2.3", serving: "all", level: "debug", keys: () => 0, destination });
  let nowMs = 0;
  const app = createStatusApp({
    read: async () => statusWith(),
    isLoopback: true,
    reporting,
    monotonicMs: () => (nowMs += 250),
    ...changes,
  });
  const get = (path = "/", headers: Readonly<Record<string, string>> = {}, method = "GET") =>
    app.request(`http://localhost${path}`, { method, headers: { host: "localhost:8002", ...headers } });
  return { get, lines, registry: reporting.metrics.registry };
}
