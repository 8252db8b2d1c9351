/** The status by one snapshot. Pure. */

import type { GroupStatus, Status } from "../shared/contract/status.ts";
import { groupPathOf } from "../shared/workloads/statefulsets.ts";
import { decideEvictions } from "./decide-evictions.ts";
import { decideGroup } from "./decide-group.ts";
import { decidePerson } from "./decide-person.ts";
import type { StatusSnapshot } from "./snapshot.ts";
import { formatTime } from "./times.ts";

/** How many Events the status has. */
const mostEvents = 50;

export function decide(snapshot: StatusSnapshot): Status {
  const { nowMs, groups, events, leftOut, unansweredSinceMs } = snapshot;
  const waiting = events && decideEvictions(events, nowMs);
  const all = groups.map((group) => decideGroup(group, snapshot.guards, waiting ?? []));
  return {
    at: formatTime(nowMs),
    unansweredSince: formatTime(unansweredSinceMs),
    answeredBy: snapshot.answeredBy,
    needsPerson: decidePerson(snapshot),
    groups: all.sort(compareGroups),
    waiting: waiting ?? null,
    events: events?.slice(0, mostEvents).map(({ atMs, ...event }) => ({ ...event, at: formatTime(atMs) })) ?? null,
    leftOut: leftOut.map(({ part, why, sinceMs }) => ({ part, why, since: formatTime(sinceMs) })),
  };
}

function compareGroups(one: GroupStatus, other: GroupStatus): number {
  const isAtWork = ({ state }: GroupStatus) => Number(state === "working");
  return isAtWork(other) - isAtWork(one) || (groupPathOf(one) < groupPathOf(other) ? -1 : 1);
}
