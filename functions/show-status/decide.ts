/** The status by one snapshot. Pure. */

import type { GroupState, GroupStatus, ParkedStatus, Status, VolumeStatus } from "../shared/contract/status.ts";
import type { SuspendedVolume } from "../shared/suspension/suspended-volumes.ts";
import { groupPathOf } from "../shared/workloads/statefulsets.ts";
import { decideEvictions } from "./decide-evictions.ts";
import { decideGroup } from "./decide-group.ts";
import { decidePerson } from "./decide-person.ts";
import type { SeenParked, StatusSnapshot } from "./snapshot.ts";
import { formatTime } from "./times.ts";

/** How many Events the status has. */
const mostEvents = 50;

export function decide(snapshot: StatusSnapshot): Status {
  const { nowMs, groups, events, leftOut, unansweredSinceMs } = snapshot;
  const waiting = events && decideEvictions(events, nowMs);
  const all = groups.map((group) => decideGroup(group, snapshot.guards, waiting ?? [], snapshot.parked));
  return {
    at: formatTime(nowMs),
    unansweredSince: formatTime(unansweredSinceMs),
    answeredBy: snapshot.answeredBy,
    needsPerson: decidePerson(snapshot),
    groups: all.sort(compareGroups),
    waiting: waiting ?? null,
    events: events?.slice(0, mostEvents).map(({ atMs, ...event }) => ({ ...event, at: formatTime(atMs) })) ?? null,
    parked: (snapshot.parked ?? []).map(parkedOf),
    volumes: snapshot.volumes?.map(volumeOf) ?? null,
    leftOut: leftOut.map(({ part, why, sinceMs }) => ({ part, why, since: formatTime(sinceMs) })),
  };
}

/** Those at rest stand last, as on the page. */
const ranks: Readonly<Record<GroupState, number>> = { working: 0, done: 1, idle: 2 };

function compareGroups(one: GroupStatus, other: GroupStatus): number {
  return ranks[one.state] - ranks[other.state] || (groupPathOf(one) < groupPathOf(other) ? -1 : 1);
}

function parkedOf({ key, node, sinceMs, message, ...rest }: SeenParked): ParkedStatus {
  return { ...key, ...rest, node: node ?? null, sentence: message, since: formatTime(sinceMs) };
}

function volumeOf({ namespace, name, zone, state, suspendedMs, removableMs }: SuspendedVolume): VolumeStatus {
  const times = { suspendedAt: formatTime(suspendedMs), removableAt: formatTime(removableMs) };
  return { namespace, name, zone: zone === "" ? null : zone, state, ...times };
}
