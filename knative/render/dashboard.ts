/** A Grafana dashboard with the rows that users of rollout-operator have, and why groups wait. */
import { rows } from "./dashboard-panels.ts";
import type { Graph, TablePanel } from "./dashboard-queries.ts";
import { labelsOf, type Manifest } from "./object.ts";

const columns = 24;
const heightOfRow = 8;

/** The dashboard as a ConfigMap that Grafana's sidecar finds by its label. */
export function dashboard(): Manifest {
  const panels = Object.entries(rows).flatMap(([title, own], row) => {
    const y = row * (heightOfRow + 1);
    const width = Math.floor(columns / own.length);
    const heading = { type: "row", title, collapsed: false, panels: [], gridPos: { x: 0, y, w: columns, h: 1 } };
    const placed = own.map((one, column) => {
      const gridPos = { x: column * width, y: y + 1, w: width, h: heightOfRow };
      return "columns" in one ? tableOf(one, gridPos) : graphOf(one, gridPos);
    });
    return [heading, ...placed];
  });
  const contents = {
    uid: "sluice",
    title: "Sluice",
    tags: ["sluice", "rollout-operator"],
    schemaVersion: 39,
    time: { from: "now-3h", to: "now" },
    templating: { list: [source, ...variables.map(variableOf)] },
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
/** Red below 0, which is in the past, and orange below these seconds. */
function timeLeft(warnsBelowSeconds: number): object {
  const steps = [
    { color: "red", value: null },
    { color: "orange", value: 0 },
    { color: "green", value: warnsBelowSeconds },
  ];
  return { thresholds: { mode: "absolute", steps }, color: { mode: "thresholds" } };
}

function graphOf({ title, description, expression, legend, unit, warnsBelowSeconds }: Graph, gridPos: object): object {
  // With a minimum of 0 the graph would not show times that are over.
  const range = warnsBelowSeconds === undefined ? { min: 0 } : timeLeft(warnsBelowSeconds);
  return {
    type: "timeseries",
    title,
    description,
    datasource,
    gridPos,
    fieldConfig: { defaults: { unit, ...range }, overrides: [] },
    targets: [{ refId: "A", datasource, expr: expression, legendFormat: legend }],
  };
}

function tableOf({ title, description, expression, columns: labels, since }: TablePanel, gridPos: object): object {
  const names = [...labels, "Value"];
  const indexByName = Object.fromEntries(names.map((name, index) => [name, index]));
  const options = { excludeByName: { Time: true }, indexByName, renameByName: { Value: since } };
  return {
    type: "table",
    title,
    description,
    datasource,
    gridPos,
    fieldConfig: {
      defaults: {},
      overrides: [
        { matcher: { id: "byName", options: since }, properties: [{ id: "unit", value: "dateTimeFromNow" }] },
      ],
    },
    targets: [{ refId: "A", datasource, expr: expression, instant: true, range: false, format: "table" }],
    transformations: [{ id: "organize", options }],
  };
}

const source = { name: "datasource", type: "datasource", query: "prometheus" };

const variables = [
  {
    name: "namespace",
    // One release may serve other namespaces than its own.
    query: 'label_values({__name__=~"sluice_build_info|sluice_group_pods_not_ready"}, namespace)',
  },
  {
    name: "group",
    query: 'label_values(sluice_group_pods_not_ready{namespace=~"$namespace"}, rollout_group)',
  },
] as const;

function variableOf(own: (typeof variables)[number]): object {
  return { ...own, type: "query", datasource, refresh: 2, multi: true, includeAll: true, allValue: ".*" };
}
