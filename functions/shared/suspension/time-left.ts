/** The remaining time of a suspended volume, and which warnings are due (spec suspend-before-delete 3.4, I1 and I3). Pure. */

import { suspendDuration } from "../annotations/suspension.ts";
import { hourMs } from "../clock/durations.ts";
import { wallClockSkewMs } from "../clock/skew.ts";
import { durationOf, type Member } from "../volumes/members.ts";
import { longestGapMs } from "./looks.ts";

export type KeptFor =
  | { readonly kind: "value"; readonly value: number }
  | { readonly kind: "unknown"; readonly guard: "duration-missing" | "duration-malformed"; readonly message: string };

/**
 * The duration of its volumes by the current annotations, because a user who changes it also changes it for suspended volumes.
 */
export function durationNow(member: Member): KeptFor {
  const duration = durationOf(member);
  if (duration.kind === "value") return duration;
  if (duration.kind === "malformed") return { kind: "unknown", guard: "duration-malformed", message: duration.message };
  const of =
    member.set.owner === undefined
      ? `${member.set.name} has no ${suspendDuration.key}`
      : `${suspendDuration.key} is gone`;
  const message = `${of}, so that Sluice does not know how long they are kept`;
  return { kind: "unknown", guard: "duration-missing", message };
}

/**
 * How long its pod has been gone by every witness, in milliseconds; undefined where one of its volume claims has no time that
 * can be true. The latest of these counts: its stamp, `seenSinceMs` (when observations without a gap began), the first of them
 * after another client than Sluice changed the size, and when the API server last saw the volume in use.
 */
export function ageOf({ set, pvcs }: Member, nowMs: number, seenSinceMs: number): number | undefined {
  let youngestMs = Number.POSITIVE_INFINITY;
  for (const { suspendedMs, unused } of pvcs) {
    if (suspendedMs === undefined || suspendedMs > nowMs + wallClockSkewMs) return undefined;
    const sinceMs = Math.max(suspendedMs, seenSinceMs, observedAfterMs(set, suspendedMs), unused?.sinceMs ?? 0);
    youngestMs = Math.min(youngestMs, nowMs - sinceMs);
  }
  return Number.isFinite(youngestMs) ? youngestMs : undefined;
}

/**
 * The latest moment of the first observation after the size changed; 0 where it has not changed since the stamp. A pod that had
 * come back by that size may have ended slowly: only the observation that followed has seen it absent.
 */
function observedAfterMs({ resizedMs = 0 }: Member["set"], suspendedMs: number): number {
  return resizedMs > suspendedMs ? resizedMs + longestGapMs : 0;
}

/** A warning that is due: its name is part of the Event's identity, so that each is sent once in a suspension. */
export interface Warning {
  readonly name: "half" | "hour";
  readonly leftMs: number;
}

/** The last due warning of a kept volume: at half of its time, and an hour before its removal. */
export function warningDue(member: Member, nowMs: number, seenSinceMs: number): Warning | undefined {
  const duration = durationNow(member);
  const ageMs = ageOf(member, nowMs, seenSinceMs);
  if (duration.kind !== "value" || ageMs === undefined) return undefined;
  const leftMs = duration.value - ageMs;
  if (leftMs <= 0) return undefined;
  if (leftMs <= hourMs && duration.value > 2 * hourMs) return { name: "hour", leftMs };
  return ageMs * 2 >= duration.value ? { name: "half", leftMs } : undefined;
}

const spans = [
  ["d", 86_400_000],
  ["h", hourMs],
  ["m", 60_000],
  ["s", 1_000],
] as const;

/** Two parts of a time, such as `6d 23h` or `29s`; never 0s for a time that is not over. */
export function describeSpan(ms: number): string {
  let restMs = Math.max(ms, 1_000);
  const parts: string[] = [];
  for (const [unit, unitMs] of spans) {
    const count = Math.floor(restMs / unitMs);
    if (count > 0 && parts.length < 2) parts.push(`${count}${unit}`);
    restMs -= count * unitMs;
  }
  return parts.join(" ");
}
