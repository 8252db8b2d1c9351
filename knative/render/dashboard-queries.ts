/** Queries of the dashboard. Each groups by namespace. */

/** The query of a graph: an expression, and the text that tells its lines apart. */
interface Query {
  readonly expression: string;
  readonly legend: string;
}

export interface Graph extends Query {
  readonly title: string;
  /** What its lines mean, and what to do about them. */
  readonly description: string;
  /** As Grafana calls it. */
  readonly unit: "short" | "reqps" | "ops" | "s" | "bytes";
  /** Of a time that is left: orange below so many seconds, and red below 0, where it is over. Absent: it is no such time. */
  readonly warnsBelowSeconds?: number;
}

/** A table of the present state: one line for each series, with these labels as its columns. */
export interface TablePanel {
  readonly title: string;
  readonly description: string;
  readonly expression: string;
  readonly columns: readonly string[];
  /** Title of the column that has the value, a time in milliseconds since the epoch. */
  readonly since: string;
}

export const where = '{namespace=~"$namespace"}';
export const whereGroup = '{namespace=~"$namespace", rollout_group=~"$group"}';
/** The requests that are reviews. */
export const reviews = '{namespace=~"$namespace", route=~"admission.*|pods_eviction.*"}';

/** The filter of series with these labels. */
function filterOf(labels: string): string {
  return labels.includes("rollout_group") ? whereGroup : where;
}

/** A query with one line for each namespace and set of values of these labels, which stand in the legend in this order. */
export function by(labels: string, expressionBy: (by: string) => string): Query {
  const all = ["namespace", ...labels.split(", ").filter((label) => label !== "")];
  const legend = all.filter((label) => label !== "le").map((label) => `{{${label}}}`);
  return { expression: expressionBy(`by (${all.join(", ")})`), legend: legend.join(" ") };
}

export function rate(metric: string, labels: string, of = filterOf(labels)): Query {
  return by(labels, (group) => `sum ${group} (rate(${metric}${of}[$__rate_interval]))`);
}

export function mean(metric: string, labels: string, of = filterOf(labels)): Query {
  const [sum, count] = [rate(`${metric}_sum`, labels, of), rate(`${metric}_count`, labels, of)];
  return { ...sum, expression: `${sum.expression} / ${count.expression}` };
}

export function sum(metric: string, labels: string, of = filterOf(labels)): Query {
  return by(labels, (group) => `sum ${group} (${metric}${of})`);
}

export function highest(metric: string, labels: string): Query {
  return by(labels, (group) => `max ${group} (${metric}${filterOf(labels)})`);
}

/** The 99th percentile of a duration. */
export function slowest(metric: string, label: string, of = where): Query {
  const { expression } = rate(`${metric}_bucket`, `${label}, le`, of);
  return by(label, () => `histogram_quantile(0.99, ${expression})`);
}

/** Age of a time. Several replicas export it, and the newest one counts. */
export function sinceNewest(metric: string, labels = "rollout_group"): Query {
  return by(labels, () => `time() - ${highest(metric, labels).expression}`);
}

/** Time until the first of several times. */
export function untilFirst(metric: string, labels: string): Query {
  return by(labels, (group) => `min ${group} (${metric}${filterOf(labels)} - time())`);
}
