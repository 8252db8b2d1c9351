/** The metrics of one process. Those that users of rollout-operator alert on keep their names. */
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { BoundedMap } from "../../functions/shared/base/bounded-map.ts";
import type { StoreEvent } from "../../functions/shared/cache/object-store.ts";
import type { StoredBudget } from "../../functions/shared/groups/governing.ts";
import { createFenceMetrics } from "./fence-metrics.ts";
import { createLedgerMetrics } from "./ledger-metrics.ts";
import { liveGauges, type Series } from "./live-gauges.ts";
import { createSuspendedMetrics } from "./volume-metrics.ts";

/** As in rollout-operator, in seconds. */
const requestBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100];
const reconcileBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const messageBuckets = Array.from({ length: 15 }, (_, index) => 4 * 4 ** index);

export type Metrics = ReturnType<typeof createMetrics>;

/** A registry of its own with these metrics and no others. `keys` counts what is queued. */
export function createMetrics(version: string, keys: () => number) {
  const registry = new Registry();
  const registers = [registry];
  const define = definersIn(registers);
  const live = liveGauges(registers);
  const single = (value: number) => [{ labels: {}, value }];
  define
    .gauge("sluice_build_info", "Always 1; its labels say which build this is.", ["version", "node_version"])
    .set({ version, node_version: process.version }, 1);
  live("sluice_queue_keys", "Keys that are queued, running or to be retried.", [], () => single(keys()));
  live("process_resident_memory_bytes", "Resident memory size in bytes.", [], () => single(process.memoryUsage.rss()));
  let watches = () => 0;
  live("sluice_watches", "Watches that views keep open now.", [], () => single(watches()));
  let asked: AskedPaths = () => [];
  live(
    "sluice_review_key_asked",
    "1 while reviews under this path need the key of API servers, 0 while any client may post them.",
    ["path"],
    () => asked().map(([path, isAsked]) => ({ labels: { path }, value: isAsked ? 1 : 0 })),
  );
  let operatorPods: OperatorPods = () => [];
  live(
    "sluice_other_operator",
    "1 while Sluice stands by in a namespace because of this pod of rollout-operator.",
    ["namespace", "pod"],
    () => operatorPods().map((labels) => ({ labels, value: 1 })),
  );
  return {
    registry,
    ...reconcileMetrics(define),
    ...createLedgerMetrics(registers),
    ...createSuspendedMetrics(registers),
    fencing: createFenceMetrics(registers),
    ...httpMetrics(define),
    ...webhookMetrics(define),
    ...statusMetrics(define),
    budgets: createBudgets(define, live),
    neverPossible: createNeverPossible(live),
    /** Shows the number of watches from now on. */
    showWatches(count: () => number): void {
      watches = count;
    },
    /** Shows the pods of rollout-operator for which this process stands by. */
    showOtherOperator(now: OperatorPods): void {
      operatorPods = now;
    },
    /** Shows the paths that require a key; before that there are no series. */
    showReviewKeyAsked(now: AskedPaths): void {
      asked = now;
    },
  };
}

type AskedPaths = () => readonly (readonly [path: string, isAsked: boolean])[];

type OperatorPods = () => readonly { readonly namespace: string; readonly pod: string }[];

type Definers = ReturnType<typeof definersIn>;

/** Defines the metrics of a registry. */
function definersIn(registers: Registry[]) {
  return {
    counter: <Label extends string>(name: string, help: string, labelNames: readonly Label[]) =>
      new Counter({ name, help, labelNames, registers }),
    gauge: <Label extends string>(name: string, help: string, labelNames: readonly Label[]) =>
      new Gauge({ name, help, labelNames, registers }),
    histogram: <Label extends string>(name: string, help: string, labelNames: readonly Label[], buckets: number[]) =>
      new Histogram({ name, help, labelNames, buckets, registers }),
  };
}

function reconcileMetrics({ counter, histogram }: Definers) {
  // rollout-operator has no label for the namespace, because a process serves one. Two groups of one name must not share series.
  const labelNames = ["namespace", "rollout_group"] as const;
  return {
    reconciles: counter("rollout_operator_group_reconciles_total", "Reconciles of a rollout group.", labelNames),
    reconcilesFailed: counter(
      "rollout_operator_group_reconciles_failed_total",
      "Reconciles of a rollout group that failed.",
      labelNames,
    ),
    reconcileSeconds: histogram(
      "rollout_operator_group_reconcile_duration_seconds",
      "How long reconciles of a rollout group took.",
      labelNames,
      reconcileBuckets,
    ),
    verdicts: counter(
      "sluice_verdicts_total",
      "Verdicts by function and guard; rolling and done are what is no wait.",
      ["function", "guard"],
    ),
    acts: counter("sluice_acts_total", "Acts on objects, and how they ended.", ["function", "action", "result"]),
    conflicts: counter(
      "sluice_ledger_conflicts_total",
      "Writes of a ledger that another client had written meanwhile.",
      ["function"],
    ),
    healthAnswers: counter(
      "sluice_health_answers_total",
      "Answers of pods that were asked about health before they go: good, bad or unknown.",
      ["function", "product", "state"],
    ),
    malformed: counter(
      "sluice_malformed_annotations_total",
      "Labels and annotations that were found not to parse, or in the wrong place.",
      ["namespace", "statefulset", "annotation"],
    ),
    events: counter(
      "sluice_events_total",
      "CloudEvents by what became of them: queued, ignored, malformed, refused (503), deferred (left to the next sweep).",
      ["result"],
    ),
  };
}

