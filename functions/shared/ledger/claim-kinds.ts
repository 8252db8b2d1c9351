/**
 * Each kind of claim is one row: what it counts as, when it is settled, when it is abandoned, and what undoes it.
 *
 * Only the function that made a claim asks for its end, and ends it by a conditional write of its own (rule R10a). All other
 * functions count it, and wait.
 */

import { parking } from "../annotations/parking.ts";
import { cut } from "../base/truncate.ts";
import { clockSkewMs } from "../clock/skew.ts";
import { isAvailable, type Pod, podNameOf } from "../workloads/pods.ts";
import type { StatefulSet } from "../workloads/statefulsets.ts";
import { type Claim, describeMembers, type KindName, type KnownClaim, type OrdinalRange } from "./claim.ts";
import { isRestarted, type RunningProcess } from "./process-claim.ts";
import { dropAfterMs } from "./reservation.ts";

/** Rule R20: this long after its last stamp no request can carry out a scale-down: the API server's 60 s, and the clocks. */
export const undoAfterMs = 60_000 + clockSkewMs;

/** How long a claim may stand that ends as soon as pods have gone or are back, before an operator must look; in milliseconds. */
const anHourMs = 3_600_000;

/** A user parks a process for as long as it suits. An alert takes a claim without a time for one of an unknown kind. */
const aHundredYearsMs = 100 * 365 * 24 * anHourMs;

/** Rule R21: the state of a claim's objects, each by a GET after the ledger was read, and not from a view. */
export interface ClaimedObjects {
  /** The StatefulSet of its zone; undefined where it is gone. */
  readonly statefulSet: StatefulSet | undefined;
  /** The pods that stand at its ordinals, by ordinal. */
  readonly pods: ReadonlyMap<number, Pod>;
  /** The ids of the containers that those pods run, by ordinal, as `containerIdsOf` gives them; absent: not known. */
  readonly containers?: ReadonlyMap<number, readonly string[]>;
  /** What the process managers of those pods reported, by ordinal; no entry: its pod runs no process, or did not answer. */
  readonly processes?: ReadonlyMap<number, RunningProcess>;
  /** The uids of the volume claims that it names and that are there, by name. */
  readonly volumes: ReadonlyMap<string, string>;
  /** Whether the anchor is there and names this claim; false for a claim without one. */
  readonly isAnchored: boolean;
}

/** The times of a StatefulSet that its user has set. */
type ChosenTimes = Pick<StatefulSet, "minReadySeconds" | "isOrdered" | "graceMs" | "scaling">;

export interface KindRow {
  /** `members-down`: its members count as down. `zone-taken`: the zone counts as not whole, and no pod of it as down. */
  readonly countsAs: "members-down" | "zone-taken";
  /** The name under which a rollout or an eviction waits for it. */
  readonly guard: string;
  /** What goes on, in words that follow "claimed for". */
  readonly purpose: string;
  /** How it ends by itself, for an operator. */
  readonly ends: string;
  /** How long it may stand before an operator must look, in milliseconds; {@link chosenMs} is added. */
  readonly mayStandMs: number;
  /** The time within that which users chose themselves, in milliseconds. `zone`: undefined where its StatefulSet is not known. */
  chosenMs(claim: KnownClaim, zone: ChosenTimes | undefined): number;
  /** True when what was claimed has happened and is over: its function takes it out of the ledger. */
  isSettled(claim: KnownClaim, where: ClaimedObjects, nowMs: number): boolean;
  /** True when no function carries it out any more: its function undoes what has to be undone, and then takes it out. */
  isAbandoned(claim: KnownClaim, where: ClaimedObjects, nowMs: number): boolean;
  /** The members whose pods must be told that the claim ends, before it goes; none where nothing is to be undone. */
  undoes(claim: KnownClaim, where: ClaimedObjects): readonly OrdinalRange[];
}

/**
 * Rule R10a: an anchored claim is dropped only when a GET shows its anchor gone or naming another claim. Its age alone never
 * drops it; and before its age would do, the function that wrote it may still be acting.
 */
function isUnanchored({ stampMs }: KnownClaim, { isAnchored }: ClaimedObjects, nowMs: number): boolean {
  return !isAnchored && nowMs - stampMs >= dropAfterMs;
}

/** Pods are told this long before they leave, and then end within their grace period: one after the other if it is ordered. */
function leavingMs({ members }: KnownClaim, zone: ChosenTimes | undefined): number {
  if (zone === undefined) return 0;
  const count = members.reduce((sum, { first, last }) => sum + last - first + 1, 0);
  return (zone.scaling?.delay?.delayMs ?? 0) + zone.graceMs * (zone.isOrdered ? count : 1);
}

