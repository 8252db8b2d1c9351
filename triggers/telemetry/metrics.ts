/** The metrics of one process. Those that users of rollout-operator alert on keep their names. */
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { BoundedMap } from "../../functions/shared/base/bounded-map.ts";
import { createLedgerMetrics } from "./ledger-metrics.ts";
import { createSuspendedMetrics } from "./volume-metrics.ts";

/** As rollout-operator has them, in seconds. */
const requestBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100];
const reconcileBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const messageBuckets = Array.from({ length: 15 }, (_, index) => 4 * 4 ** index);

export type Metrics = ReturnType<typeof createMetrics>;

/** A registry of its own with these metrics and no others. `keys` counts what is queued. */
export function createMetrics(version: string, keys: () => number) {
  const registry = new Registry();
  const registers = [registry];
  new Gauge({
    name: "sluice_build_info",
    help: "Always 1; its labels say which build this is.",
    labelNames: ["version", "node_version"] as const,
    registers,
  }).set({ version, node_version: process.version }, 1);
  new Gauge({
    name: "sluice_queue_keys",
    help: "Keys that are queued, running or to be retried.",
    registers,
    collect() {
      this.set(keys());
    },
  });
  new Gauge({
    name: "process_resident_memory_bytes",
    help: "Resident memory size in bytes.",
    registers,
    collect() {
      this.set(process.memoryUsage.rss());
    },
  });
  return {
    registry,
    ...groupMetrics(registers),
    ...createLedgerMetrics(registers),
    ...createSuspendedMetrics(registers),
    ...httpMetrics(registers),
    ...evictionMetrics(registers),
    ...webhookMetrics(registers),
    ...sluiceMetrics(registers),
    showWatches: createWatches(registers),
    showReviewKeyAsked: createReviewKeyAsked(registers),
  };
}

/** Answers what says where the number is known. */
function createWatches(registers: Registry[]): (count: () => number) => void {
  let counted = () => 0;
  new Gauge({
    name: "sluice_watches",
    help: "Watches that views keep open now.",
    registers,
    collect() {
      this.set(counted());
    },
  });
  return (count) => {
    counted = count;
  };
}

/** Answers what says where it is known under which paths a key is asked for; before that there are no series. */
function createReviewKeyAsked(registers: Registry[]) {
  type AskedPaths = () => readonly (readonly [path: string, isAsked: boolean])[];
  let asked: AskedPaths = () => [];
  new Gauge({
    name: "sluice_review_key_asked",
    help: "1 while reviews under this path need the key of API servers, 0 while any client may post them.",
    labelNames: ["path"] as const,
    registers,
    collect() {
      for (const [path, isAsked] of asked()) this.set({ path }, isAsked ? 1 : 0);
    },
  });
  return (now: AskedPaths): void => {
    asked = now;
  };
}

function groupMetrics(registers: Registry[]) {
  const labelNames = ["rollout_group"] as const;
  return {
    reconciles: new Counter({
      name: "rollout_operator_group_reconciles_total",
      help: "Passes over a rollout group.",
      labelNames,
      registers,
    }),
    reconcilesFailed: new Counter({
      name: "rollout_operator_group_reconciles_failed_total",
      help: "Passes over a rollout group that failed.",
      labelNames,
      registers,
    }),
    reconcileSeconds: new Histogram({
      name: "rollout_operator_group_reconcile_duration_seconds",
      help: "How long passes over a rollout group took.",
      labelNames,
      buckets: reconcileBuckets,
      registers,
    }),
  };
}

function httpMetrics(registers: Registry[]) {
  const routeLabels = ["method", "route"] as const;
  return {
    apiSeconds: new Histogram({
      name: "rollout_operator_kubernetes_api_client_request_duration_seconds",
      help: "How long requests to the Kubernetes API took; of a watch, until its headers.",
      labelNames: ["path", "method", "status_code"] as const,
      buckets: requestBuckets,
      registers,
    }),
    podSeconds: new Histogram({
      name: "rollout_operator_pod_http_client_request_duration_seconds",
      help: "How long HTTP requests to pods took, without the wait for their turn.",
      labelNames: ["path", "method", "status_code"] as const,
      buckets: requestBuckets,
      registers,
    }),
    requestSeconds: new Histogram({
      name: "rollout_operator_request_duration_seconds",
      help: "How long HTTP requests to this process took.",
      labelNames: ["method", "route", "status_code", "ws"] as const,
      buckets: requestBuckets,
      registers,
    }),
    requestBytes: new Histogram({
      name: "rollout_operator_request_message_bytes",
      help: "Sizes of the bodies of HTTP requests to this process.",
      labelNames: routeLabels,
      buckets: messageBuckets,
      registers,
    }),
    responseBytes: new Histogram({
      name: "rollout_operator_response_message_bytes",
      help: "Sizes of the bodies of the answers to them.",
      labelNames: routeLabels,
      buckets: messageBuckets,
      registers,
    }),
    connectionsEnded: new Counter({
      name: "sluice_connections_ended_total",
      help: "Connections that were not left to their clients: too-many, idle or crowded while there were too many, unread, late, slow.",
      labelNames: ["door", "reason"] as const,
      registers,
    }),
    inflight: new Gauge({
      name: "rollout_operator_inflight_requests",
      help: "HTTP requests to this process that are not answered yet.",
      labelNames: routeLabels,
      registers,
    }),
  };
}

