/** The wanted number of replicas of a StatefulSet that follows another one, or mirrors an object (spec 3.1, 3.2). Pure. */

import { hasLeader, isMalformed } from "../annotations/parse-scaling.ts";
import { lastDownscale, minTimeBetweenZonesDownscale } from "../annotations/scaling.ts";
import { lastDownscales } from "../annotations/table.ts";
import { formatTime } from "../clock/durations.ts";
import type { StatefulSet } from "../workloads/statefulsets.ts";

/** Why a size stays as it is. */
export interface SizeBlocked {
  readonly guard: string;
  readonly message: string;
  /** When time alone may end it, in milliseconds; absent: it does not. */
  readonly requeueAfterMs?: number;
  /** Number of replicas that it is to have later; absent if Sluice does not know it. */
  readonly later?: number;
}

export interface Wish {
  readonly statefulSet: StatefulSet;
  /** All StatefulSets of its group. */
  readonly members: readonly StatefulSet[];
  /** Number of replicas that the mirrored object says, or why Sluice does not know it; undefined if it mirrors none. */
  readonly mirrored: number | SizeBlocked | undefined;
  /** The API server's clock, in milliseconds since the epoch. */
  readonly nowMs: number;
}

/**
 * The wanted number of replicas, or why the size stays; undefined for a StatefulSet that follows and mirrors nothing, because
 * its users set its size. A leader comes before a mirrored object, and a forced size before both.
 */
export function wantedReplicas({ statefulSet, members, mirrored, nowMs }: Wish): number | SizeBlocked | undefined {
  const { scaling, deleting } = statefulSet;
  if (scaling === undefined || deleting || !hasLeader(scaling)) return undefined;
  if (scaling.leader === undefined) return scaling.forced ?? mirrored;
  const leader = members.find(({ name }) => name === scaling.leader);
  if (leader === undefined) return noLeader(statefulSet, scaling.leader);
  const circle = circleFrom(statefulSet, members);
  if (circle !== undefined) {
    const message = `${statefulSet.name} keeps its size: ${circle.join(" follows ")}, and that is a circle`;
    return { guard: "leader-circle", message };
  }
  if (scaling.forced !== undefined) return scaling.forced;
  if (leader.replicas > statefulSet.replicas) return raised(statefulSet, leader);
  if (leader.replicas < statefulSet.replicas) return lowered(statefulSet, leader, members, nowMs);
  return leader.replicas;
}

function noLeader({ name, group = "" }: StatefulSet, leader: string): SizeBlocked {
  const message = `${name} keeps its size: it is to follow ${leader}, and the group ${group} has no StatefulSet of that name`;
  return { guard: "leader-missing", message };
}

/** The names on the way from a StatefulSet back to itself; undefined where its leaders come to an end. */
function circleFrom(from: StatefulSet, members: readonly StatefulSet[]): string[] | undefined {
  const names = [from.name];
  let now: StatefulSet | undefined = from;
  for (let steps = 0; steps <= members.length; steps++) {
    const leader: string | undefined = now?.scaling?.leader;
    if (leader === undefined) return undefined;
    names.push(leader);
    if (leader === from.name) return names;
    now = members.find(({ name }) => name === leader);
  }
  // A circle further up, which it is not part of: no StatefulSet sets its size either.
  return names.slice(0, 5);
}

function raised({ name, scaling }: StatefulSet, leader: StatefulSet): number | SizeBlocked {
  const { replicas, readyReplicas } = leader;
  if (!scaling?.upscalesOnlyWhenLeaderReady || readyReplicas === replicas) return replicas;
  const message = `${name} is to have ${replicas} replicas once all pods of ${leader.name} are ready: ${readyReplicas} of ${replicas} are`;
  return { guard: "leader-not-ready", message, later: replicas };
}

