/** Metrics and log lines for operators: one log line for each change. */
import { type DestinationStream, pino } from "pino";
import { escapeLines } from "../../functions/shared/base/escape-control.ts";
import { describeSpan } from "../../functions/shared/base/spans.ts";
import { isGroup, type Key, pathOf } from "../../functions/shared/contract/keys.ts";
import type { ReconcileReport, Reporter } from "../../functions/shared/contract/reporter.ts";
import { failingGuards } from "../../functions/shared/contract/verdict.ts";
import type { PodObservation } from "../../functions/shared/http/calls.ts";
import type { RequestObservation } from "../../functions/shared/kubernetes/client.ts";
import { ClusterError } from "../../functions/shared/kubernetes/cluster.ts";
import { type GroupKey, groupPathOf } from "../../functions/shared/workloads/statefulsets.ts";
import { createMetrics, type Metrics } from "./metrics.ts";

export const logLevels = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof logLevels)[number];

/** The result of a CloudEvent: `deferred` waits for the next sweep, and `refused` may be sent again. */
export type EventResult = "queued" | "ignored" | "malformed" | "refused" | "deferred";

export interface Reporting extends Reporter {
  readonly metrics: Metrics;
  log(level: LogLevel, message: string, fields?: object): void;
  /** One run of a function over a group, as the runner sees it. `error` is what it threw, or why it counts as failed. */
  reconciled(key: GroupKey, seconds: number, error?: unknown): void;
  /** One exchange with the API server. */
  apiRequest(observation: RequestObservation): void;
  /** One exchange with a pod. */
  podRequest(observation: PodObservation): void;
  event(result: EventResult): void;
  /** Forgets a group that is no more, and its series. */
  forget(key: GroupKey): void;
  /** Forgets the keys of these namespaces that are no more, and their series. Undefined: of all namespaces. */
  keepOnly(keys: readonly Key[], namespaces?: readonly string[]): void;
}

export interface ReportingOptions {
  readonly version: string;
  /** The function's name, or `all`. */
  readonly serving: string;
  readonly level: LogLevel;
  /** How many keys are queued. */
  readonly keys: () => number;
  /** Where log lines go; absent: standard output. */
  readonly destination?: DestinationStream;
}

/** A function's last report about a key. */
interface LastReported extends Pick<ReconcileReport, "key" | "guard" | "zone"> {
  readonly series: WaitingSeries | undefined;
}

type WaitingSeries = Readonly<Record<"namespace" | "rollout_group" | "function" | "guard" | "zone", string>>;

export function createReporting(options: ReportingOptions): Reporting {
  const metrics = createMetrics(options.version, options.keys);
  const { destination = pino.destination({ fd: 1, sync: true }) } = options;
  const logger = pino(
    {
      level: options.level,
      base: { serving: options.serving },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: describe },
    },
    // Terminals show logs, and JSON itself escapes only controls below U+0020.
    { write: (lines) => destination.write(escapeLines(lines)) },
  );
  const log = (level: LogLevel, message: string, fields: object = {}) => logger[level](fields, message);
  return {
    metrics,
    log,
    ...reportGroups(metrics, log),
    ...reportTraffic(metrics),
    ...metrics.fencing,
  };
}

/** An error of the API server needs no stack, because its message names the request. Any other error is a bug. */
function describe(error: unknown): unknown {
  if (!(error instanceof ClusterError)) return pino.stdSerializers.err(error as Error);
  const { code, reason, verb, resource } = error;
  return { code, reason, verb, resource };
}

type Log = Reporting["log"];

function reportGroups(
  metrics: Metrics,
  log: Log,
): Omit<Reporter, "parked" | keyof Metrics["fencing"]> & Pick<Reporting, "reconciled" | "forget" | "keepOnly"> {
  const lastReported = new Map<string, LastReported>();
  const malformed = new Map<string, MalformedSeries>();
  const reconciledGroups = new Map<string, GroupKey>();
  const bornSeconds = Date.now() / 1000;
  const known = { lastReported, malformed, reconciledGroups };
  return {
    verdict(report) {
      describeSpan({ "sluice.guard": report.guard, "sluice.zone": report.zone });
      metrics.verdicts.inc({ function: report.function, guard: report.guard });
      if (report.guard === "never-possible")
        metrics.neverPossible.note({
          namespace: report.key.namespace,
          function: report.function,
          zone: report.zone,
        });
      const place = `${report.function} ${pathOf(report.key)}`;
      const before = lastReported.get(place);
      lastReported.set(place, { ...report, series: showWaiting(metrics, before?.series, report) });
      if (before?.guard === report.guard && before.zone === report.zone) return;
      const level = failingGuards.has(report.guard) ? "error" : "info";
      log(level, report.message, { ...about(report.key, report.function), ...verdictOf(report) });
    },
    act(report) {
      const { action, object, zone, result, reason } = report;
      metrics.acts.inc({ function: report.function, action, result });
      const fields = { ...about(report.key, report.function), action, object, zone, result, reason };
      const isTrouble = result === "refused" || result === "failed" || result === "late";
      log(isTrouble ? "warn" : "info", `${action} ${object}: ${result}, ${reason}`, fields);
    },
    conflict(key, by) {
      metrics.conflicts.inc({ function: by });
      log("debug", "another client wrote the ledger meanwhile; deciding again", about(key, by));
    },
    problem(key, by, message, error) {
      // Refusals and missing answers of the API server are expected; any other error is a bug.
      const level = error === undefined || error instanceof ClusterError ? "warn" : "error";
      log(level, message, { ...about(key, by), ...(error === undefined ? {} : { err: error }) });
    },
    health({ function: by, product, state }) {
      metrics.healthAnswers.inc({ function: by, product, state });
    },
    malformed(key, statefulSet, annotation, message) {
      const labels = { namespace: key.namespace, statefulset: statefulSet, annotation };
      metrics.malformed.inc(labels);
      malformed.set(`${key.namespace}/${statefulSet} ${annotation}`, { key, labels });
      log("warn", message, { ...about(key), object: statefulSet, zone: statefulSet, reason: "malformed", annotation });
    },
    reconciled(key, seconds, error) {
      const labels = { namespace: key.namespace, rollout_group: key.group };
      // An alert cannot see a missing series: a success that never came is as old as this process.
      const isFirst = !reconciledGroups.has(groupPathOf(key));
      if (error !== undefined && isFirst) metrics.lastSuccess.set(labels, bornSeconds);
      reconciledGroups.set(groupPathOf(key), key);
      metrics.reconciles.inc(labels);
      metrics.reconcilesFailed.inc(labels, error === undefined ? 0 : 1);
      metrics.reconcileSeconds.observe(labels, seconds);
      if (error === undefined) metrics.lastSuccess.set(labels, Date.now() / 1000);
    },
    forget: (key) => forgetGroups(metrics, known, (other) => pathOf(other) === pathOf(key)),
    keepOnly(keys, namespaces) {
      const living = new Set(keys.map(pathOf));
      forgetGroups(
        metrics,
        known,
        (key) => !living.has(pathOf(key)) && (namespaces === undefined || namespaces.includes(key.namespace)),
      );
    },
  };
}

