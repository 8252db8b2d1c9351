/**
 * The scrape targets and the alert of restarts. They are no part of the standard monitoring, because the function is no part of
 * the standard installation.
 */

import { advanceProcessRestart } from "../../functions/advance-process-restart/function.ts";
import type { Alert } from "./alerts.ts";
import { podMonitor, ruleGroup } from "./monitoring.ts";
import { labelsOf, type Manifest } from "./object.ts";
import type { PackageFields } from "./package-fields.ts";

const { name } = advanceProcessRestart;
const perGuard = "by (cluster, namespace, rollout_group, guard)";

export const restartAlerts: readonly Alert[] = [
  {
    name: "SluiceProcessRestartWaits",
    // A restart that goes on changes its guard, and each guard has a time of its own.
    expression: `time() - max ${perGuard} (sluice_waiting_since_timestamp_seconds{function="${name}"}) > 900`,
    // The 15 minutes are in the expression.
    forDuration: "0s",
    summary:
      "A restart of a process of {{ $labels.rollout_group }} has waited for {{ $value | humanizeDuration }}: {{ $labels.guard }}.",
    first:
      "kubectl sluice why {{ $labels.rollout_group }} -n {{ $labels.namespace }} says what ends that. kubectl sluice restart {{ $labels.rollout_group }} --cancel -n {{ $labels.namespace }} withdraws what is wanted.",
    runbook: "functions/advance-process-restart/README.md#why-it-waits",
  },
];

/** The rule with the alert of restarts. */
export function restartRule(fields?: PackageFields): Manifest {
  return {
    apiVersion: "monitoring.coreos.com/v1",
    kind: "PrometheusRule",
    metadata: { name: "sluice-restart", labels: labelsOf("monitoring") },
    spec: ruleGroup("sluice-restart", restartAlerts, fields),
  };
}

/** The namespace of a group counts, not that of the pod which reports it. */
export function restartMonitors(names: readonly string[]): readonly Manifest[] {
  return names.map((one) => podMonitor(one, { port: "http-metrics", honorLabels: true }));
}
