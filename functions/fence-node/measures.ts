/** What the metrics show of all fences and agents. No label is the name of a node. Pure. */

import { type AgentMode, agentModes, fencePhases } from "../shared/annotations/fencing.ts";
import { nodeOfRecord, slotsName } from "../shared/annotations/fencing-leases.ts";
import { parseTime } from "../shared/clock/durations.ts";
import type { AgentsReport, FencesReport } from "../shared/contract/reporter.ts";
import type { LeaseObject } from "../shared/kubernetes/cluster.ts";
import { hasSlot } from "./decide-brakes.ts";
import { parseSlotsLease } from "./parse-brakes.ts";
import { parseRecord } from "./record.ts";

/** A client that edits records may name any guards there; at most this many become series. */
const mostGuards = 40;
const guardPattern = /^[a-z][a-z-]{0,39}$/;

/** An agent as its Lease shows it. `silent`: this process has not seen it renew of late. `none`: the node has no agent. */
export type AgentState = AgentMode | "unknown" | "silent" | "none";

/** All phases are there, also those of no fence, so that a series has no gap. */
export function measureFences(records: readonly LeaseObject[]): FencesReport {
  const phases = new Map<string, number>([...fencePhases, "unreadable"].map((phase) => [phase, 0]));
  const waiting = new Map<string, { readonly guard: string; fences: number; sinceMs: number }>();
  const block = (guard: string, sinceMs: number): void => {
    const before = waiting.get(guard);
    const fences = (before?.fences ?? 0) + 1;
    waiting.set(guard, { guard, fences, sinceMs: Math.min(sinceMs, before?.sinceMs ?? sinceMs) });
  };
  for (const lease of records) {
    const record = parseRecord(lease);
    const phase = record === "unreadable" ? record : record.phase;
    phases.set(phase, (phases.get(phase) ?? 0) + 1);
    if (record === "unreadable") block("record-unreadable", parseTime(lease.metadata.creationTimestamp ?? "") ?? 0);
    else if (record.hold !== undefined) block(guardPattern.test(record.hold) ? record.hold : "unknown", record.sinceMs);
  }
  return { phases, waiting: [...waiting.values()].slice(0, mostGuards) };
}

/** @param leases all of the fencing namespace */
export function measureAgents(
  states: Iterable<AgentState>,
  leases: readonly LeaseObject[],
  nowMs: number,
): AgentsReport {
  const modes = new Map<string, number>([...agentModes, "unknown", "silent", "none"].map((mode) => [mode, 0]));
  for (const state of states) modes.set(state, (modes.get(state) ?? 0) + 1);
  return { modes, slots: slotsTaken(leases, nowMs) };
}

/** A slot is free once its fence has evidence or has ended, and 10 minutes after it was taken. */
function slotsTaken(leases: readonly LeaseObject[], nowMs: number): number | undefined {
  const lease = leases.find(({ metadata }) => metadata.name === slotsName);
  const contents = lease === undefined ? undefined : parseSlotsLease(lease).contents;
  if (contents === undefined) return 0;
  if (contents === "unreadable") return undefined;
  return leases.filter((one) => {
    const record = nodeOfRecord(one.metadata.name) === undefined ? "unreadable" : parseRecord(one);
    const isBefore = record !== "unreadable" && (record.phase === "claimed" || record.phase === "armed");
    return isBefore && hasSlot(contents, record, nowMs);
  }).length;
}
