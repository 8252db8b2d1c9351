/**
 * The alerts: those that users of rollout-operator have, by their names, and our own. To add one, add an entry to {@link alerts}:
 * tests check that its metrics exist, that its groups are told apart by namespace, and that its section of a README is there.
 */
import { hold } from "../../functions/shared/annotations/suspension.ts";
import { reviewKey, webhookNamespace } from "../../functions/shared/annotations/table.ts";
import { placeholderNamespace } from "./object.ts";

export interface Alert {
  readonly name: string;
  readonly expression: string;
  /** Default: warning. */
  readonly severity?: "critical";
  readonly summary: string;
  /** How long it must hold before it is sent. Default: five minutes. */
  readonly forDuration?: string;
  /** What is behind it, as a template of Prometheus. */
  readonly description?: string;
  /** What its reader does first, as a template of Prometheus: a command where there is one. */
  readonly first: string;
  /** A section of a README that says what to do. */
  readonly runbook: string;
}

/** Computed when the alert is sent and not part of it: a guard that changes during a stalled rollout is no new alert. */
const whyItWaits =
  '{{ range $index, $wait := printf "max by (namespace, function, guard, zone) (sluice_waiting_since_timestamp_seconds{namespace=%q,rollout_group=%q})" ' +
  "$labels.namespace $labels.rollout_group | query }}" +
  "{{ if $index }} {{ end }}{{ .Labels.function }} has waited since {{ .Value | humanizeTimestamp }}: guard {{ .Labels.guard }}" +
  "{{ with .Labels.zone }}, zone {{ . }}{{ end }}.{{ else }}No function has said why.{{ end }}";

/** A command that shows what blocks a group, and since when. */
const askWhy = "kubectl sluice why {{ $labels.rollout_group }} -n {{ $labels.namespace }}";

const perGroup = "by (cluster, namespace, rollout_group)";

function answersWithin(answer: "allowed" | "refused", minutes: number, offset = ""): string {
  return `sum ${perGroup} (increase(sluice_evictions_total{answer="${answer}"}[${minutes}m]${offset})) > 0`;
}

/** True in each of ten minutes: then a client has asked in each ten minutes of the last 30, and no pod has gone in them. */
const evictionsRefused =
  ["", " offset 10m", " offset 20m"].map((offset) => answersWithin("refused", 10, offset)).join(" and ") +
  ` unless ${answersWithin("allowed", 20)}`;

const perClaim = "by (cluster, namespace, rollout_group, kind, function)";

/** Claims that have stood for longer than their kind may, and claims of an unknown kind that have stood for an hour. */
const claimStands =
  `time() - max ${perClaim} (sluice_group_claim_due_timestamp_seconds) > 0` +
  ` or (max ${perClaim} (sluice_group_claims) and max ${perClaim} (sluice_group_claims offset 1h)` +
  ` unless max ${perClaim} (sluice_group_claim_due_timestamp_seconds))`;