function httpMetrics({ counter, gauge, histogram }: Definers) {
  const routeLabels = ["method", "route"] as const;
  const clientLabels = ["path", "method", "status_code"] as const;
  return {
    apiSeconds: histogram(
      "rollout_operator_kubernetes_api_client_request_duration_seconds",
      "How long requests to the Kubernetes API took; of a watch, until its headers.",
      clientLabels,
      requestBuckets,
    ),
    podSeconds: histogram(
      "rollout_operator_pod_http_client_request_duration_seconds",
      "How long HTTP requests to pods took, without the wait for their turn.",
      clientLabels,
      requestBuckets,
    ),
    requestSeconds: histogram(
      "rollout_operator_request_duration_seconds",
      "How long HTTP requests to this process took.",
      ["method", "route", "status_code", "ws"],
      requestBuckets,
    ),
    requestBytes: histogram(
      "rollout_operator_request_message_bytes",
      "Sizes of the bodies of HTTP requests to this process.",
      routeLabels,
      messageBuckets,
    ),
    responseBytes: histogram(
      "rollout_operator_response_message_bytes",
      "Sizes of the bodies of the answers to them.",
      routeLabels,
      messageBuckets,
    ),
    connectionsEnded: counter(
      "sluice_connections_ended_total",
      "Connections that were not left to their clients: too-many, idle or crowded while there were too many, unread, late, slow.",
      ["door", "reason"],
    ),
    inflight: gauge(
      "rollout_operator_inflight_requests",
      "HTTP requests to this process that are not answered yet.",
      routeLabels,
    ),
  };
}

function statusMetrics({ counter, histogram }: Definers) {
  return {
    statusRequests: counter("sluice_status_requests_total", "Requests for the status, by the code of the answer.", [
      "code",
    ]),
    statusSeconds: histogram(
      "sluice_status_seconds",
      "How long requests for the status took, with the reads that they waited for.",
      [],
      requestBuckets,
    ),
  };
}

function webhookMetrics({ counter, gauge, histogram }: Definers) {
  return {
    evictions: counter(
      "rollout_operator_zpdb_eviction_requests_total",
      "Reviews of evictions by how they ended, in rollout-operator's words, and by the code of the answer.",
      ["reason", "status"],
    ),
    inflightEvictions: gauge(
      "rollout_operator_zpdb_inflight_eviction_requests",
      "Reviews of evictions that are not answered yet, without those that wait for their turn.",
      [],
    ),
    parkedReviews: gauge("sluice_held_reviews", "Reviews that wait for their turn, which time alone may bring.", [
      "function",
    ]),
    parkedSeconds: histogram(
      "sluice_held_review_seconds",
      "How long reviews waited for their turn, by how that ended: allowed, refused, over, gone, stopped, behind too many.",
      ["function", "outcome"],
      requestBuckets,
    ),
    webhookFailurePolicy: gauge(
      "kube_validating_webhook_failure_policy",
      "1 for the failure policy that an entry of our webhook configurations has, 0 for the other one.",
      ["type", "webhook", "policy"],
    ),
    certificateNotAfter: gauge(
      "sluice_certificate_not_after_timestamp_seconds",
      "When the certificate that is presented expires, in seconds since the epoch; files or secret is where it is from.",
      ["source"],
    ),
  };
}

/** rollout-operator counts what a watch delivers. An alert needs what stands: a budget that stays invalid comes once. */
function createBudgets({ counter }: Definers, live: ReturnType<typeof liveGauges>) {
  const invalid = new Map<string, string>();
  const observed = counter(
    "rollout_operator_zpdb_configurations_observed_total",
    "ZoneAwarePodDisruptionBudgets that a watch delivered: updated, invalid, ignored, deleted.",
    ["result"],
  );
  live("sluice_invalid_budgets", "ZoneAwarePodDisruptionBudgets that are invalid now.", ["namespace"], () =>
    [...Map.groupBy(invalid.values(), (namespace) => namespace)].map(([namespace, all]) => ({
      labels: { namespace },
      value: all.length,
    })),
  );
  return {
    /** Notes what the watch delivers of a budget. */
    note({ namespace, name, parsed }: Pick<StoredBudget, "namespace" | "name" | "parsed">, how: StoreEvent): void {
      const isInvalid = how === "updated" && !("budget" in parsed);
      observed.inc({ result: isInvalid ? "invalid" : how });
      if (isInvalid) invalid.set(`${namespace}/${name}`, namespace);
      else if (how !== "ignored") invalid.delete(`${namespace}/${name}`);
    },
  };
}

/** An alert looks back no further than this, in seconds: a zone that no review has asked about since has no series. */
const reportedForSeconds = 3_600;

/** The most zones with a series. A new one replaces the one that was reported longest ago. */
const mostNeverPossible = 1_000;

/** Rule R25: what can never be has no time to wait that a metric could show, so that the metric is the moment of the report. */
function createNeverPossible(live: ReturnType<typeof liveGauges>) {
  type NeverPossibleSeries = Series<"namespace" | "function" | "zone">;
  const last = new BoundedMap<string, NeverPossibleSeries>(mostNeverPossible);
  live(
    "sluice_never_possible_timestamp_seconds",
    "When a function last told that what is wanted of a zone can never be, in seconds since the epoch.",
    ["namespace", "function", "zone"],
    () => {
      for (const [key, { value }] of last) if (Date.now() / 1000 - value > reportedForSeconds) last.delete(key);
      return last.values();
    },
  );
  return {
    note(labels: NeverPossibleSeries["labels"]): void {
      const key = `${labels.namespace} ${labels.function} ${labels.zone}`;
      last.delete(key);
      last.set(key, { labels, value: Date.now() / 1000 });
    },
  };
}
