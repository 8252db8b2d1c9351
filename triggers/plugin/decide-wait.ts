/** Whether `kubectl sluice wait` has got what it waits for, goes on, or needs a person. Pure. */
import type { GuardEnd } from "../../functions/shared/base/guards.ts";
import { formatTime } from "../../functions/shared/clock/durations.ts";
import { doneGuards } from "../../functions/shared/reconcile/guards.ts";
import { formatSpan } from "./span.ts";

/** `done`: every wanted pod is ready at the wanted revision. `idle`: done, and besides that nothing is under way. */
export const goals = ["done", "idle"] as const;

export type Goal = (typeof goals)[number];

/** A StatefulSet of the group, or a zone of another owner. */
export interface WaitZone {
  readonly name: string;
  readonly wanted: number;
  /** Wanted pods that are missing, terminating or not ready. Those that are only reserved or claimed do not count. */
  readonly down: number;
  readonly outdated: number;
  /** Its status is older than its spec, so that it says nothing about the wanted revision. */
  readonly isBehind: boolean;
  readonly isDeleting: boolean;
  /** Sluice replaces its outdated pods, and no controller of Kubernetes. */
  readonly isRolledBySluice: boolean;
}

/** The guard that a function gives now. */
export interface PresentGuard {
  readonly function: string;
  readonly guard: string;
  readonly message: string;
  /** Null for a guard that this version does not know, which needs no person. */
  readonly ends: GuardEnd | null;
  readonly todo: string | null;
  readonly lastedMs: number;
  /** True where a user has asked for the wait. */
  readonly isChosen: boolean;
  /** True for the function that replaces outdated pods. */
  readonly isRollout: boolean;
  /** True if the function has reserved or claimed something in the group. */
  readonly hasTaken: boolean;
}

/** A pod at the wanted revision that is down for a reason which only another revision ends. */
export interface StuckPod {
  readonly pod: string;
  readonly why: string;
  readonly lastedMs: number;
  readonly todo: string;
}

export interface WaitSnapshot {
  readonly group: string;
  readonly goal: Goal;
  /** No zone: the group is gone. */
  readonly zones: readonly WaitZone[];
  readonly guards: readonly PresentGuard[];
  readonly stuck: readonly StuckPod[];
  /** When the last of the ready pods became so, in milliseconds since the epoch; undefined without one. */
  readonly lastReadyMs: number | undefined;
  /** Pods with an open reservation, and what else is claimed, in words. */
  readonly taken: readonly string[];
  /** Why the ledger cannot be read; undefined if it can. */
  readonly unreadable: string | undefined;
  /** The last eviction that was held or refused, in milliseconds since the epoch; undefined if none is known. */
  readonly lastEvictionMs: number | undefined;
  readonly nowMs: number;
}

/** `message` is one clause about the group, such as `ingester is done`. */
export interface WaitDecision {
  readonly kind: "reached" | "waits" | "gone" | "needs-person";
  readonly message: string;
}

/** How long a guard must hold until it needs a person, because many a guard of a moment ends when the next read is newer. */
export const personAfterMs = 60_000;
/** The same for another guard while no pod of the group becomes ready, and for a pod that is stuck. */
export const noProgressAfterMs = 30 * 60_000;
export const stuckAfterMs = 5 * 60_000;
/** How long after an eviction was held or refused its client may still try again. */
export const evictionsForMs = 120_000;
/** The most zones, or things that are taken, that a message lists. */
const mostListed = 5;

