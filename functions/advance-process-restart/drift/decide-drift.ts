/** Decides which processes restart because other files are expected than they were started with. Pure. */

import { restartMode } from "../../shared/annotations/restart.ts";
import type { Zone } from "../../shared/groups/zones.ts";
import type { Blocked } from "../../shared/ledger/claim-kinds.ts";
import type { Pod } from "../../shared/workloads/pods.ts";
import type { StatefulSet } from "../../shared/workloads/statefulsets.ts";
import type { RestartTarget } from "../decide.ts";
import { type FilesCopy, isOtherSum } from "../decide-files.ts";
import { driftReason, isAskedFor, isWaitingForFiles, type MarkTarget, reasonAfter } from "../decide-mark.ts";
import {
  differingKey,
  type FilesBefore,
  type FilesChange,
  isUnknownBefore,
  unknownSetting,
  whyTogether,
} from "./decide-settings.ts";

/** The files of one StatefulSet, and what its processes were started with. */
export interface DriftZone extends FilesChange {
  readonly zone: Zone<StatefulSet>;
  /** The sum of the expected files. */
  readonly sum: string;
  /** By pod uid the sum that its process was started with; absent where that is not known. */
  readonly running: ReadonlyMap<string, string>;
  /** By uid the pods whose process is stopped. */
  readonly stopped?: ReadonlySet<string>;
  /** By uid the pods that run no process, such as one that does not start. */
  readonly down?: ReadonlySet<string>;
  /** True where no process may start alone with the expected files, so that pods which wait for that restart with the others. */
  readonly isBlockedAlone?: boolean;
  /** The files for a mounted Secret that has others, or none. */
  readonly fill?: FilesCopy | undefined;
  readonly isEmpty?: boolean;
  /** Notes the settings of the mounted files; absent: they are noted. */
  readonly note?: { readonly sum: string; readonly copy: FilesCopy } | undefined;
}

export interface DriftDecision {
  readonly targets: readonly MarkTarget[];
  readonly blocked: Blocked | undefined;
}

/** The guard of a restart of all that comes after a rollout. */
export const rolloutGuard = "rollout-due";

type Fill = Extract<RestartTarget, { kind: "copy" }>;

/**
 * The first files of processes that have never started, and wait for them. Where one runs, an empty mounted Secret is a mistake:
 * its restart brings the files, and what they change decides whether it is alone. The second case is a user who takes files back
 * that were mounted, and with which no process was started: a pod that is made anew must not get them. Else the mounted files
 * stay, and their settings are noted.
 */
export function decideFill(known: readonly DriftZone[]): readonly Fill[] {
  return known.flatMap((one): readonly Fill[] => {
    const { zone, sum, fill: copy, note } = one;
    const common = { kind: "copy", statefulSet: zone.workload } as const;
    if (copy !== undefined && (isFirst(one) || isTakenBack(one))) return [{ ...common, sum, copy }];
    return note === undefined ? [] : [{ ...common, ...note }];
  });
}

function isFirst({ zone: { pods }, running, isEmpty = false }: DriftZone): boolean {
  const isWaiting = ({ restart, readySinceMs }: Pod) => restart === undefined && readySinceMs === undefined;
  return isEmpty && running.size === 0 && pods.every(isWaiting);
}

function isTakenBack({ zone: { pods }, sum, running }: DriftZone): boolean {
  return pods.length > 0 && pods.every((pod) => running.get(pod.uid) === sum);
}

type Way = "rolling" | "coordinated";

/**
 * Asks for nothing while a restart is under way: the restart after it brings what has changed meanwhile. `unusable`: what the
 * processes of other StatefulSets run with, whose files cannot be read or written.
 */