/** Reports about keys that have series. */
interface ReportedKeys {
  readonly lastReported: Map<string, LastReported>;
  readonly malformed: Map<string, MalformedSeries>;
  readonly reconciledGroups: Map<string, GroupKey>;
}

interface MalformedSeries {
  readonly key: GroupKey;
  readonly labels: Parameters<Metrics["malformed"]["remove"]>[0];
}

function forgetGroups(
  metrics: Metrics,
  { lastReported, malformed, reconciledGroups }: ReportedKeys,
  isGone: (key: Key) => boolean,
): void {
  for (const [place, { key, series }] of lastReported) {
    if (!isGone(key)) continue;
    lastReported.delete(place);
    if (series !== undefined) metrics.waitingSince.remove({ ...series });
  }
  for (const [place, { key, labels }] of malformed) {
    if (!isGone(key)) continue;
    malformed.delete(place);
    metrics.malformed.remove(labels);
  }
  for (const [place, key] of reconciledGroups) {
    if (!isGone(key)) continue;
    reconciledGroups.delete(place);
    const labels = { namespace: key.namespace, rollout_group: key.group };
    metrics.reconciles.remove(labels);
    metrics.reconcilesFailed.remove(labels);
    metrics.reconcileSeconds.remove(labels);
    metrics.lastSuccess.remove(labels);
  }
}

/** One series for each group that is not done: its guard, zone and time. */
function showWaiting(
  metrics: Metrics,
  before: WaitingSeries | undefined,
  { key, function: by, guard, zone, sinceMs }: ReconcileReport,
): WaitingSeries | undefined {
  const moved = before !== undefined && (before.guard !== guard || before.zone !== zone);
  if (moved) metrics.waitingSince.remove({ ...before });
  if (guard === "done" || !isGroup(key)) return undefined;
  const series = { namespace: key.namespace, rollout_group: key.group, function: by, guard, zone };
  metrics.waitingSince.set(series, sinceMs / 1000);
  return series;
}

function reportTraffic(metrics: Metrics): Pick<Reporting, "parked" | "apiRequest" | "podRequest" | "event"> {
  let alreadyParked = 0;
  return {
    parked({ function: by, parked, ended }) {
      metrics.parkedReviews.set({ function: by }, parked);
      // Users alert on many of these, and a drain that waits for its turn must not raise that alert.
      metrics.inflightEvictions.dec(parked - alreadyParked);
      alreadyParked = parked;
      if (ended !== undefined) metrics.parkedSeconds.observe({ function: by, outcome: ended.outcome }, ended.seconds);
    },
    apiRequest({ path, method, statusCode, seconds }) {
      metrics.apiSeconds.observe({ path, method, status_code: String(statusCode) }, seconds);
    },
    podRequest({ path, method, statusCode, seconds }) {
      metrics.podSeconds.observe({ path, method, status_code: String(statusCode) }, seconds);
    },
    event(result) {
      metrics.events.inc({ result });
    },
  };
}

function verdictOf({ guard, zone, sinceMs, shadow }: ReconcileReport): object {
  // It comes from an annotation, and an impossible date must not end a reconcile.
  const since = Math.abs(sinceMs) <= 8.64e15 ? { since: new Date(sinceMs).toISOString() } : {};
  return { guard, zone, ...since, ...(shadow ? { shadow } : {}) };
}

function about(key: Key, by?: string): object {
  const which = isGroup(key) ? { group: key.group } : { resource: key.resource, object: key.name };
  return { namespace: key.namespace, ...which, ...(by === undefined ? {} : { function: by }) };
}