export function decideWait(snapshot: WaitSnapshot): WaitDecision {
  const { group, goal, zones } = snapshot;
  if (zones.every(({ isDeleting }) => isDeleting)) {
    const why = zones.length === 0 ? "no StatefulSet is in it any more" : "all of its StatefulSets are being deleted";
    return { kind: "gone", message: `${group} is gone: ${why}` };
  }
  const open = zones.flatMap(describeOpen);
  const busy = goal === "idle" ? describeBusy(snapshot) : [];
  if (open.length + busy.length === 0) {
    const pods = zones.reduce((sum, { wanted }) => sum + wanted, 0);
    return { kind: "reached", message: `${group} is ${goal}: ${pods} of ${pods} pods ready at the wanted revision` };
  }
  const person = snapshot.guards.find((guard) => needsPerson(guard, snapshot, open.length > 0));
  if (person !== undefined) return { kind: "needs-person", message: describePerson(person) };
  const stuck = snapshot.stuck.find(({ lastedMs }) => lastedMs >= stuckAfterMs);
  if (stuck !== undefined) return { kind: "needs-person", message: describeStuck(stuck) };
  const reasons = [...listed(open), ...listed(busy), ...snapshot.guards.flatMap(describeRollout)];
  return { kind: "waits", message: reasons.join("; ") };
}

function describeOpen({ name, wanted, down, outdated, isBehind, isDeleting }: WaitZone): readonly string[] {
  if (isDeleting) return [`${name} is being deleted`];
  if (isBehind) return [`${name}: its controller has not seen the last change yet`];
  const parts = [down > 0 ? `${down} not ready` : "", outdated > 0 ? `${outdated} outdated` : ""].filter(Boolean);
  return parts.length === 0 ? [] : [`${name}: ${parts.join(", ")} of ${wanted} pods`];
}

function describeBusy({ taken, unreadable, lastEvictionMs, nowMs }: WaitSnapshot): readonly string[] {
  const hasEviction = lastEvictionMs !== undefined && lastEvictionMs > nowMs - evictionsForMs;
  return [
    ...(unreadable === undefined ? [] : [unreadable]),
    ...taken,
    ...(hasEviction ? [`an eviction was held or refused until ${formatTime(lastEvictionMs)}`] : []),
  ];
}

function listed(reasons: readonly string[]): readonly string[] {
  const more = reasons.length - mostListed;
  return more > 0 ? [...reasons.slice(0, mostListed), `and ${more} more`] : reasons;
}

/** The rollout's own message has more than the counts, unless it has nothing left to do. */
function describeRollout({ isRollout, guard, message }: PresentGuard): readonly string[] {
  return isRollout && guard !== "done" ? [`${guard}: ${message}`] : [];
}

/** Of the guards that have lasted too long, the group is waiting for those whose function it still needs. */
function needsPerson(present: PresentGuard, snapshot: WaitSnapshot, isOpen: boolean): boolean {
  const { isRollout, hasTaken } = present;
  if (!hasLasted(present, snapshot, isOpen)) return false;
  if (!isRollout) return hasTaken;
  const isRolloutDue = snapshot.zones.some((zone) => zone.isRolledBySluice && zone.outdated > 0);
  return isRolloutDue || (snapshot.goal === "idle" && (hasTaken || snapshot.unreadable !== undefined));
}

/** A guard that only a person ends needs one soon; another one if nothing goes on, unless a user has asked for it. */
function hasLasted(
  { ends, guard, lastedMs, isChosen }: PresentGuard,
  { lastReadyMs = 0, nowMs }: WaitSnapshot,
  isOpen: boolean,
): boolean {
  if (ends === "person") return lastedMs >= personAfterMs;
  if (ends === null || isChosen || Object.hasOwn(doneGuards, guard)) return false;
  return isOpen && lastedMs >= noProgressAfterMs && nowMs - lastReadyMs >= noProgressAfterMs;
}

function describeStuck({ pod, why, lastedMs, todo }: StuckPod): string {
  return `${pod} is in ${why} for ${formatSpan(lastedMs)}, which only another revision ends. To do: ${todo}`;
}

function describePerson({ function: by, guard, message, todo, lastedMs }: PresentGuard): string {
  return `${by} says ${guard}, for ${formatSpan(lastedMs)}: ${message.replace(/\.$/, "")}. To do: ${todo}`;
}
