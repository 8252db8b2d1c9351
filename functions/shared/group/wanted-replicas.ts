/** How many replicas a StatefulSet is to have that follows another one, or mirrors an object (spec 3.1, 3.2). Pure. */
import { formatTime } from "../objects/durations.ts";
import { isLed, isMalformed } from "../objects/scaling/scaling.ts";
import type { StatefulSet } from "../objects/statefulsets.ts";
import { lastDownscale, minTimeBetweenZonesDownscale } from "../objects/vocabulary/scaling.ts";

/** Why a size stays as it is. */
export interface SizeHeld {
  readonly guard: string;
  readonly sentence: string;
  /** When time alone may end it, in milliseconds; absent: it does not. */
  readonly recheckMs?: number;
  /** How many replicas it is to have later; absent where nobody knows. */
  readonly later?: number;
}

export interface Wish {
  readonly statefulSet: StatefulSet;
  /** All StatefulSets of its group. */
  readonly members: readonly StatefulSet[];
  /** What the object that it mirrors says, in replicas, or why nobody knows; undefined where it mirrors none. */
  readonly mirrored: number | SizeHeld | undefined;
  /** The API server's clock, in milliseconds since the epoch. */
  readonly nowMs: number;
}

/**
 * The number of replicas that is wanted, or why the size stays; undefined for a StatefulSet that nobody leads: its users say its
 * size. A leader comes before what it mirrors, and what is forced before both.
 */
export function wantedReplicas({ statefulSet, members, mirrored, nowMs }: Wish): number | SizeHeld | undefined {
  const { scaling, deleting } = statefulSet;
  if (scaling === undefined || deleting || !isLed(scaling)) return undefined;
  if (scaling.leader === undefined) return scaling.forced ?? mirrored;
  const leader = members.find(({ name }) => name === scaling.leader);
  if (leader === undefined) return noLeader(statefulSet, scaling.leader);
  const circle = circleFrom(statefulSet, members);
  if (circle !== undefined) {
    const sentence = `${statefulSet.name} keeps its size: ${circle.join(" follows ")}, and that is a circle`;
    return { guard: "leader-circle", sentence };
  }
  if (scaling.forced !== undefined) return scaling.forced;
  if (leader.replicas > statefulSet.replicas) return raised(statefulSet, leader);
  if (leader.replicas < statefulSet.replicas) return lowered(statefulSet, leader, members, nowMs);
  return leader.replicas;
}

function noLeader({ name, group = "" }: StatefulSet, leader: string): SizeHeld {
  const sentence = `${name} keeps its size: it is to follow ${leader}, and the group ${group} has no StatefulSet of that name`;
  return { guard: "leader-missing", sentence };
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
  // A circle further up, of which it is no part: its size is nobody's to say either.
  return names.slice(0, 5);
}

function raised({ name, scaling }: StatefulSet, leader: StatefulSet): number | SizeHeld {
  const { replicas, readyReplicas } = leader;
  if (!scaling?.upscalesOnlyWhenLeaderReady || readyReplicas === replicas) return replicas;
  const sentence = `${name} is to have ${replicas} replicas once all pods of ${leader.name} are ready: ${readyReplicas} of ${replicas} are`;
  return { guard: "leader-not-ready", sentence, later: replicas };
}

/** The newest downscale of another zone must be longer ago than this zone's own time between two (spec 3.1.4). */
function lowered(
  { name, scaling, uid }: StatefulSet,
  leader: StatefulSet,
  members: readonly StatefulSet[],
  nowMs: number,
): number | SizeHeld {
  const others = members.filter((one) => one.uid !== uid);
  const unreadable = others.find((one) => one.scaling !== undefined && isMalformed(one.scaling, lastDownscale));
  if (unreadable !== undefined) {
    const sentence = `${name} is not made smaller: when ${unreadable.name} last was cannot be read from its annotation ${lastDownscale.key}`;
    return { guard: "last-downscale-malformed", sentence, later: leader.replicas };
  }
  const timed = others.filter((one) => one.scaling?.lastDownscaleMs !== undefined);
  const lastMs = (one: StatefulSet) => one.scaling?.lastDownscaleMs ?? 0;
  const newest = timed.toSorted((one, other) => lastMs(other) - lastMs(one))[0];
  if (newest === undefined) return leader.replicas;
  const minTimeMs = scaling?.minTimeMs;
  if (minTimeMs === undefined) {
    const { key, grammar } = minTimeBetweenZonesDownscale;
    const sentence = `${name} is not made smaller: ${newest.name} was at ${formatTime(lastMs(newest))}, and ${name} has no label ${key} that says how long after that it may be; write ${grammar}`;
    return { guard: "min-time-missing", sentence, later: leader.replicas };
  }
  const remainingMs = lastMs(newest) + minTimeMs - nowMs;
  if (remainingMs < 0) return leader.replicas;
  const at = formatTime(lastMs(newest) + minTimeMs);
  const ahead = lastMs(newest) > nowMs ? ", a time that has not come yet" : "";
  const sentence = `${name} may have ${leader.replicas} replicas from ${at} on: ${newest.name} was made smaller at ${formatTime(lastMs(newest))}${ahead}`;
  return { guard: "min-time-between-zones", sentence, recheckMs: remainingMs + 1, later: leader.replicas };
}
