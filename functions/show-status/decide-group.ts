/** The status of one group. Pure. */
import { explainGuard, type Guards } from "../shared/base/guards.ts";
import type { Cell, CellRun, GroupState, GroupStatus, WaitingEviction, ZoneStatus } from "../shared/contract/status.ts";
import { countDown, readyPods, type Zone } from "../shared/groups/zones.ts";
import { readGroup } from "../shared/workloads/group-key.ts";
import { groupPathOf, isStatefulSet, isWanted, type ZoneWorkload } from "../shared/workloads/statefulsets.ts";
import { decideRestarts } from "./decide-restarts.ts";
import type { GroupLedger, GroupSnapshot, SeenParked } from "./snapshot.ts";
import { formatTime } from "./times.ts";

export function decideGroup(
  snapshot: GroupSnapshot,
  guards: Readonly<Record<string, Guards>>,
  evictions: readonly WaitingEviction[],
  parked: readonly Pick<SeenParked, "key">[] = [],
): GroupStatus {
  const { key, zones, ledger } = snapshot;
  const restarts = decideRestarts(snapshot, guards);
  const all = zones.map(decideZone);
  const total = (field: "wanted" | "updated" | "ready") => all.reduce((sum, zone) => sum + zone[field], 0);
  const own = new Set(zones.map(({ workload }) => workload.name));
  const isParked = parked.some((one) => groupPathOf(one.key) === groupPathOf(key));
  const isAsked = isParked || evictions.some(({ namespace, zone }) => namespace === key.namespace && own.has(zone));
  const verdicts = ledger.kind === "read" ? Object.entries(ledger.verdicts) : [];
  return {
    namespace: key.namespace,
    group: key.group,
    owner: readGroup(key.group).kind === "owner" ? key.group.slice(key.group.indexOf(":") + 1) : null,
    state: stateOf(zones, ledger, isAsked || restarts.length > 0),
    wanted: total("wanted"),
    updated: total("updated"),
    ready: total("ready"),
    lastReadyAt: formatTime(lastReadyMs(zones)),
    zones: all,
    functions: verdicts.map(([name, { guard, zone, sentence, since, at }]) => {
      const explained = explainGuard(guards[name], guard, { ...key, zone });
      const times = { since: formatTime(since), at: formatTime(at) };
      return { function: name, recorded: { guard, zone, sentence, ...explained, ...times } };
    }),
    restarts,
  };
}

/** When the last of the ready pods of a group became so, in milliseconds since the epoch; undefined without one. */
export function lastReadyMs(zones: readonly Pick<Zone<ZoneWorkload>, "pods">[]): number | undefined {
  const times = zones.flatMap(({ pods }) => pods.flatMap(({ readySinceMs }) => readySinceMs ?? []));
  return times.reduce<number | undefined>((last, ms) => Math.max(last ?? ms, ms), undefined);
}

/** True if every wanted pod is ready at the wanted revision. A StatefulSet whose status is older than its spec is not done. */
export function isDone(zones: readonly Zone<ZoneWorkload>[]): boolean {
  return zones.every((zone) => {
    const isKnown = !isStatefulSet(zone.workload) || zone.workload.updateRevision !== undefined;
    return isKnown && updatedOf(zone) >= zone.workload.replicas;
  });
}

function stateOf(zones: readonly Zone<ZoneWorkload>[], ledger: GroupLedger, isAsked: boolean): GroupState {
  if (!isDone(zones)) return "working";
  if (isAsked) return "done";
  if (ledger.kind === "read") return ledger.open.length + ledger.claims.length === 0 ? "idle" : "done";
  return ledger.kind === "absent" ? "idle" : "done";
}

function updatedOf(zone: Zone<ZoneWorkload>): number {
  const outdated = new Set(zone.outdated);
  return readyPods(zone).filter((pod) => !outdated.has(pod)).length;
}

function decideZone(zone: Zone<ZoneWorkload>): ZoneStatus {
  const { workload, outdated } = zone;
  const to = workload.updateRevision ?? null;
  return {
    name: workload.name,
    wanted: workload.replicas,
    ready: readyPods(zone).length,
    updated: updatedOf(zone),
    outdated: outdated.length,
    downCount: countDown(zone),
    maxUnavailable: workload.maxUnavailable,
    paused: isStatefulSet(workload) && workload.paused,
    revision: { from: outdated[0]?.revision ?? null, to },
    cells: decideCells(zone),
  };
}

/** A claim on pods of another owner names them by their uids, because no ordinal of these stays. */
function claimedByUid({ workload, pods, claims }: Zone<ZoneWorkload>): ReadonlySet<number> {
  if (isStatefulSet(workload)) return new Set();
  const uids = new Set(claims.flatMap((claim) => (claim.isKnown ? Object.values(claim.uids ?? {}) : [])));
  return new Set(pods.filter(({ uid }) => uids.has(uid)).map(({ ordinal }) => ordinal));
}

/** As many runs as there are pods and reservations, at most twice over. */
function decideCells(zone: Zone<ZoneWorkload>): CellRun[] {
  const { workload, pods, down, outdated } = zone;
  const isOutdated = new Set(outdated.map(({ ordinal }) => ordinal));
  const isClaimed = claimedByUid(zone);
  const upCell = (ordinal: number): Cell => (isClaimed.has(ordinal) ? "claimed" : "ready");
  const cellOf = (ordinal: number): Cell =>
    down.get(ordinal) ?? (isOutdated.has(ordinal) ? "outdated" : upCell(ordinal));
  const ordinals = new Set([...pods.map(({ ordinal }) => ordinal), ...down.keys()]);
  const runs: { first: number; last: number; readonly cell: Cell }[] = [];
  const add = (first: number, last: number, cell: Cell) => {
    const before = runs.at(-1);
    if (before !== undefined && before.cell === cell && before.last === first - 1) before.last = last;
    else runs.push({ first, last, cell });
  };
  const end = workload.start + workload.replicas;
  let expected = workload.start;
  for (const ordinal of [...ordinals].sort((one, other) => one - other)) {
    if (ordinal > expected && expected < end) add(expected, Math.min(ordinal, end) - 1, "missing");
    add(ordinal, ordinal, cellOf(ordinal));
    if (isWanted(workload, ordinal) || ordinal >= end) expected = ordinal + 1;
  }
  if (expected < end) add(expected, end - 1, "missing");
  return runs;
}