/** The phase of a claim whose process is stopped until its user wants it again. */
export const parkedPhase = "parked";

/** True for a claim whose process is stopped until its user takes an annotation off. */
function isParked({ mode, phase }: KnownClaim): boolean {
  return mode === "parked" && phase === parkedPhase;
}

/** Pods that come back count only when they have been ready for this long. */
function returningMs(_claim: KnownClaim, zone: ChosenTimes | undefined): number {
  return (zone?.minReadySeconds ?? 0) * 1000;
}

export const kinds: Readonly<Record<KindName, KindRow>> = {
  "scale-down": {
    countsAs: "members-down",
    guard: "zone-scaling-down",
    purpose: "a scale-down",
    ends: "when its StatefulSet wants none of the members and no pod stands at their ordinals; where another owner has them, when they are gone; or its function takes it back",
    mayStandMs: anHourMs,
    chosenMs: leavingMs,
    isSettled: (claim, { statefulSet, pods }) => wantedMembers(claim, statefulSet).length === 0 && pods.size === 0,
    // Rule R20: a scale-down that never came is undone by its age; while its anchor stands, that object still wants it.
    isAbandoned: (claim, { statefulSet, isAnchored }, nowMs) =>
      !isAnchored && nowMs - claim.stampMs >= undoAfterMs && wantedMembers(claim, statefulSet).length > 0,
    undoes: (claim, { statefulSet }) => wantedMembers(claim, statefulSet),
  },
  volume: {
    countsAs: "zone-taken",
    guard: "zone-removing-volume",
    purpose: "the removal of a volume",
    ends: "when the volume claim is gone, another one has its name, or it is deleted and has no finalizer of ours",
    mayStandMs: anHourMs,
    // It is made when the time is over for which its user keeps the volume.
    chosenMs: () => 0,
    isSettled: ({ uids = {} }, { volumes }) => {
      const named = Object.entries(uids);
      return named.length > 0 && named.every(([name, uid]) => volumes.get(name) !== uid);
    },
    isAbandoned: isUnanchored,
    undoes: () => [],
  },
  process: {
    countsAs: "members-down",
    guard: "zone-restarting-process",
    purpose: "the restart of a process",
    ends: "when each member runs another process, or is another pod, and is ready",
    mayStandMs: anHourMs,
    chosenMs: (claim, zone) => (isParked(claim) ? aHundredYearsMs : returningMs(claim, zone)),
    // While the restart changes a setting of the database, its function must undo that first.
    isSettled: (claim, where, nowMs) =>
      claim.hold !== true &&
      membersAreBack(
        claim,
        where,
        nowMs,
        (pod, uid) => isAnother(pod, uid) || isRestarted(claim, pod, where.processes?.get(pod.ordinal)),
      ),
    isAbandoned: isUnanchored,
    // A process manager must refuse late calls of the claim, and start a process that is down.
    undoes: (claim, { statefulSet }) => (claim.processes === undefined ? [] : wantedMembers(claim, statefulSet)),
  },
  node: {
    countsAs: "members-down",
    guard: "zone-losing-node",
    purpose: "a node that failed",
    ends: "when each member is back and ready, elsewhere or with new containers, or its StatefulSet does not want it any more",
    mayStandMs: anHourMs,
    // Its pods end by their grace period before the new ones can have their names.
    chosenMs: (claim, zone) => returningMs(claim, zone) + (zone?.graceMs ?? 0),
    isSettled: (claim, where, nowMs) =>
      membersAreBack(claim, where, nowMs, (pod, uid) => isAnother(pod, uid) || runsAnew(claim, where, pod, uid)),
    isAbandoned: isUnanchored,
    undoes: () => [],
  },
};

/** The guard for a kind that this version does not know. */
export const foreignGuard = { guard: "zone-claim-unknown" } as const;

/**
 * True when every member is over: its pod is available and as `isNew` wants it, or there is none and its StatefulSet wants
 * none. An unwanted member would otherwise hold its group for ever. `isNew` gets the uid that the claim names for a pod.
 */