export const alerts: readonly Alert[] = [
  {
    name: "IncorrectWebhookConfigurationFailurePolicy",
    expression:
      'count by (type, webhook, namespace) (kube_validating_webhook_failure_policy{policy="Ignore", webhook=~"^pod-eviction.+"} > 0)',
    summary: "The webhook {{ $labels.webhook }} has failurePolicy Ignore: while it is down, no budget is kept.",
    first: `look who changed it: kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations -l ${webhookNamespace.key}={{ $labels.namespace }} -o yaml. Then set it back to Fail where it comes from, in the values of the chart or in your kustomization.`,
    runbook: "functions/rotate-certificate/README.md#the-guards",
  },
  {
    name: "BadZoneAwarePodDisruptionBudgetConfiguration",
    expression: "max by (cluster, namespace) (sluice_invalid_budgets) > 0",
    summary: "A ZoneAwarePodDisruptionBudget in {{ $labels.namespace }} is invalid, and holds what it may govern.",
    first:
      "kubectl -n {{ $labels.namespace }} get zoneawarepoddisruptionbudgets -o yaml | kubectl replace --dry-run=server -f - names the field, and lists the valid budgets as replaced. Correct the other one, and apply it again.",
    runbook: "functions/validate-zone-budget/README.md#what-it-refuses-in-this-order",
  },
  {
    name: "HighNumberInflightZpdbRequests",
    expression: "avg_over_time(rollout_operator_zpdb_inflight_eviction_requests[5m]) > 10",
    summary: "More than 10 reviews of evictions have been waiting for an answer.",
    first:
      "kubectl -n {{ $labels.namespace }} top pods -l app.kubernetes.io/name=sluice shows whether the replicas are short of CPU. If they are not, look how long the API server takes in rollout_operator_kubernetes_api_client_request_duration_seconds.",
    runbook: "functions/evaluate-eviction/README.md#the-guards",
  },
  {
    name: "RolloutOperatorNotReconciling",
    expression:
      "time() - max by (cluster, namespace, rollout_group) (rollout_operator_last_successful_group_reconcile_timestamp_seconds) > 600",
    severity: "critical",
    summary: "{{ $labels.rollout_group }} has work to be done, and no pass over it has left a trace for ten minutes.",
    description: whyItWaits,
    first: `${askWhy}, and kubectl -n {{ $labels.namespace }} get pods -l app.kubernetes.io/name=sluice.`,
    runbook: "knative/README.md#when-no-function-reconciles",
  },
  {
    name: "SluiceRolloutStuck",
    expression:
      "time() - max by (cluster, namespace, rollout_group) (sluice_group_last_progress_timestamp_seconds) > 1800",
    summary:
      "The rollout of {{ $labels.rollout_group }} has stood still for {{ $value | humanizeDuration }}: no pod has become ready at the wanted revision.",
    description: whyItWaits,
    first: `${askWhy}. It names the guard, and what ends it.`,
    runbook: "functions/advance-zone-rollout/README.md#why-it-waits",
  },
  {
    name: "SluiceLedgerUnreadable",
    expression: "max by (cluster, namespace, rollout_group) (sluice_group_ledger_unreadable) > 0",
    severity: "critical",
    summary:
      "The ledger of {{ $labels.rollout_group }} cannot be read: nothing of it is rolled or evicted until it is mended.",
    first: `${askWhy}. It says what of the ledger cannot be read. Correct that annotation: with the Lease its reservations would be lost.`,
    runbook: "functions/advance-zone-rollout/README.md#why-it-waits",
  },
  {
    name: "SluiceNeverPossible",
    expression: "time() - max by (cluster, namespace, function, zone) (sluice_never_possible_timestamp_seconds) < 900",
    // Time does not cure it, and a drain may have asked once and given up.
    forDuration: "0s",
    summary: "{{ $labels.function }} says of {{ $labels.zone }}: never-possible. A client waits for it for ever.",
    first:
      "read the numbers in the Events: kubectl get events -n {{ $labels.namespace }} --field-selector involvedObject.name={{ $labels.zone }}. Then change the budget or the size that they name.",
    runbook: "functions/evaluate-eviction/README.md#the-guards",
  },
  {
    name: "SluiceVolumeRemovalNears",
    expression: "min by (cluster, namespace, zone) (sluice_volume_removal_timestamp_seconds) - time() < 3600",
    // A user may set a shorter time than five minutes.
    forDuration: "0s",
    summary:
      "A suspended volume of {{ $labels.zone }} is removed in {{ $value | humanizeDuration }}, and its data with it.",
    first: `kubectl sluice suspended {{ $labels.zone }} -n {{ $labels.namespace }} shows which. To keep it, kubectl sluice recover brings its pod back with the same volume, and ${hold.key} holds it.`,
    runbook: "functions/gc-suspended-groups/README.md#the-guards",
  },
  {
    name: "SluiceReviewKeyNotAsked",
    expression: "min by (namespace, path) (sluice_review_key_asked) == 0",
    // A tool may write the plain path back, and the key is there again within a minute.
    forDuration: "15m",
    summary:
      "Any client that reaches the port of the webhooks can post reviews under {{ $labels.path }}: no key is asked for there.",
    description: "A webhook configuration that leads to Sluice lacks the key in its path, or cannot be seen.",
    first: `kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations -L ${reviewKey.key} shows which ones are to have it. Keep your tools from writing the plain path back.`,
    runbook: "triggers/README.md#tls",
  },
  {
    name: "SluiceStandsBy",
    expression: "max by (cluster, namespace, pod) (sluice_other_operator) > 0",
    // A swap takes minutes, and the 30 s after it count as well.
    forDuration: "15m",
    summary:
      "Pod {{ $labels.pod }} of rollout-operator runs in {{ $labels.namespace }}: Sluice takes no pod there and refuses drains.",
    first:
      "kubectl -n {{ $labels.namespace }} get pod {{ $labels.pod }} --show-labels tells whose pod it is. Then stop one of the two. To keep Sluice, remove the operator's release or scale its Deployment to 0. If the operator serves other groups, set OTHER_OPERATOR=ignore for Sluice.",
    runbook: "knative/README.md#beside-rollout-operator",
  },
  {
    name: "SluiceCertificateExpiresSoon",
    expression: "min by (namespace) (sluice_certificate_not_after_timestamp_seconds - time()) < 7 * 86400",
    summary: "The certificate of the webhooks expires within a week, and has not been renewed.",
    first:
      "kubectl -n {{ $labels.namespace }} get events --field-selector reason=CertificateWaiting says what the renewal waits for.",
    runbook: "functions/rotate-certificate/README.md#the-guards",
  },
  {
    name: "SluiceDown",
    // After an hour nothing is left of a missing series to compare with, so that the namespace must be written here.
    expression: `absent(sluice_build_info{namespace="${placeholderNamespace}"})`,
    severity: "critical",
    summary:
      "No replica of Sluice in {{ $labels.namespace }} answers: the API server denies evictions and prepared downscales in what it serves.",
    description: "Or Prometheus does not reach the replicas, or gives their series no label namespace.",
    first:
      "kubectl -n {{ $labels.namespace }} get deployments,pods -l app.kubernetes.io/name=sluice, and kubectl -n {{ $labels.namespace }} logs -l app.kubernetes.io/name=sluice --previous of a pod that restarts.",
    runbook: "knative/README.md#when-no-replica-answers",
  },
  {
    name: "SluiceEvictionsRefused",
    expression: evictionsRefused,
    // The expression looks back 20 minutes from each moment of these ten.
    forDuration: "10m",
    summary:
      "Evictions of pods of {{ $labels.rollout_group }} have been refused for 30 minutes, and none has been allowed: a drain waits.",
    description: whyItWaits,
    first: `${askWhy}. It names the guard, and what ends it; the client of the drain has the same message.`,
    runbook: "functions/evaluate-eviction/README.md#the-guards",
  },
  {
    name: "SluiceClaimStands",
    expression: claimStands,
    // The time for which each kind may stand is in the metric.
    forDuration: "0s",
    summary:
      "A claim ({{ $labels.kind }}) of {{ $labels.function }} on {{ $labels.rollout_group }} has stood for longer than it may: other functions wait for it.",
    first: `${askWhy}. It names the claim, and what it waits for. See that {{ $labels.function }} is served and runs: no other function ends its claims.`,
    runbook: "functions/shared/ledger/README.md#claims",
  },
];
