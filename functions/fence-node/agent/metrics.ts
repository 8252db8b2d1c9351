/**
 * The page of metrics of an agent, in the text format of Prometheus. The agent imports no library, because it must start without
 * one and stay below 90 MB; a registry would also keep what the agent knows a second time. Pure.
 */
import type { ExplicitOnlyReason } from "./decide-mode.ts";

export const metricsType = "text/plain; version=0.0.4; charset=utf-8";

/** What the agent counts. Times are of the boottime clock, in milliseconds. */
export interface AgentMeasures {
  /** When the request was sent that last renewed the permit; undefined if none has in this boot. */
  readonly permitMs: number | undefined;
  /** Of this boot. */
  readonly renewals: number;
  /** Of this process, as all that follows. A renewal is lost if no answer has shown the Lease. */
  readonly lostRenewals: number;
  readonly feeds: number;
  readonly isArmed: boolean;
  readonly why: ExplicitOnlyReason | undefined;
  /** The agent knows of a fence of this boot. */
  readonly isFenced: boolean;
}

/** The same, with what the process knows besides. */
export interface PageMeasures extends AgentMeasures {
  readonly nowMs: number;
  /** How many drills of peers were answered. */
  readonly drillsAnswered: number;
  /** The watchdog has reset the machine before this boot; undefined if that is unknown. */
  readonly hasReset: boolean | undefined;
  readonly residentBytes: number;
}

type LabelTexts = Readonly<Record<string, string>>;

/** The page. A metric of which nothing is known is missing. */
export function formatMetrics(measures: PageMeasures): string {
  const { nowMs, permitMs, isArmed, why, hasReset } = measures;
  const mode: LabelTexts = isArmed ? { mode: "armed", why: "" } : { mode: "explicit-only", why: why ?? "" };
  const age = permitMs === undefined ? undefined : Math.max(0, nowMs - permitMs) / 1_000;
  return [
    metric("sluice_agent_mode", "gauge", "1 for the mode of the agent, and why it is not armed.", 1, mode),
    metric("sluice_agent_permit_age_seconds", "gauge", "Age of the permit to feed the watchdog.", age),
    metric("sluice_agent_feeds_total", "counter", "Feeds of the watchdog by this process.", measures.feeds),
    metric("sluice_agent_renewals_total", "counter", "Renewals of the Lease in this boot.", measures.renewals),
    metric(
      "sluice_agent_renewals_failed_total",
      "counter",
      "Renewals after which no answer of the API server had shown the Lease.",
      measures.lostRenewals,
    ),
    metric(
      "sluice_agent_drills_answered_total",
      "counter",
      "Drills of peers that were answered.",
      measures.drillsAnswered,
    ),
    metric(
      "sluice_agent_fenced",
      "gauge",
      "1 once the agent knows of a fence of this boot.",
      measures.isFenced ? 1 : 0,
    ),
    metric(
      "sluice_agent_boot_after_watchdog",
      "gauge",
      "1 if this boot follows a reset by the watchdog, by its bootstatus in sysfs; missing if that is unknown.",
      hasReset === undefined ? undefined : Number(hasReset),
    ),
    metric("process_resident_memory_bytes", "gauge", "Resident memory size in bytes.", measures.residentBytes),
  ].join("");
}

/** One metric with one series; nothing where its value is undefined. */
function metric(
  name: string,
  type: "counter" | "gauge",
  help: string,
  value: number | undefined,
  labels: LabelTexts = {},
) {
  if (value === undefined) return "";
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escapeLabel(text)}"`);
  const series = pairs.length === 0 ? name : `${name}{${pairs.join(",")}}`;
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${series} ${value}\n`;
}

/** As the text format requires of the value of a label. */
export function escapeLabel(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}
