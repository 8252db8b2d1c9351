/** The panels of the dashboard. Every expression groups by namespace, so that groups of one name in two namespaces stay apart. */
import {
  by,
  type Graph,
  highest,
  mean,
  rate,
  reviews,
  sinceNewest,
  slowest,
  sum,
  type TablePanel,
  untilFirst,
  where,
  whereGroup,
} from "./dashboard-queries.ts";

const requests = "rollout_operator_request_duration_seconds";
const calls = "rollout_operator_kubernetes_api_client_request_duration_seconds";
const lastSuccess = "rollout_operator_last_successful_group_reconcile_timestamp_seconds";
const waitLabels = ["namespace", "rollout_group", "zone", "function", "guard"];

export const rows: Readonly<Record<string, readonly (Graph | TablePanel)[]>> = {
  "Waits now": [
    {
      title: "Waits now",
      description: "What each group that is not done waits for. kubectl sluice why GROUP says more of one.",
      expression: `1000 * min by (${waitLabels.join(", ")}) (sluice_waiting_since_timestamp_seconds${whereGroup} > 0)`,
      columns: waitLabels,
      since: "since",
    },
  ],
  Evictions: [
    {
      title: "Evictions by answer",
      description:
        "Answers to the evictions of a group's pods, without dry runs. A drain retries what is refused; it makes progress while some are allowed.",
      unit: "ops",
      ...rate("sluice_evictions_total", "rollout_group, answer"),
    },
    {
      title: "Reviews that are held",
      description: "Evictions whose answer waits for their turn: each process holds 64 of them at most.",
      unit: "short",
      ...sum("sluice_held_reviews", "function"),
    },
    {
      title: "99th percentile of the time that reviews were held",
      description: "How long evictions waited for their turn, by how that ended.",
      unit: "s",
      ...slowest("sluice_held_review_seconds", "outcome"),
    },
    {
      title: "Time since the last never-possible",
      description:
        "A client wants what the numbers of a zone can never allow. Read the numbers in the Events of the zone, and change the budget or the size.",
      unit: "s",
      ...sinceNewest("sluice_never_possible_timestamp_seconds", "function, zone"),
    },
  ],
  Claims: [
    {
      title: "Claims",
      description: "Claims in the ledgers, such as scale-downs that go on. Other functions wait for their zones.",
      unit: "short",
      ...highest("sluice_group_claims", "rollout_group, kind, function"),
    },
    {
      title: "Claims may stand for",
      description: "How long the first claim of a kind may still stand. Below 0 it has stood for too long.",
      unit: "s",
      warnsBelowSeconds: 900,
      ...untilFirst("sluice_group_claim_due_timestamp_seconds", "rollout_group, kind, function"),
    },
    {
      title: "Health answers",
      description: "What pods said that were asked before they go. Where the answer is bad or unknown, they stay.",
      unit: "ops",
      ...rate("sluice_health_answers_total", "function, product, state"),
    },
    {
      title: "Ledger conflicts",
      description: "Writes that failed because another client had written the ledger. The function decides again.",
      unit: "ops",
      ...rate("sluice_ledger_conflicts_total", "function"),
    },
  ],
  "Why groups wait": [
    {
      title: "Waiting for, since",
      description: "How long each guard has held. Ask kubectl sluice why about a line that only rises.",
      unit: "s",
      ...by(
        "rollout_group, zone, guard",
        (group) => `time() - min ${group} (sluice_waiting_since_timestamp_seconds${whereGroup} > 0)`,
      ),
    },
    {
      title: "Verdicts by guard",
      description: "How often functions decided so. All but rolling and done are waits.",
      unit: "ops",
      ...rate("sluice_verdicts_total", "function, guard"),
    },
    {
      title: "Time since last progress",
      description: "Since when no pod has become ready at the wanted revision, while some are outdated.",
      unit: "s",
      ...sinceNewest("sluice_group_last_progress_timestamp_seconds"),
    },
  ],
  Groups: [
    {
      title: "Outdated pods",
      description: "Pods of another revision than the wanted one, paused zones included.",
      unit: "short",
      ...highest("sluice_group_outdated_pods", "rollout_group, zone"),
    },
    {
      title: "Pods not ready",
      description: "Wanted pods that are missing, terminating or not ready.",
      unit: "short",
      ...highest("sluice_group_pods_not_ready", "rollout_group, zone"),
    },
    {
      title: "Reservations",
      description: "Pods that may go now, or have gone and are not back, by the function that reserved them.",
      unit: "short",
      ...highest("sluice_group_reservations", "rollout_group, function"),
    },
    {
      title: "Suspended volumes are removed in",
      description: "How long it is until the next suspended volume of a zone may be removed, and its data with it.",
      unit: "s",
      warnsBelowSeconds: 3_600,
      ...untilFirst("sluice_volume_removal_timestamp_seconds", "zone"),
    },
    {
      title: "Size of suspended volumes",
      description: "How large the volumes are that are kept after their pods have gone.",
      unit: "bytes",
      ...highest("sluice_suspended_bytes", "zone"),
    },
  ],
  "Incoming webhook requests": [
    {
      title: "By status",
      description: "Reviews by the HTTP status of their answer. A refusal is a 200, too: it is in the answer.",
      unit: "reqps",
      ...rate(`${requests}_count`, "status_code", reviews),
    },
    {
      title: "By webhook",
      description: "Reviews by the path that the API server asks.",
      unit: "reqps",
      ...rate(`${requests}_count`, "route", reviews),
    },
    {
      title: "99th percentile by webhook",
      description: "How long answers took, those included that were held until their turn.",
      unit: "s",
      ...slowest(requests, "route", reviews),
    },
    {
      title: "In flight by webhook",
      description: "Reviews that are not answered yet.",
      unit: "short",
      ...sum("rollout_operator_inflight_requests", "route", reviews),
    },
    {
      title: "Average size of requests",
      description: "Size of the reviews that the API server sends.",
      unit: "bytes",
      ...mean("rollout_operator_request_message_bytes", "route", reviews),
    },
  ],
  "Reconciliation loop": [
    {
      title: "Attempts",
      description: "Reconciles of a group.",
      unit: "ops",
      ...rate("rollout_operator_group_reconciles_total", "rollout_group"),
    },
    {
      title: "Failures",
      description: "Reconciles that failed. The log has the error.",
      unit: "ops",
      ...rate("rollout_operator_group_reconciles_failed_total", "rollout_group"),
    },
    {
      title: "Average duration",
      description: "How long a reconcile of a group took.",
      unit: "s",
      ...mean("rollout_operator_group_reconcile_duration_seconds", "rollout_group"),
    },
    {
      title: "Time since last success",
      description: "Since when no reconcile has succeeded, while there is work.",
      unit: "s",
      ...sinceNewest(lastSuccess),
    },
  ],
  "Outgoing Kubernetes control plane API requests": [
    {
      title: "By status",
      description: "Requests to the API server by their status. A 403 is a right that is missing.",
      unit: "reqps",
      ...rate(`${calls}_count`, "status_code"),
    },
    {
      title: "By route",
      description: "Requests to the API server by method and path.",
      unit: "reqps",
      ...rate(`${calls}_count`, "method, path"),
    },
    {
      title: "Average latency",
      description: "How long the API server took to answer.",
      unit: "s",
      ...mean(calls, "path"),
    },
  ],
  ZoneAwarePodDisruptionBudgets: [
    {
      title: "Configuration changes by result",
      description: "Budgets that a watch delivered. An invalid one holds what it may govern.",
      unit: "ops",
      ...rate("rollout_operator_zpdb_configurations_observed_total", "result"),
    },
    {
      title: "Eviction requests by status",
      description: "Reviews of evictions in rollout-operator's words, dry runs included.",
      unit: "reqps",
      ...rate("rollout_operator_zpdb_eviction_requests_total", "status, reason"),
    },
    {
      title: "Eviction requests in flight",
      description: "Reviews of evictions that are not answered yet, without those that are held.",
      unit: "short",
      ...sum("rollout_operator_zpdb_inflight_eviction_requests", ""),
    },
  ],
  Resources: [
    {
      title: "Memory",
      description: "Resident memory of each replica.",
      unit: "bytes",
      expression: 'process_resident_memory_bytes{namespace=~"$namespace", job="rollout-operator"}',
      legend: "{{namespace}} {{pod}}",
    },
    {
      title: "Running instances",
      description: "Replicas that answer, by version. With none, the API server denies evictions.",
      unit: "short",
      ...by("version", (group) => `count ${group} (sluice_build_info${where})`),
    },
    {
      title: "Time to the certificate's end",
      description:
        "How long the certificate of the webhooks is still valid. Below 0 it has expired, and the API server trusts no answer.",
      unit: "s",
      warnsBelowSeconds: 7 * 86_400,
      ...untilFirst("sluice_certificate_not_after_timestamp_seconds", "source"),
    },
  ],
};
