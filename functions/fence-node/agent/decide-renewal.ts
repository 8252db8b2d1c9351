/** What one answer about the agent's Lease means, and what the next renewal writes. Pure. */

import * as keys from "../../shared/annotations/fencing.ts";
import { fieldsOf } from "../../shared/base/fields.ts";

/** Annotations as they came from the API server: any text may stand in them. */
export type LeaseAnnotations = Readonly<Record<string, string>>;

/** The fence that the Lease shows for this boot; undefined for a fence of another boot, for none, and for a malformed one. */
export function fenceOfBoot(annotations: LeaseAnnotations, bootId: string): keys.ArmedFence | undefined {
  const armed = keys.fenceArmed.parse(annotations[keys.fenceArmed.key] ?? "");
  return armed?.bootId === bootId ? armed : undefined;
}

/** Whether the taints of a Node have that of a fence; undefined for what is no list. */
export function hasFenceTaint(taints: unknown = []): boolean | undefined {
  if (!Array.isArray(taints)) return undefined;
  return taints
    .map(fieldsOf)
    .some((taint) => taint?.key === keys.fenceTaint.key && taint.effect === keys.fenceTaint.effect);
}

/** Why an agent is `explicit-only`: for people. */
export type ExplicitOnlyReason = "no-peers" | "no-watchdog" | "watchdog-busy" | "watchdog-time-unknown";

export interface RenewalView {
  readonly mode: keys.AgentMode;
  readonly why: ExplicitOnlyReason | "stopped";
  readonly bootId: string;
  readonly permitLifeMs: number;
  /** Undefined if there is no watchdog that the agent can use. */
  readonly watchdogMs: number | undefined;
  readonly freshMs: number;
  readonly renewTimeoutMs: number;
  /** How often this boot has renewed, with this renewal. */
  readonly renewals: number;
  readonly contactMs: number;
  /** The fence that the Lease showed last for this boot. */
  readonly fence: keys.ArmedFence | undefined;
}

/** While a fence of this boot is armed, a renewal changes only what shows that the agent runs: arming rests on the rest. */
export function annotationsOf(view: RenewalView): LeaseAnnotations {
  const running = {
    [keys.agentRenewals.key]: String(view.renewals),
    [keys.agentContactSeconds.key]: keys.formatSeconds(view.contactMs),
  };
  if (view.fence !== undefined) return running;
  return {
    ...running,
    [keys.agentMode.key]: view.mode,
    [keys.agentWhy.key]: view.why,
    [keys.agentBootId.key]: view.bootId,
    [keys.agentPermitSeconds.key]: keys.formatSeconds(view.permitLifeMs),
    [keys.agentWatchdogSeconds.key]: keys.formatSeconds(view.watchdogMs ?? 0),
    [keys.agentFreshSeconds.key]: keys.formatSeconds(view.freshMs - view.renewTimeoutMs),
  };
}

/** A series of successes in which none was older than X when the next one came. */
export interface Contact {
  readonly sinceMs: number;
  readonly lastMs: number;
}

/** The contact after a success at `nowMs`. */
export function contactAfter(before: Contact | undefined, nowMs: number, freshMs: number): Contact {
  const isUnbroken = before !== undefined && nowMs - before.lastMs <= freshMs;
  return { sinceMs: isUnbroken ? before.sinceMs : nowMs, lastMs: nowMs };
}
