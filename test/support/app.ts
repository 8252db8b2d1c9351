/** The HTTP servers in front of a queue that only remembers its keys. */
import type { KnownResource } from "../../functions/shared/kubernetes/cluster.ts";
import { validateZoneBudget } from "../../functions/validate-zone-budget/function.ts";
import { type AppOptions, createApp } from "../../triggers/server/server.ts";
import { createReporting } from "../../triggers/telemetry/logs-and-metrics.ts";

/** The opened function that decides without a cluster. */
export const validation = { definition: validateZoneBudget, handler: validateZoneBudget.open(undefined as never) };

/** A server of reviews whose functions no event triggers, and which asks its clients for no certificate. */
export const quietServer = {
  enqueuer: { changed: () => "queued", tick: () => true, due: () => true },
  watches: new Set<KnownResource>(),
  namespaces: undefined,
  bodyLimitBytes: 1_024,
  reviewsOnPort: false,
  asksForCertificates: false,
  monotonicMs: () => 0,
  notReady: () => undefined,
} satisfies Partial<AppOptions>;

export function createTestApp(options: Partial<AppOptions> & { full?: boolean } = {}) {
  const triggered: string[] = [];
  const lines: Record<string, unknown>[] = [];
  const reporting = createReporting({
    version: "1.2.3",
    serving: "all",
    level: "debug",
    keys: () => 7,
    destination: { write: (line: string) => void lines.push(JSON.parse(line)) },
  });
  const remember = (what: string): boolean => {
    if (!options.full) triggered.push(what);
    return options.full !== true;
  };
  const app = createApp({
    reporting,
    enqueuer: {
      changed: (resource, { namespace, name }) => (remember(`${resource} ${namespace}/${name}`) ? "queued" : "refused"),
      tick: () => remember("sweep"),
      due: () => remember("due"),
    },
    watches: new Set<KnownResource>(["statefulsets", "pods"]),
    namespaces: undefined,
    admissions: [validation],
    bodyLimitBytes: 1_048_576,
    reviewsOnPort: true,
    asksForCertificates: false,
    monotonicMs: () => performance.now(),
    notReady: () => undefined,
    ...options,
  });
  return { app, triggered, lines, reporting };
}

/** The headers of an ApiServerSource's event in binary mode, as captured from Knative. */
export const binaryHeaders = {
  "content-type": "application/json",
  "ce-specversion": "1.0",
  "ce-id": "8f288b8f-4c9a-4ca0-a93b-8a75361411e8",
  "ce-type": "dev.knative.apiserver.ref.update",
  "ce-source": "https://10.0.0.1:443",
  "ce-subject": "/apis/apps/v1/namespaces/app/statefulsets/ingester-zone-a",
  "ce-time": "2026-11-20T08:25:16.183972381Z",
  "ce-apiversion": "apps/v1",
  "ce-kind": "StatefulSet",
  "ce-name": "ingester-zone-a",
  "ce-namespace": "app",
};

export const reference = { kind: "StatefulSet", namespace: "app", name: "ingester-zone-a", apiVersion: "apps/v1" };

/** The same event in structured mode. */
export const structured = {
  specversion: "1.0",
  id: "8f288b8f",
  type: "dev.knative.apiserver.ref.update",
  source: "https://10.0.0.1:443",
  datacontenttype: "application/json",
  data: reference,
};

/** The headers without some of them. */
export function without(headers: Readonly<Record<string, string>>, ...names: string[]): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !names.includes(name)));
}