function membersAreBack(
  claim: KnownClaim,
  { statefulSet, pods }: ClaimedObjects,
  nowMs: number,
  isNew: (pod: Pod, uid: string | undefined) => boolean,
): boolean {
  const { zone, uids = {} } = claim;
  const isAnyMissing = wantedMembers(claim, statefulSet).some(({ first, last }) => {
    const standing = [...pods.keys()].filter((ordinal) => ordinal >= first && ordinal <= last);
    return standing.length < last - first + 1;
  });
  const isBack = ([ordinal, pod]: readonly [number, Pod]) =>
    isNew(pod, uids[podNameOf({ statefulSet: zone, ordinal })]) &&
    isAvailable(pod, statefulSet?.minReadySeconds ?? 0, nowMs);
  return !isAnyMissing && [...pods].every(isBack);
}

/** True for another pod than the claim names at that ordinal; false if it names none. */
function isAnother(pod: Pod, uid: string | undefined): boolean {
  return uid !== undefined && pod.uid !== uid;
}

/** The phase of a claim of a node that reports another boot than when it failed: its kubelet has the pods. */
export const returnedPhase = "returned";

/**
 * True for the pod that the claim names once its node has returned, and the pod runs none of the containers that it ran then.
 * Until its kubelet reports that, the pod is shown as it was before.
 */
function runsAnew(
  { phase, containers = {} }: KnownClaim,
  where: ClaimedObjects,
  pod: Pod,
  uid: string | undefined,
): boolean {
  const before = containers[pod.name];
  const now = where.containers?.get(pod.ordinal) ?? [];
  if (phase !== returnedPhase || pod.uid !== uid || before === undefined) return false;
  return now.length > 0 && !now.some((id) => before.includes(id));
}

/** The members that the StatefulSet wants. As ranges, because a user may have asked for 2^31 of them. */
export function wantedMembers(
  { members }: Pick<KnownClaim, "members">,
  statefulSet: Pick<StatefulSet, "start" | "replicas"> | undefined,
): readonly OrdinalRange[] {
  if (statefulSet === undefined) return [];
  const { start, replicas } = statefulSet;
  return members.flatMap((range) => {
    const [first, last] = [Math.max(range.first, start), Math.min(range.last, start + replicas - 1)];
    return first <= last ? [{ first, last }] : [];
  });
}

/** True if the members of a claim count as down; of an unknown kind, the pods of its whole zone. */
export function countsAsDown(claim: Claim): boolean {
  return !claim.isKnown || kinds[claim.kind].countsAs === "members-down";
}

/** The name under which a function that meets a claim waits for it. */
export function guardOfClaim(claim: Claim): string {
  return claim.isKnown ? kinds[claim.kind].guard : foreignGuard.guard;
}

/** From when on a claim has stood for too long, in milliseconds since the epoch: by its kind's time, and its user's settings. */
export function dueMs(claim: KnownClaim, zone: ChosenTimes | undefined): number {
  const { mayStandMs, chosenMs } = kinds[claim.kind];
  return (claim.sinceMs ?? claim.stampMs) + mayStandMs + chosenMs(claim, zone);
}

/** Why a function waits. */
export interface Blocked {
  readonly guard: string;
  readonly message: string;
}

/** Why a function that meets a claim waits for it. */
export function blockedBy(claim: Claim): Blocked {
  return { guard: guardOfClaim(claim), message: describeClaim(claim) };
}

/** In bytes. A claim may name a thousand ranges, and each refusal describes the claim. */
const longestMembers = 100;

/** A reader who waits for a parked process must learn what ends that. */
function purposeOf(claim: KnownClaim): string {
  if (claim.mode === "parked") return `a process that is parked until ${parking.key} is taken off its pod`;
  return kinds[claim.kind].purpose;
}

/** How a claim ends by itself, for an operator. */
export function endsOf(claim: KnownClaim): string {
  const { ends } = kinds[claim.kind];
  return isParked(claim) ? `when ${parking.key} is taken off its pod, and then ${ends}` : ends;
}

/** The owner, the purpose and the age of a claim: `a: 3-5 claimed for a scale-down (preparing) by …, since 2026-…`. */
export function describeClaim(claim: Claim): string {
  const { zone, kind, by } = claim;
  if (!claim.isKnown) {
    const who = by === "" ? "" : ` by ${by}`;
    return `${zone} is claimed${who} for ${JSON.stringify(kind)}, which this version of Sluice does not know, so that the whole zone counts as down`;
  }
  const since = new Date(claim.sinceMs ?? claim.stampMs).toISOString();
  const terms = claim.terms === "announced" ? ", announced" : "";
  const members = cut(describeMembers(claim), longestMembers);
  return `${zone}: ${members} claimed for ${purposeOf(claim)} (${claim.phase}${terms}) by ${by}, since ${since}`;
}
