/** The label and the annotations by which the queues of a RabbitMQ cluster are rebalanced after its pods were replaced. */

import { escapeControls } from "../base/escape-control.ts";
import { fieldsOf, parseFields } from "../base/fields.ts";
import { parseBoolean } from "../base/settings.ts";
import { parseTime } from "../clock/durations.ts";
import { annotationOn, labelOn, objectName } from "./entry.ts";

/** The recorded state of a StatefulSet's rebalances. Times are in milliseconds since the epoch. */
export interface RebalanceState {
  /** Of the StatefulSet that it was written for. A manifest or a backup may bring along the state of another StatefulSet. */
  readonly uid: string;
  /** A digest of the nodes that were last seen whole, and since when it has been the same. */
  readonly members: string;
  readonly sinceMs: number;
  /** The digest that was last rebalanced, and when that was asked for. */
  readonly balanced: string | undefined;
  readonly balancedMs: number | undefined;
  /** Time at which a process claimed to ask for the next one; undefined while none does. */
  readonly claimedMs: number | undefined;
  /** How often it has failed in a row. */
  readonly failed: RebalanceFailure | undefined;
}

export interface RebalanceFailure {
  readonly times: number;
  readonly lastMs: number;
  readonly guard: string;
  /** For people, on one line. */
  readonly why: string;
}

const onStatefulSet = annotationOn("StatefulSet");

/** Undefined if a field exists and is none of these. */
const textOf = (value: unknown): string | undefined => (typeof value === "string" && value !== "" ? value : undefined);
const timeOf = (value: unknown): number | undefined => (typeof value === "string" ? parseTime(value) : undefined);

/** The text of a state, as {@link rebalanceState} reads it. Texts of others are cut. */
export function formatRebalanceState(state: RebalanceState): string {
  const time = (ms: number | undefined) => (ms === undefined ? undefined : new Date(ms).toISOString());
  const { uid, members, sinceMs, balanced, balancedMs, claimedMs, failed } = state;
  const fields = { uid, members, since: time(sinceMs), balanced, balancedAt: time(balancedMs) };
  const failures = failed && { times: failed.times, last: time(failed.lastMs), guard: failed.guard, why: failed.why };
  return escapeControls(JSON.stringify({ ...fields, claimedAt: time(claimedMs), failed: failures }));
}

function parseState(text: string): RebalanceState | undefined {
  const fields = parseFields(text) ?? {};
  const [uid, members, sinceMs] = [textOf(fields.uid), textOf(fields.members), timeOf(fields.since)];
  if (uid === undefined || members === undefined || sinceMs === undefined) return undefined;
  const [balanced, balancedMs] = [textOf(fields.balanced), timeOf(fields.balancedAt)];
  const claimedMs = timeOf(fields.claimedAt);
  return { uid, members, sinceMs, balanced, balancedMs, claimedMs, failed: parseFailure(fields.failed) };
}

function parseFailure(value: unknown): RebalanceFailure | undefined {
  const { times, last, guard, why } = fieldsOf(value) ?? {};
  const lastMs = timeOf(last);
  if (!Number.isSafeInteger(times) || Number(times) < 1 || lastMs === undefined) return undefined;
  if (typeof guard !== "string" || typeof why !== "string") return undefined;
  return { times: Number(times), lastMs, guard, why };
}

export const wantsRebalance = labelOn("StatefulSet")("sluice.dev/rebalance-queues", parseBoolean, {
  grammar: "true or false",
  fallback: "its queues are left as they are",
  meaning: "queue leaders are spread again after pods of this RabbitMQ cluster were replaced",
});

export const rebalanceSecret = onStatefulSet("sluice.dev/rebalance-secret", objectName, {
  grammar: "the name of a Secret in the namespace of the StatefulSet",
  fallback: "absent: the one of health questions; malformed: nothing is rebalanced",
  meaning: "its keys username and password are what a rebalance is asked for with; its user has the tag administrator",
});

export const rebalanceState = onStatefulSet("sluice.dev/rebalance-state", parseState, {
  grammar: "nothing: remove it",
  fallback: "as if its queues had never been rebalanced",
  meaning: "which pods were last rebalanced, who does so now, and why it failed; written by us",
  isWrittenByUs: true,
  isLong: true,
});

export const queueRebalanceNeededAt = onStatefulSet("rabbitmq.com/queueRebalanceNeededAt", parseTime, {
  grammar: "a time as in RFC 3339, such as 2026-01-31T12:00:00Z",
  fallback: "nothing more is rebalanced than what Sluice sees by itself",
  meaning: "from this time on a rebalance is wanted; on a RabbitmqCluster it is its operator's",
});

export const rebalanceEntries = [wantsRebalance, rebalanceSecret, rebalanceState, queueRebalanceNeededAt] as const;