export function decideDrift(
  all: readonly Zone<StatefulSet>[],
  known: readonly DriftZone[],
  nowMs: number,
  unusable: readonly FilesBefore[] = [],
): DriftDecision {
  const stale = known.flatMap(withdraw);
  if (stale.length > 0) return { targets: stale, blocked: undefined };
  const isDrifting = (one: DriftZone) => driftingPods(one).length > 0 || waitingAlone(one).length > 0;
  const drifting = known.filter((one) => one.mode !== "by-hand" && isDrifting(one));
  // A StatefulSet without pods may have had any files mounted before.
  const others = [...known.filter(({ zone }) => zone.pods.length > 0), ...unusable];
  const wayOf = (one: DriftZone): Way => (whyTogether(one, others) === undefined ? "rolling" : "coordinated");
  const [unknown] = drifting.flatMap((one) => blockedByUnknown(one, wayOf(one)) ?? []);
  if (unknown !== undefined) return { targets: [], blocked: unknown };
  const { rolling = [], coordinated = [] } = Object.groupBy(drifting, wayOf);
  const [first = asking(known)] = coordinated;
  const blocked = first && (blockedByOthers(known, first) ?? blockedByRollout(all, nowMs) ?? blockedByTakenOut(known));
  const together =
    first === undefined || blocked !== undefined ? [] : all.flatMap((zone) => coordinate(zone, known, first));
  // A rollout that comes first starts its pods with the mounted files, and the database may have no master until it has ended.
  const isAlone = together.length === 0 && blocked?.guard !== rolloutGuard;
  const inTurn = isAlone ? rolling.flatMap((one) => mark(one.zone, driftingPods(one), "rolling", one.sum)) : [];
  const asked = [...together, ...inTurn];
  return { targets: asked.length > 0 ? asked : known.flatMap(settle), blocked };
}

/** Pods whose phase a person has taken off: what they get next is what a person wants. */
function settle({ zone: { workload: statefulSet, pods } }: DriftZone): readonly MarkTarget[] {
  const off = pods.filter((pod) => isFree(pod) && reasonAfter(pod.restartReason) !== pod.restartReason);
  const byReason = Map.groupBy(off, ({ restartReason }) => reasonAfter(restartReason));
  return [...byReason].map(([reason = null, some]) => ({ kind: "mark", statefulSet, pods: some, phase: null, reason }));
}

function driftingPods(one: DriftZone): readonly Pod[] {
  const { zone, sum, running, stopped } = one;
  return zone.pods.filter((pod) => {
    const started = running.get(pod.uid);
    const isOther = started !== undefined && isOtherSum(started, sum);
    return (isOther || stopped?.has(pod.uid) === true) && mayBeAsked(pod, one);
  });
}

/**
 * A pod that a person has taken out of a restart for these files, by `cancel` or otherwise, is left as it is, unless its process
 * is stopped: its process manager was silent when it was taken out.
 */
function mayBeAsked(pod: Pod, { sum, stopped }: Pick<DriftZone, "sum" | "stopped">): boolean {
  return isFree(pod) && (!isAskedFor(pod, sum) || stopped?.has(pod.uid) === true);
}

function isFree({ restart, terminating }: Pod): boolean {
  return restart === undefined && !terminating;
}

/** What a person, a trigger or earlier files have asked for, and what the files of now let no process do alone. */
function waitingAlone({ zone, isBlockedAlone = false }: DriftZone): readonly Pod[] {
  const isAlone = ({ restart, terminating }: Pod) =>
    !terminating && (restart?.phase === "schedule" || restart?.phase === "schedule-rolling");
  return isBlockedAlone ? zone.pods.filter(isAlone) : [];
}

/** Phases that were written for other files than are expected now: nothing is reserved for them yet. */
function withdraw({ zone, sum, mode }: DriftZone): readonly MarkTarget[] {
  const pods = zone.pods.filter(
    (pod) => isWaitingForFiles(pod) && !pod.terminating && (!isAskedFor(pod, sum) || mode === "by-hand"),
  );
  const byPhase = Map.groupBy(pods, phaseBefore);
  return [...byPhase].map(([phase = null, some]) => ({
    ...{ kind: "mark", statefulSet: zone.workload, pods: some, phase, reason: null },
  }));
}

const insteadOf = "instead of ";

/** The phase that a pod had before other files made all restart together; undefined where it had none. */
function phaseBefore({ restartReason = "" }: Pod): string | undefined {
  const [, before] = restartReason.split(insteadOf);
  return before?.split(" ")[0];
}

function coordinate(
  zone: Zone<StatefulSet>,
  known: readonly DriftZone[],
  { sum: cause }: DriftZone,
): readonly MarkTarget[] {
  const own = known.find((one) => one.zone === zone);
  const { sum } = own ?? { sum: cause };
  const pods = zone.pods.filter((pod) => mayBeAsked(pod, own ?? { sum }));
  const waiting = Map.groupBy(own === undefined ? [] : waitingAlone(own), phaseInstead);
  const instead = [...waiting].flatMap(([before, some]) => mark(zone, some, "coordinated", sum, before));
  return [...mark(zone, pods, "coordinated", sum), ...instead];
}

/** The phase of a person or a trigger, which stands again where the files of before are expected again. */
function phaseInstead(pod: Pod): string | undefined {
  return isWaitingForFiles(pod) ? phaseBefore(pod) : pod.restart?.phase;
}