function evictionMetrics(registers: Registry[]) {
  return {
    budgets: new Counter({
      name: "rollout_operator_zpdb_configurations_observed_total",
      help: "ZoneAwarePodDisruptionBudgets that were heard of: updated, invalid, ignored, deleted.",
      labelNames: ["result"] as const,
      registers,
    }),
    evictions: new Counter({
      name: "rollout_operator_zpdb_eviction_requests_total",
      help: "Reviews of evictions by how they ended, in rollout-operator's words, and by the code of the answer.",
      labelNames: ["reason", "status"] as const,
      registers,
    }),
    inflightEvictions: new Gauge({
      name: "rollout_operator_zpdb_inflight_eviction_requests",
      help: "Reviews of evictions that are not answered yet, without those that wait for their turn.",
      registers,
    }),
    held: new Gauge({
      name: "sluice_held_reviews",
      help: "Reviews that wait for their turn, which time alone may bring.",
      labelNames: ["function"] as const,
      registers,
    }),
    heldSeconds: new Histogram({
      name: "sluice_held_review_seconds",
      help: "How long reviews waited for their turn, by how that ended: allowed, refused, over, gone, stopped, behind too many.",
      labelNames: ["function", "outcome"] as const,
      buckets: requestBuckets,
      registers,
    }),
  };
}

function webhookMetrics(registers: Registry[]) {
  return {
    webhookFailurePolicy: new Gauge({
      name: "kube_validating_webhook_failure_policy",
      help: "1 for the failure policy that an entry of our webhook configurations has, 0 for the other one.",
      labelNames: ["type", "webhook", "policy"] as const,
      registers,
    }),
    certificateNotAfter: new Gauge({
      name: "sluice_certificate_not_after_timestamp_seconds",
      help: "When the certificate that is presented expires, in seconds since the epoch; files or secret is where it is from.",
      labelNames: ["source"] as const,
      registers,
    }),
  };
}

function sluiceMetrics(registers: Registry[]) {
  return {
    verdicts: new Counter({
      name: "sluice_verdicts_total",
      help: "Verdicts by function and guard; rolling and done are what is no wait.",
      labelNames: ["function", "guard"] as const,
      registers,
    }),
    acts: new Counter({
      name: "sluice_acts_total",
      help: "Acts on objects, and how they ended.",
      labelNames: ["function", "action", "result"] as const,
      registers,
    }),
    conflicts: new Counter({
      name: "sluice_ledger_conflicts_total",
      help: "Writes of a ledger that another client had written meanwhile.",
      labelNames: ["function"] as const,
      registers,
    }),
    healthAnswers: new Counter({
      name: "sluice_health_answers_total",
      help: "Answers of pods that were asked about health before they go: good, bad or unknown.",
      labelNames: ["function", "product", "state"] as const,
      registers,
    }),
    neverPossible: createNeverPossible(registers),
    malformed: new Counter({
      name: "sluice_malformed_annotations_total",
      help: "Labels and annotations that were found not to parse.",
      labelNames: ["namespace", "statefulset", "annotation"] as const,
      registers,
    }),
    events: new Counter({
      name: "sluice_events_total",
      help: "CloudEvents by what became of them: queued, ignored, malformed, refused (503), deferred (left to the next sweep).",
      labelNames: ["result"] as const,
      registers,
    }),
  };
}

/** An alert looks back no further than this, in seconds: a zone that no review has asked about since has no series. */
const toldForSeconds = 3_600;

/** So many zones are told of at most; the one that was told of longest ago makes room. */
const mostNeverPossible = 1_000;

/** Rule R25: what can never be is no wait that a time to wait would tell of, so that the moment itself is a metric. */
function createNeverPossible(registers: Registry[]) {
  const labelNames = ["namespace", "function", "zone"] as const;
  type NeverPossibleLabels = Readonly<Record<(typeof labelNames)[number], string>>;
  const last = new BoundedMap<string, { readonly labels: NeverPossibleLabels; readonly atSeconds: number }>(
    mostNeverPossible,
  );
  new Gauge({
    name: "sluice_never_possible_timestamp_seconds",
    help: "When a function last told that what is wanted of a zone can never be, in seconds since the epoch.",
    labelNames,
    registers,
    collect() {
      this.reset();
      for (const [key, { labels, atSeconds }] of last) {
        if (Date.now() / 1000 - atSeconds > toldForSeconds) last.delete(key);
        else this.set(labels, atSeconds);
      }
    },
  });
  return {
    note: (labels: NeverPossibleLabels): void => {
      const key = `${labels.namespace} ${labels.function} ${labels.zone}`;
      last.delete(key);
      last.set(key, { labels, atSeconds: Date.now() / 1000 });
    },
  };
}