/** The newest downscale of another zone must be longer ago than this zone's own time between two (spec 3.1.4). */
function lowered(
  { name, scaling, uid }: StatefulSet,
  leader: StatefulSet,
  members: readonly StatefulSet[],
  nowMs: number,
): number | SizeBlocked {
  const others = members.filter((one) => one.uid !== uid);
  const unreadable = others.find((one) => one.scaling !== undefined && isMalformed(one.scaling, lastDownscale));
  if (unreadable !== undefined) {
    const message = `${name} is not made smaller: when ${unreadable.name} last was cannot be read from its annotation ${lastDownscale.key}`;
    return { guard: "last-downscale-malformed", message, later: leader.replicas };
  }
  const timed = others.filter((one) => one.scaling?.lastDownscaleMs !== undefined);
  const lastMs = (one: StatefulSet) => one.scaling?.lastDownscaleMs ?? 0;
  const newest = timed.toSorted((one, other) => lastMs(other) - lastMs(one))[0];
  if (newest === undefined) return leader.replicas;
  const minTimeMs = scaling?.minTimeMs;
  if (minTimeMs === undefined) {
    const { key, grammar } = minTimeBetweenZonesDownscale;
    const message = `${name} is not made smaller: ${newest.name} was at ${formatTime(lastMs(newest))}, and ${name} has no label ${key} that says how long after that it may be; write ${grammar}`;
    return { guard: "min-time-missing", message, later: leader.replicas };
  }
  const remainingMs = lastMs(newest) + minTimeMs - nowMs;
  if (remainingMs < 0) return leader.replicas;
  const at = formatTime(lastMs(newest) + minTimeMs);
  const ahead = lastMs(newest) > nowMs ? ", a time that has not come yet" : "";
  const message = `${name} may have ${leader.replicas} replicas from ${at} on: ${newest.name} was made smaller at ${formatTime(lastMs(newest))}${ahead}`;
  return { guard: "min-time-between-zones", message, requeueAfterMs: remainingMs + 1, later: leader.replicas };
}

/** A ledger's times of the last downscales of its zones, in milliseconds since the epoch. */
export interface DownscaleTimes {
  /** By StatefulSet name: when it was last made smaller. */
  readonly ledger: Readonly<Record<string, number>>;
  /** True where what stands there is no list of times. */
  readonly isMalformed: boolean;
  /** Since when the ledger is there: of what was before it, it knows nothing. */
  readonly ledgerSinceMs: number;
}

/** A zone that was made smaller a short time ago. */
export interface ZonePause {
  /** From when on another zone may be, in milliseconds since the epoch. */
  readonly untilMs: number;
  /** The cause, as a part of a message. */
  readonly because: string;
}

/**
 * How long other zones keep their size after one was made smaller, by its label (as rollout-operator has it);
 * undefined where they may go. `known`: the times at which it was, as far as Sluice can tell. A ledger that was lost may have
 * held a time.
 */
export function restAfter(
  { name, scaling, createdMs }: StatefulSet,
  known: readonly number[],
  ledgerSinceMs: number,
  nowMs: number,
): ZonePause | undefined {
  const minTimeMs = scaling?.minTimeMs;
  const isUnknown = known.length === 0 && !(createdMs > ledgerSinceMs);
  if (minTimeMs === undefined || (known.length === 0 && !isUnknown)) return undefined;
  const lastMs = isUnknown ? ledgerSinceMs : Math.max(...known);
  if (!(nowMs - lastMs < minTimeMs)) return undefined;
  const because = isUnknown
    ? `Sluice does not know when ${name} was last made smaller, and the ledger is there since ${formatTime(lastMs)}`
    : `${name} was made smaller at ${formatTime(lastMs)}`;
  return { untilMs: lastMs + minTimeMs, because };
}

/** The same for one zone among others: why it keeps its size, if one of them was made smaller a short time ago. */
export function blockedAfterOthers(
  { name }: StatefulSet,
  members: readonly StatefulSet[],
  { ledger, isMalformed: isLedgerMalformed, ledgerSinceMs }: DownscaleTimes,
  nowMs: number,
): SizeBlocked | undefined {
  for (const other of members) {
    if (other.name === name || other.scaling?.minTimeMs === undefined) continue;
    if (isLedgerMalformed) {
      const message = `${name} is not made smaller: the annotation ${lastDownscales.key} of the ledger is no list of times; correct it`;
      return { guard: "last-downscale-malformed", message };
    }
    const known = [other.scaling.lastDownscaleMs, ledger[other.name]].filter((ms) => ms !== undefined);
    const rest = restAfter(other, known, ledgerSinceMs, nowMs);
    if (rest === undefined) continue;
    const message = `${name} keeps its size until ${formatTime(rest.untilMs)}: ${rest.because}`;
    return { guard: "min-time-between-zones", message, requeueAfterMs: rest.untilMs - nowMs + 1 };
  }
  return undefined;
}
