/** A Grafana dashboard with the rows that users of rollout-operator have, and why groups wait. */
import { labelsOf, type Manifest } from "./object.ts";

interface Query {
  readonly title: string;
  readonly expression: string;
  readonly legend: string;
  /** As Grafana calls it. */
  readonly unit: "short" | "reqps" | "ops" | "s" | "bytes";
}

const where = '{namespace=~"$namespace"}';
const reviews = '{namespace=~"$namespace", route=~"admission.*|pods_eviction"}';

function rate(metric: string, labels: string, by: string): string {
  return `sum by (${by}) (rate(${metric}${labels}[$__rate_interval]))`;
}

function mean(metric: string, labels: string, by: string): string {
  return `${rate(`${metric}_sum`, labels, by)} / ${rate(`${metric}_count`, labels, by)}`;
}

const requests = "rollout_operator_request_duration_seconds";
const calls = "rollout_operator_kubernetes_api_client_request_duration_seconds";
const lastSuccess = "rollout_operator_last_successful_group_reconcile_timestamp_seconds";

const rows: Readonly<Record<string, readonly Query[]>> = {
  "Why groups wait": [
    {
      title: "Waiting for, since",
      expression: `time() - min by (rollout_group, guard, zone) (sluice_waiting_since_timestamp_seconds${where} > 0)`,
      legend: "{{rollout_group}} {{zone}} {{guard}}",
      unit: "s",
    },
    {
      title: "Verdicts by guard",
      expression: rate("sluice_verdicts_total", where, "function, guard"),
      legend: "{{function}} {{guard}}",
      unit: "ops",
    },
    {
      title: "Time since last progress",
      expression: `time() - max by (rollout_group) (sluice_group_last_progress_timestamp_seconds${where})`,
      legend: "{{rollout_group}}",
      unit: "s",
    },
  ],
  Groups: [
    {
      title: "Outdated pods",
      expression: `max by (rollout_group, zone) (sluice_group_outdated_pods${where})`,
      legend: "{{rollout_group}} {{zone}}",
      unit: "short",
    },
    {
      title: "Pods not ready",
      expression: `max by (rollout_group, zone) (sluice_group_pods_not_ready${where})`,
      legend: "{{rollout_group}} {{zone}}",
      unit: "short",
    },
    {
      title: "Reservations",
      expression: `max by (rollout_group, function) (sluice_group_reservations${where})`,
      legend: "{{rollout_group}} {{function}}",
      unit: "short",
    },
    {
      title: "Suspended volumes are removed in",
      expression: `min by (zone) (sluice_volume_removal_timestamp_seconds${where}) - time()`,
      legend: "{{zone}}",
      unit: "s",
    },
    {
      title: "Size of suspended volumes",
      expression: `max by (zone) (sluice_suspended_bytes${where})`,
      legend: "{{zone}}",
      unit: "bytes",
    },
  ],
  "Incoming webhook requests": [
    {
      title: "By status",
      expression: rate(`${requests}_count`, reviews, "status_code"),
      legend: "{{status_code}}",
      unit: "reqps",
    },
    {
      title: "By webhook",
      expression: rate(`${requests}_count`, reviews, "route"),
      legend: "{{route}}",
      unit: "reqps",
    },
    {
      title: "99th percentile by webhook",
      expression: `histogram_quantile(0.99, ${rate(`${requests}_bucket`, reviews, "le, route")})`,
      legend: "{{route}}",
      unit: "s",
    },
    {
      title: "In flight by webhook",
      expression: `sum by (route) (rollout_operator_inflight_requests${reviews})`,
      legend: "{{route}}",
      unit: "short",
    },
    {
      title: "Average size of requests",
      expression: mean("rollout_operator_request_message_bytes", reviews, "route"),
      legend: "{{route}}",
      unit: "bytes",
    },
  ],
  "Reconciliation loop": [
    {
      title: "Attempts",
      expression: rate("rollout_operator_group_reconciles_total", where, "rollout_group"),
      legend: "{{rollout_group}}",
      unit: "ops",
    },
    {
      title: "Failures",
      expression: rate("rollout_operator_group_reconciles_failed_total", where, "rollout_group"),
      legend: "{{rollout_group}}",
      unit: "ops",
    },
    {
      title: "Average duration",
      expression: mean("rollout_operator_group_reconcile_duration_seconds", where, "rollout_group"),
      legend: "{{rollout_group}}",
      unit: "s",
    },
    {
      title: "Time since last success",
      expression: `time() - max by (rollout_group) (${lastSuccess}${where})`,
      legend: "{{rollout_group}}",
      unit: "s",
    },
  ],
  "Outgoing Kubernetes control plane API requests": [
    {
      title: "By status",
      expression: rate(`${calls}_count`, where, "status_code"),
      legend: "{{status_code}}",
      unit: "reqps",
    },
    {
      title: "By route",
      expression: rate(`${calls}_count`, where, "method, path"),
      legend: "{{method}} {{path}}",
      unit: "reqps",
    },
    { title: "Average latency", expression: mean(calls, where, "path"), legend: "{{path}}", unit: "s" },
  ],
  ZoneAwarePodDisruptionBudgets: [
    {
      title: "Configuration changes by result",
      expression: rate("rollout_operator_zpdb_configurations_observed_total", where, "result"),
      legend: "{{result}}",
      unit: "ops",
    },
    {
      title: "Eviction requests by status",
      expression: rate("rollout_operator_zpdb_eviction_requests_total", where, "status, reason"),
      legend: "{{status}} {{reason}}",
      unit: "reqps",
    },
    {
      title: "Eviction requests in flight",
      expression: `sum(rollout_operator_zpdb_inflight_eviction_requests${where})`,
      legend: "in flight",
      unit: "short",
    },
  ],
  Resources: [
    {
      title: "Memory",
      expression: `process_resident_memory_bytes{namespace=~"$namespace", job="rollout-operator"}`,
      legend: "{{pod}}",
      unit: "bytes",
    },
    {
      title: "Running instances",
      expression: `count by (version) (sluice_build_info${where})`,
      legend: "{{version}}",
      unit: "short",
    },
    {
      title: "Time to the certificate's end",
      expression: `min by (source) (sluice_certificate_not_after_timestamp_seconds${where} - time())`,
      legend: "{{source}}",
      unit: "s",
    },
  ],
};

const columns = 24;
const heightOfRow = 8;

/** The dashboard as a ConfigMap that Grafana's sidecar finds by its label. */
export function dashboard(): Manifest {
  const panels = Object.entries(rows).flatMap(([title, queries], row) => {
    const y = row * (heightOfRow + 1);
    const width = Math.floor(columns / queries.length);
    const heading = { type: "row", title, collapsed: false, panels: [], gridPos: { x: 0, y, w: columns, h: 1 } };
    const graphs = queries.map((query, column) =>
      panelOf(query, { x: column * width, y: y + 1, w: width, h: heightOfRow }),
    );
    return [heading, ...graphs];
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

function panelOf({ title, expression, legend, unit }: Query, gridPos: object): object {
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
