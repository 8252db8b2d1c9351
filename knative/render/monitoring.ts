/**
 * The scrape targets of Prometheus, and the rule with the alerts. Several replicas export their knowledge of a group as times;
 * the newest one counts.
 */
import manifest from "../../package.json" with { type: "json" };
import { type Alert, alerts } from "./alerts.ts";
import { answersReviews, labelsOf, type Manifest, reviewService } from "./object.ts";
import { type PackageFields, repositoryOf } from "./package-fields.ts";

/**
 * Scrapes the replicas that answer reviews: functions that come and go would take their metrics with them. The namespace of a
 * group counts, not that of the pod which reports it.
 */
export function serviceMonitor(): Manifest {
  return {
    apiVersion: "monitoring.coreos.com/v1",
    kind: "ServiceMonitor",
    metadata: { name: reviewService, labels: labelsOf("monitoring") },
    spec: {
      selector: { matchLabels: answersReviews },
      endpoints: [{ port: "http-metrics", path: "/metrics", interval: "30s", honorLabels: true }],
    },
  };
}

/** Scrapes the pods of an account that no Service of ours selects. `namespace`: absent: that of the kustomization. */
export function podMonitor(name: string, endpoint: object, namespace?: string): Manifest {
  return {
    apiVersion: "monitoring.coreos.com/v1",
    kind: "PodMonitor",
    metadata: { name, ...(namespace === undefined ? {} : { namespace }), labels: labelsOf("monitoring") },
    spec: {
      selector: { matchLabels: labelsOf(name) },
      podMetricsEndpoints: [{ path: "/metrics", interval: "30s", ...endpoint }],
    },
  };
}

/** The rule with all alerts. They name their runbooks only if the package names the repository in which these can be read. */
export function prometheusRule(fields: PackageFields = manifest): Manifest {
  return {
    apiVersion: "monitoring.coreos.com/v1",
    kind: "PrometheusRule",
    metadata: { name: "sluice", labels: labelsOf("monitoring") },
    spec: ruleGroup("sluice", alerts, fields),
  };
}

/** The fields of a rule with these alerts, in one group. */
export function ruleGroup(name: string, all: readonly Alert[], fields: PackageFields = manifest): object {
  const repository = repositoryOf(fields);
  return { groups: [{ name, rules: all.map((alert) => ruleOf(alert, repository)) }] };
}

function ruleOf(alert: Alert, repository: string | undefined): object {
  const { name, expression, severity, forDuration, summary, description, first, runbook } = alert;
  const annotations = {
    summary,
    description: `${description === undefined ? "" : `${description} `}First: ${first}`,
    ...(repository === undefined ? {} : { runbook_url: `${repository}/blob/main/${runbook}` }),
  };
  return {
    alert: name,
    expr: expression,
    for: forDuration ?? "5m",
    labels: { severity: severity ?? "warning" },
    annotations,
  };
}
