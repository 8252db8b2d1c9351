/**
 * The metrics of fences. Counters are of this process. Gauges are of the cluster: each replica lists it by itself, so that they
 * are right again within a minute of its start.
 */
import { Counter, Histogram, type Registry } from "prom-client";
import { fenceEvidences } from "../../functions/shared/annotations/fencing.ts";
import type { AgentsReport, EvidenceReport, FencesReport, Reporter } from "../../functions/shared/contract/reporter.ts";
import { liveGauges, type Series } from "./live-gauges.ts";

/** Evidence by time comes after 62, 102 or 162 s with the usual watchdogs, that of a new boot sooner, that of a person later. */
const evidenceBuckets = [5, 10, 20, 40, 65, 75, 105, 120, 165, 300, 600, 1_800, 3_600, 14_400, 86_400];
/**
 * A process that has listed nothing for so long has no gauges any more, in milliseconds: those of another replica are newer. It
 * is longer than the time between two surveys of the agents.
 */
export const listedForMs = 150_000;

/** No series of gauges are there before the first list. */
export function createFenceMetrics(
  registers: Registry[],
): Pick<Reporter, "evidence" | "fences" | "agents" | "nodeHealth"> {
  const evidence = new Counter({
    name: "sluice_fence_evidence_total",
    help: "Fences whose machine was shown to have stopped, by the evidence. Sum over replicas: each fence counts in one of them.",
    labelNames: ["evidence"],
    registers,
  });
  const seconds = new Histogram({
    name: "sluice_fence_evidence_seconds",
    help: "Time from arming to the evidence, of fences that were armed. Sum over replicas.",
    labelNames: ["evidence"],
    buckets: evidenceBuckets,
    registers,
  });
  const fences = fenceGauges(registers);
  const agents = agentGauges(registers);
  let isListed = false;
  return {
    evidence(report: EvidenceReport) {
      evidence.inc({ evidence: report.evidence });
      if (report.seconds !== undefined) seconds.observe({ evidence: report.evidence }, Math.max(0, report.seconds));
    },
    fences(report) {
      // Prometheus sees no increase where a series begins with its first fence.
      if (!isListed) for (const one of fenceEvidences) evidence.inc({ evidence: one }, 0);
      isListed = true;
      fences(report);
    },
    agents,
    nodeHealth: healthGauge(registers),
  };
}

/** Remembers the last report, until it is too old. */
function remembered<Report>() {
  let last: { readonly report: Report; readonly atMs: number } | undefined;
  return {
    get last() {
      return last;
    },
    note(report: Report): void {
      last = { report, atMs: Date.now() };
    },
    /** The series of the last report; none once it is too old. */
    seriesOf<Label extends string>(of: (report: Report) => readonly Series<Label>[]) {
      return () => (last === undefined || Date.now() - last.atMs > listedForMs ? [] : of(last.report));
    },
  };
}

function fenceGauges(registers: Registry[]): Reporter["fences"] {
  const live = liveGauges(registers);
  const reports = remembered<FencesReport>();
  live(
    "sluice_fences",
    "Fences that have not ended, by phase; unreadable: a record that this version cannot read. Take the maximum of replicas.",
    ["phase"],
    reports.seriesOf(({ phases }) => [...phases].map(([phase, value]) => ({ labels: { phase }, value }))),
  );
  live(
    "sluice_fences_waiting",
    "Fences that wait, by the guard that blocks them. Take the maximum of replicas.",
    ["guard"],
    reports.seriesOf(({ waiting }) => waiting.map(({ guard, fences }) => ({ labels: { guard }, value: fences }))),
  );
  live(
    "sluice_fence_waiting_since_timestamp_seconds",
    "Since when the first fence that a guard blocks is in its phase, in seconds since the epoch. Take the minimum of replicas.",
    ["guard"],
    reports.seriesOf(({ waiting }) =>
      waiting.map(({ guard, sinceMs }) => ({ labels: { guard }, value: sinceMs / 1000 })),
    ),
  );
  live(
    "sluice_fence_last_list_timestamp_seconds",
    "When this process last listed the nodes and the records of fences, in seconds since the epoch. Take the maximum.",
    ["resource"],
    // It shows why the others are missing, so that it stays.
    () => (reports.last === undefined ? [] : [{ labels: { resource: "nodes" }, value: reports.last.atMs / 1000 }]),
  );
  return reports.note;
}

function agentGauges(registers: Registry[]): Reporter["agents"] {
  const live = liveGauges(registers);
  const reports = remembered<AgentsReport>();
  live(
    "sluice_fence_nodes",
    "Nodes by the mode of their agent; silent: it has not renewed for two minutes; none: there is none. Take the maximum.",
    ["mode"],
    reports.seriesOf(({ modes }) => [...modes].map(([mode, value]) => ({ labels: { mode }, value }))),
  );
  live(
    "sluice_fence_slots",
    "Slots of fences that are taken; missing while they cannot be read. Take the maximum of replicas.",
    ["state"],
    reports.seriesOf(({ slots }) => (slots === undefined ? [] : [{ labels: { state: "taken" }, value: slots }])),
  );
  return reports.note;
}

function healthGauge(registers: Registry[]): Reporter["nodeHealth"] {
  const reports = remembered<ReadonlyMap<string, number>>();
  liveGauges(registers)(
    "sluice_node_health_nodes",
    "Nodes by the guard of watch-node-health; none while it is off. Take the maximum of replicas.",
    ["guard"],
    reports.seriesOf((nodes) => [...nodes].map(([guard, value]) => ({ labels: { guard }, value }))),
  );
  return reports.note;
}
