/** A snapshot of one group at rest: a test states only what differs. */

import { guards as rolloutGuards } from "../../../../functions/advance-zone-rollout/guards.ts";
import { guards as evictionGuards } from "../../../../functions/evaluate-eviction/guards.ts";
import type { PresentedCertificate } from "../../../../functions/shared/contract/definition.ts";
import type { Status } from "../../../../functions/shared/contract/status.ts";
import type { SuspendedVolume } from "../../../../functions/shared/suspension/suspended-volumes.ts";
import { decide } from "../../../../functions/show-status/decide.ts";
import type {
  GroupLedger,
  GroupSnapshot,
  ReadLedger,
  SeenEvent,
  SeenParked,
  StatusSnapshot,
} from "../../../../functions/show-status/snapshot.ts";
import { namespace, nowMs, self, zone } from "../advance-zone-rollout/given.ts";

export const guards = { [self]: rolloutGuards, "evaluate-eviction": evictionGuards };

export const minute = 60_000;

/** The time so many minutes before the present, as the status prints it. */
export function ago(minutes: number): string {
  return new Date(nowMs - minutes * minute).toISOString();
}

export function ledger(changes: Partial<ReadLedger> = {}): GroupLedger {
  return { kind: "read", open: [], claims: [], verdicts: {}, ...changes };
}

/** A ledger with one verdict of a rollout. */
export function waitingFor(guard: string, minutes: number, zoneName = "a"): GroupLedger {
  const since = nowMs - minutes * minute;
  return ledger({ verdicts: { [self]: { guard, zone: zoneName, sentence: `${zoneName}: waits`, since, at: nowMs } } });
}

export function groupOf(changes: Partial<GroupSnapshot> = {}): GroupSnapshot {
  const key = { namespace, group: "group" };
  return { key, zones: [zone("a", "nnn")], ledger: ledger(), stuckSinceMs: new Map(), ...changes };
}

export function event(reason: string, message: string, minutes: number, object = "a"): SeenEvent {
  return { namespace, object, reason, message, atMs: nowMs - minutes * minute };
}

export function statusOf(group: Partial<GroupSnapshot> = {}, rest: Partial<StatusSnapshot> = {}): Status {
  const answeredBy = { replica: "sluice-0", version: "1.2.3", mode: "act", namespaces: null } as const;
  const read = { events: [], leftOut: [], answeredBy, unansweredSinceMs: undefined };
  return decide({ nowMs, guards, groups: [groupOf(group)], ...read, ...rest });
}

export const hour = 60 * minute;

/** A suspended volume that may be removed in so many hours; undefined: that is not known. */
export function volume(hours: number | undefined, changes: Partial<SuspendedVolume> = {}): SuspendedVolume {
  const times = {
    suspendedMs: nowMs - hour,
    removableMs: hours === undefined ? undefined : nowMs + hours * hour,
  };
  return { namespace, name: "data-a-2", zone: "a", state: "Suspended", bytes: 1, ...times, ...changes };
}

/** A certificate that ends in so many days, and lasts for as many as `lifetime` says. */
export function certificate(days: number, lifetime = 365): PresentedCertificate {
  const notAfterMs = nowMs + days * 24 * hour;
  return { object: "sluice-tls", namespace, notBeforeMs: notAfterMs - lifetime * 24 * hour, notAfterMs };
}

export function parked(place: number, node: string | undefined = "node-1"): SeenParked {
  const key = { namespace, group: "group" };
  return { key, pod: `a-${place}`, place, node, guard: "zone-budget", message: "1 of 3 down", sinceMs: nowMs - 4_000 };
}
