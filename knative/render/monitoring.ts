/**
 * What Prometheus scrapes, and the alerts: those that users of rollout-operator have, by their names,
 * and a few of our own. Several replicas export what they know of a group as times; the newest one counts.
 */
import { hold } from "../../functions/shared/annotations/suspension.ts";
import { reviewKey } from "../../functions/shared/annotations/table.ts";
import { answersReviews, labelsOf, type Manifest, reviewService } from "./object.ts";

/** Where the READMEs can be read that alerts point at. */
const repository = "https://github.com/sluice/sluice/blob/main";

interface Alert {
  readonly name: string;
  readonly expression: string;
  /** Default: warning. */
  readonly severity?: "critical";
  readonly summary: string;
  /** How long it must hold before it is sent. Default: five minutes. */
  readonly forDuration?: string;
  /** Why groups wait, as a template of Prometheus. */
  readonly description?: string;
  /** A section of a README that says what to do. */
  readonly runbook: string;
}

/** Asked when the alert is sent and not part of it: a guard that changes while a rollout stands still is no new alert. */
const whyItWaits =
  '{{ range printf "max by (function, guard, zone) (sluice_waiting_since_timestamp_seconds{namespace=%q,rollout_group=%q})" ' +
  "$labels.namespace $labels.rollout_group | query }}" +
  "{{ .Labels.function }} has waited since {{ .Value | humanizeTimestamp }}: guard {{ .Labels.guard }}" +
  "{{ with .Labels.zone }}, zone {{ . }}{{ end }}. {{ else }}No function has said why. {{ end }}" +
  "kubectl sluice why {{ $labels.rollout_group }} -n {{ $labels.namespace }} says more.";

const alerts: readonly Alert[] = [
  {
    name: "IncorrectWebhookConfigurationFailurePolicy",
    expression:
      'count by (type, webhook, namespace) (kube_validating_webhook_failure_policy{policy="Ignore", webhook=~"^pod-eviction.+"} > 0)',
    summary: "The webhook {{ $labels.webhook }} has failurePolicy Ignore: while it is down, no budget is kept.",
    runbook: "functions/rotate-certificate/README.md#the-guards",
  },
  {
    name: "BadZoneAwarePodDisruptionBudgetConfiguration",
    expression:
      'sum by (job, namespace) (rate(rollout_operator_zpdb_configurations_observed_total{result="invalid"}[5m])) > 0',
    summary: "A ZoneAwarePodDisruptionBudget in {{ $labels.namespace }} is invalid, and holds what it may govern.",
    runbook: "functions/validate-zone-budget/README.md#what-it-refuses-in-this-order",
  },
  {
    name: "HighNumberInflightZpdbRequests",
    expression: "avg_over_time(rollout_operator_zpdb_inflight_eviction_requests[5m]) > 10",
    summary: "More than 10 reviews of evictions have been waiting for an answer.",
    runbook: "functions/evaluate-eviction/README.md#the-guards",
  },
  {
    name: "RolloutOperatorNotReconciling",
    expression:
      "time() - max by (cluster, namespace, rollout_group) (rollout_operator_last_successful_group_reconcile_timestamp_seconds) > 600",
    severity: "critical",
    summary: "{{ $labels.rollout_group }} has work to be done, and no pass over it has left a trace for ten minutes.",
    description: whyItWaits,
    runbook: "knative/README.md#when-no-function-reconciles",
  },
  {
    name: "SluiceRolloutStuck",
    expression:
      "time() - max by (cluster, namespace, rollout_group) (sluice_group_last_progress_timestamp_seconds) > 1800",
    summary:
      "The rollout of {{ $labels.rollout_group }} has stood still for {{ $value | humanizeDuration }}: no pod has become ready at the wanted revision.",
    description: whyItWaits,
    runbook: "functions/advance-zone-rollout/README.md#why-it-waits",
  },
  {
    name: "SluiceLedgerUnreadable",
    expression: "max by (cluster, namespace, rollout_group) (sluice_group_ledger_unreadable) > 0",
    severity: "critical",
    summary:
      "The ledger of {{ $labels.rollout_group }} cannot be read: nothing of it is rolled or evicted until it is mended.",
    runbook: "functions/advance-zone-rollout/README.md#why-it-waits",
  },
  {
    name: "SluiceNeverPossible",
    expression: "time() - max by (cluster, namespace, function, zone) (sluice_never_possible_timestamp_seconds) < 900",
    // No time makes it better, and a drain may have asked once and given up.
    forDuration: "0s",
    summary: "{{ $labels.function }} says of {{ $labels.zone }}: never-possible. A client waits for it for ever.",
    description:
      "The numbers are in the Events: kubectl get events -n {{ $labels.namespace }} --field-selector involvedObject.name={{ $labels.zone }}.",
    runbook: "functions/evaluate-eviction/README.md#the-guards",
  },
  {
    name: "SluiceVolumeRemovalNears",
    expression: "min by (cluster, namespace, zone) (sluice_volume_removal_timestamp_seconds) - time() < 3600",
    // A time may be shorter than five minutes.
    forDuration: "0s",
    summary:
      "A suspended volume of {{ $labels.zone }} is removed in {{ $value | humanizeDuration }}, and its data with it.",
    description: `kubectl sluice suspended {{ $labels.zone }} -n {{ $labels.namespace }} shows which; kubectl sluice recover brings its pod back with the same volume, and ${hold.key} keeps it.`,
    runbook: "functions/gc-suspended-groups/README.md#the-guards",
  },
  {
    name: "SluiceReviewKeyNotAsked",
    expression: "min by (namespace, path) (sluice_review_key_asked) == 0",
    // A tool may write the plain path back, and the key is there again within a minute.
    forDuration: "15m",
    summary:
      "Any client that reaches the port of the webhooks can post reviews under {{ $labels.path }}: no key is asked for there.",
    description: `A webhook configuration that leads to Sluice lacks the key in its path, or cannot be seen. kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations -L ${reviewKey.key} shows which ones are to have it.`,
    runbook: "triggers/README.md#tls",
  },
  {
    name: "SluiceStandsBy",
    expression: "max by (cluster, namespace, pod) (sluice_other_operator) > 0",
    // A swap takes minutes, and the 30 s after it count as well.
    forDuration: "15m",
    summary:
      "Pod {{ $labels.pod }} of rollout-operator runs in {{ $labels.namespace }}: Sluice takes no pod there and refuses drains.",
    description:
      "First stop one of the two. To keep Sluice, remove the operator's release or scale its Deployment to 0. If the operator serves other groups, set OTHER_OPERATOR=ignore for Sluice.",
    runbook: "knative/README.md#beside-rollout-operator",
  },
  {
    name: "SluiceCertificateExpiresSoon",
    expression: "min by (namespace) (sluice_certificate_not_after_timestamp_seconds - time()) < 7 * 86400",
    summary: "The certificate of the webhooks expires within a week, and has not been renewed.",
    runbook: "functions/rotate-certificate/README.md#the-guards",
  },
];

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

export function prometheusRule(): Manifest {
  const rules = alerts.map(({ name, expression, severity, forDuration, summary, description, runbook }) => ({
    alert: name,
    expr: expression,
    for: forDuration ?? "5m",
    labels: { severity: severity ?? "warning" },
    annotations: {
      summary,
      ...(description === undefined ? {} : { description }),
      runbook_url: `${repository}/${runbook}`,
    },
  }));
  return {
    apiVersion: "monitoring.coreos.com/v1",
    kind: "PrometheusRule",
    metadata: { name: "sluice", labels: labelsOf("monitoring") },
    spec: { groups: [{ name: "sluice", rules }] },
  };
}
