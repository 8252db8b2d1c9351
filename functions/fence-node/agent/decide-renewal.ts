/** What one answer about the agent's Lease means, and what the next renewal writes. Pure. */

import * as keys from "../../shared/annotations/fencing.ts";
import { agentAddresses, agentKey, agentPeers } from "../../shared/annotations/fencing-peers.ts";
import { fieldsOf } from "../../shared/base/fields.ts";
import type { ExplicitOnlyReason, OwnNode } from "./decide-mode.ts";

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

/** Times as a Lease has them, in milliseconds; absent where it has none. */
export interface StoredTimes {
  readonly permitMs?: number | undefined;
  /** 0 where there is no watchdog. */
  readonly watchdogMs?: number | undefined;
  /** How old an observation may be against which renewals show contact (X - A). */
  readonly freshMs?: number | undefined;
}

/** What a fence may count by: what the Lease has of a boot. */
export function modeOfLease(annotations: LeaseAnnotations): {
  readonly bootId: string | undefined;
  readonly isArmed: boolean;
  readonly times: StoredTimes;
} {
  const parsed = <T>({ key, parse }: { readonly key: string; parse(text: string): T | undefined }): T | undefined =>
    parse(annotations[key] ?? "");
  return {
    bootId: parsed(keys.agentBootId),
    isArmed: parsed(keys.agentMode) === "armed",
    times: {
      permitMs: parsed(keys.agentPermitSeconds),
      watchdogMs: parsed(keys.agentWatchdogSeconds),
      freshMs: parsed(keys.agentFreshSeconds),
    },
  };
}

/** What the Node of this machine says for the mode. The annotation excludes it whatever its value is. */
export function ownNodeOf({ metadata, status }: Readonly<Record<string, unknown>>): OwnNode | undefined {
  const annotations = fieldsOf(fieldsOf(metadata)?.annotations) ?? {};
  const conditions = fieldsOf(status)?.conditions ?? [];
  if (!Array.isArray(conditions)) return undefined;
  const isInMaintenance = conditions
    .map(fieldsOf)
    .some((one) => one?.type === "MaintenanceInProgress" && one.status === "True");
  return { isExcluded: annotations[keys.fenceNever.key] !== undefined, isInMaintenance };
}

export interface RenewalView {
  readonly mode: keys.AgentMode;
  /** Undefined where the mode is `armed`. */
  readonly why: ExplicitOnlyReason | "stopped" | undefined;
  readonly bootId: string;
  readonly permitLifeMs: number;
  /** Undefined if there is no watchdog that the agent can use. */
  readonly watchdogMs: number | undefined;
  readonly freshMs: number;
  readonly renewTimeoutMs: number;
  /** How often this boot has renewed, with this renewal. */
  readonly renewals: number;
  readonly contactMs: number;
  /** The texts of its peers, its key and its addresses. */
  readonly peers: string;
  readonly publicKey: string;
  readonly addresses: string;
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
    [keys.agentWhy.key]: view.why ?? "",
    [keys.agentBootId.key]: view.bootId,
    [keys.agentPermitSeconds.key]: keys.formatSeconds(view.permitLifeMs),
    [keys.agentWatchdogSeconds.key]: keys.formatSeconds(view.watchdogMs ?? 0),
    [keys.agentFreshSeconds.key]: keys.formatSeconds(view.freshMs - view.renewTimeoutMs),
    [agentPeers.key]: view.peers,
    [agentKey.key]: view.publicKey,
    [agentAddresses.key]: view.addresses,
  };
}

/** A series of successes in which none was older than X when the answer to the next one came. */
export interface Contact {
  readonly sinceMs: number;
  /** When the request was sent that succeeded last. */
  readonly lastMs: number;
}

/**
 * The contact after a success. A series begins with the answer, because the agent answered `no-api` to peers until then, and for
 * the same reason an answer that comes later than X after the last success begins another one.
 */
export function contactAfter(
  before: Contact | undefined,
  { sentMs, answeredMs }: { readonly sentMs: number; readonly answeredMs: number },
  freshMs: number,
): Contact {
  const isUnbroken = before !== undefined && answeredMs - before.lastMs <= freshMs;
  return { sinceMs: isUnbroken ? before.sinceMs : answeredMs, lastMs: sentMs };
}

/** What a Lease says of the contact, in milliseconds; a series that has only begun is none. */
export function contactMsOf(contact: Contact | undefined): number {
  return contact === undefined ? 0 : Math.max(0, contact.lastMs - contact.sinceMs);
}
