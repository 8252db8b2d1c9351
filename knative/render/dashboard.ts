/** A Grafana dashboard with the rows that users of rollout-operator have, and why groups wait. */
import { labelsOf, type Manifest } from "./object.ts";

/** What a graph shows: an expression, and the words that tell its lines apart. */
interface Query {
  readonly expression: string;
  readonly legend: string;
}

interface Graph extends Query {
  readonly title: string;
  /** As Grafana calls it. */
  readonly unit: "short" | "reqps" | "ops" | "s" | "bytes";
}

const where = '{namespace=~"$namespace"}';
const reviews = '{namespace=~"$namespace", route=~"admission.*|pods_eviction"}';

/** A query with one line for each set of values of these labels, which stand in the legend in this order. */
function by(labels: string, expression: string): Query {
  const legend = labels.split(", ").map((label) => `{{${label}}}`);
  return { expression, legend: legend.join(" ") };
}

function rate(metric: string, labels: string, of = where): Query {
  return by(labels, `sum by (${labels}) (rate(${metric}${of}[$__rate_interval]))`);
}

function mean(metric: string, labels: string, of = where): Query {
  const [sum, count] = [rate(`${metric}_sum`, labels, of), rate(`${metric}_count`, labels, of)];
  return by(labels, `${sum.expression} / ${count.expression}`);
}

function highest(metric: string, labels: string): Query {
  return by(labels, `max by (${labels}) (${metric}${where})`);
}

/** How long ago a time was. Several replicas export it, and the newest one counts. */
function sinceNewest(metric: string): Query {
  return by("rollout_group", `time() - ${highest(metric, "rollout_group").expression}`);
}

const requests = "rollout_operator_request_duration_seconds";
const calls = "rollout_operator_kubernetes_api_client_request_duration_seconds";
const lastSuccess = "rollout_operator_last_successful_group_reconcile_timestamp_seconds";
const slowest = rate(`${requests}_bucket`, "le, route", reviews).expression;

const rows: Readonly<Record<string, readonly Graph[]>> = {
  "Why groups wait": [
    {
      title: "Waiting for, since",
      unit: "s",
      expression: `time() - min by (rollout_group, guard, zone) (sluice_waiting_since_timestamp_seconds${where} > 0)`,
      legend: "{{rollout_group}} {{zone}} {{guard}}",
    },
    { title: "Verdicts by guard", unit: "ops", ...rate("sluice_verdicts_total", "function, guard") },
    { title: "Time since last progress", unit: "s", ...sinceNewest("sluice_group_last_progress_timestamp_seconds") },
  ],
  Groups: [
    { title: "Outdated pods", unit: "short", ...highest("sluice_group_outdated_pods", "rollout_group, zone") },
    { title: "Pods not ready", unit: "short", ...highest("sluice_group_pods_not_ready", "rollout_group, zone") },
    { title: "Reservations", unit: "short", ...highest("sluice_group_reservations", "rollout_group, function") },
    {
      title: "Suspended volumes are removed in",
      unit: "s",
      ...by("zone", `min by (zone) (sluice_volume_removal_timestamp_seconds${where}) - time()`),
    },
    { title: "Size of suspended volumes", unit: "bytes", ...highest("sluice_suspended_bytes", "zone") },
  ],
  "Incoming webhook requests": [
    { title: "By status", unit: "reqps", ...rate(`${requests}_count`, "status_code", reviews) },
    { title: "By webhook", unit: "reqps", ...rate(`${requests}_count`, "route", reviews) },
    { title: "99th percentile by webhook", unit: "s", ...by("route", `histogram_quantile(0.99, ${slowest})`) },
    {
      title: "In flight by webhook",
      unit: "short",
      ...by("route", `sum by (route) (rollout_operator_inflight_requests${reviews})`),
    },
    {
      title: "Average size of requests",
      unit: "bytes",
      ...mean("rollout_operator_request_message_bytes", "route", reviews),
    },
  ],
  "Reconciliation loop": [
    { title: "Attempts", unit: "ops", ...rate("rollout_operator_group_reconciles_total", "rollout_group") },
    { title: "Failures", unit: "ops", ...rate("rollout_operator_group_reconciles_failed_total", "rollout_group") },
    {
      title: "Average duration",
      unit: "s",
      ...mean("rollout_operator_group_reconcile_duration_seconds", "rollout_group"),
    },
    { title: "Time since last success", unit: "s", ...sinceNewest(lastSuccess) },
  ],
  "Outgoing Kubernetes control plane API requests": [
    { title: "By status", unit: "reqps", ...rate(`${calls}_count`, "status_code") },
    { title: "By route", unit: "reqps", ...rate(`${calls}_count`, "method, path") },
    { title: "Average latency", unit: "s", ...mean(calls, "path") },
  ],
  ZoneAwarePodDisruptionBudgets: [
    {
      title: "Configuration changes by result",
      unit: "ops",
      ...rate("rollout_operator_zpdb_configurations_observed_total", "result"),
    },
    {
      title: "Eviction requests by status",
      unit: "reqps",
      ...rate("rollout_operator_zpdb_eviction_requests_total", "status, reason"),
    },
    {
      title: "Eviction requests in flight",
      unit: "short",
      expression: `sum(rollout_operator_zpdb_inflight_eviction_requests${where})`,
      legend: "in flight",
    },
  ],
  Resources: [
    {
      title: "Memory",
      unit: "bytes",
      ...by("pod", `process_resident_memory_bytes{namespace=~"$namespace", job="rollout-operator"}`),
    },
    { title: "Running instances", unit: "short", ...by("version", `count by (version) (sluice_build_info${where})`) },
    {
      title: "Time to the certificate's end",
      unit: "s",
      ...by("source", `min by (source) (sluice_certificate_not_after_timestamp_seconds${where} - time())`),
    },
  ],
};

const columns = 24;
const heightOfRow = 8;

/** The dashboard as a ConfigMap that Grafana's sidecar finds by its label. */
export function dashboard(): Manifest {
  const panels = Object.entries(rows).flatMap(([title, graphs], row) => {
    const y = row * (heightOfRow + 1);
    const width = Math.floor(columns / graphs.length);
    const heading = { type: "row", title, collapsed: false, panels: [], gridPos: { x: 0, y, w: columns, h: 1 } };
    const placed = graphs.map((graph, column) =>
      panelOf(graph, { x: column * width, y: y + 1, w: width, h: heightOfRow }),
    );
    return [heading, ...placed];
  });
  const contents = {
    uid: "sluice",
    title: "Sluice",
    tags: ["sluice", "rollout-operator"],
    schemaVersion: 39,
    time: { from: "now-3h", to: "now" },
    templating: { list: [variable("datasource"), variable("namespace")] },
    panels: panels.map((panel, index) => ({ id: index + 1, ...panel })),
  };
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "sluice-dashboard", labels: { ...labelsOf("monitoring"), grafana_dashboard: "1" } },
    data: { "sluice.json": `${JSON.stringify(contents, undefined, 2)}\n` },
  };
}

const datasource = { type: "prometheus", uid: "$datasource" };

function panelOf({ title, expression, legend, unit }: Graph, gridPos: object): object {
  return {
    type: "timeseries",
    title,
    datasource,
    gridPos,
    fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
    targets: [{ refId: "A", datasource, expr: expression, legendFormat: legend }],
  };
}

function variable(name: "datasource" | "namespace"): object {
  if (name === "datasource") return { name, type: "datasource", query: "prometheus" };
  const query = "label_values(sluice_build_info, namespace)";
  return { name, type: "query", datasource, query, refresh: 2, multi: true, includeAll: true, allValue: ".*" };
}