function mark(
  zone: Zone<StatefulSet>,
  pods: readonly Pod[],
  way: Way,
  sum: string,
  before?: string | undefined,
): readonly MarkTarget[] {
  const { workload: statefulSet } = zone;
  const instead = before === undefined ? "" : `${insteadOf}${before} `;
  const [phase, reason] = [`schedule-${way}`, `${driftReason}${way} ${instead}${sum}`];
  return pods.length === 0 ? [] : [{ kind: "mark", statefulSet, pods, phase, reason }];
}

/** The StatefulSet whose pods wait to restart together for its files: a pod that was made since joins them. */
function asking(known: readonly DriftZone[]): DriftZone | undefined {
  const isAsked = (pod: Pod, sum: string) =>
    pod.restart?.phase === "schedule-coordinated" && isWaitingForFiles(pod) && isAskedFor(pod, sum);
  return known.find(({ zone, sum }) => zone.pods.some((pod) => isAsked(pod, sum)));
}

function secretOf({ zone }: DriftZone): string {
  return zone.workload.restart?.files?.expected ?? "";
}

/** People change one Secret after the other: a process with the new settings could not join one with the old. */
function blockedByOthers(known: readonly DriftZone[], first: DriftZone): Blocked | undefined {
  const other = known.find((one) => one.mode === "by-hand" || differingKey(one.expected, first.expected) !== undefined);
  if (other === undefined) return undefined;
  const key = differingKey(other.expected, first.expected);
  const why = key === undefined ? "is restarted by hand" : `has another value of ${key}`;
  const message = `the files of ${secretOf(first)} change what all nodes must have in common, and ${secretOf(other)} ${why}`;
  return { guard: "restart-config-disagrees", message };
}

/** A new pod that has not become ready for so long waits for other files, and its rollout waits for it. In milliseconds. */
const readyWithinMs = 180_000;

function blockedByRollout(all: readonly Zone<StatefulSet>[], nowMs: number): Blocked | undefined {
  const isStuck = all.some(({ workload: { updateRevision }, pods }) =>
    pods.some(
      ({ revision, readySinceMs, createdMs }) =>
        revision === updateRevision && readySinceMs === undefined && nowMs - createdMs >= readyWithinMs,
    ),
  );
  if (isStuck) return undefined;
  const due = all.find(({ workload, pods }) => {
    const { paused, updateRevision } = workload;
    return !paused && pods.some(({ revision }) => updateRevision === undefined || revision !== updateRevision);
  });
  if (due === undefined) return undefined;
  const message = `a rollout of ${due.workload.name} is due, and comes before a coordinated restart`;
  return { guard: rolloutGuard, message };
}

/**
 * The others could not join a pod that a person has taken out of their restart, and that runs with the files of before. A pod
 * whose process manager is silent may do so.
 */
function blockedByTakenOut(known: readonly DriftZone[]): Blocked | undefined {
  const out = known.flatMap((one) =>
    one.zone.pods
      .filter((pod) => isFree(pod) && !mayBeAsked(pod, one))
      .map(({ uid, name }) => ({ name, started: one.running.get(uid), sum: one.sum })),
  );
  const other = out.find(({ started, sum }) => started === undefined || isOtherSum(started, sum));
  if (other === undefined) return undefined;
  const how = other.started === undefined ? "does not report its files" : "would run with others";
  const message = `${other.name} was taken out of the restart for the files that are expected, and ${how}: write schedule-coordinated on all pods of the group`;
  return { guard: "restart-config-together", message };
}

/** Nothing shows whether each process may restart alone, and no mode says so. */
function blockedByUnknown(one: DriftZone, way: Way): Blocked | undefined {
  if (one.mode !== undefined) return undefined;
  const why = isUnknownBefore(one)
    ? `the mounted main file of ${one.zone.workload.name} cannot be parsed, so that nothing shows what ${secretOf(one)} changes`
    : whyUnknown(one, way);
  return why === undefined
    ? undefined
    : { guard: "restart-config-unreadable", message: `${why}: write ${restartMode.key} on it` };
}

function whyUnknown(one: DriftZone, way: Way): string | undefined {
  const setting = way === "rolling" ? unknownSetting(one) : undefined;
  const pod = setting && one.zone.pods.find(({ uid }) => one.running.get(uid) === setting.sum);
  return (
    pod &&
    `nothing is noted of the files that ${pod.name} was started with, and earlier ones had another ${setting.key} than ${secretOf(one)}`
  );
}
