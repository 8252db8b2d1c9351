/** Decides which process is restarted next, and which phases are taken off. Pure. */

import type { RestartPhase } from "../shared/annotations/restart.ts";
import { take, type Verdict, wait } from "../shared/contract/verdict.ts";
import type { ZonesNow } from "../shared/groups/pod-limit.ts";
import type { Zone } from "../shared/groups/zones.ts";
import type { Claim } from "../shared/ledger/claim.ts";
import { type Blocked, blockedBy } from "../shared/ledger/claim-kinds.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import type { StatefulSet } from "../shared/workloads/statefulsets.ts";
import type { ManagerStatus } from "./calls.ts";
import type { Candidate } from "./candidate.ts";
import { type BeginMode, claimOf, isOpenRestart, type NewClaim } from "./claims.ts";
import { claimsTogether } from "./coordinated/claims.ts";
import { blockedTogether, hasFailedTogether, membersOf } from "./coordinated/decide-begin.ts";
import { confirmAfterMs, type LeftOver } from "./database/decide-left-over.ts";
import { blockedByProducts } from "./database/decide-products.ts";
import { blockedByOthers, type FilesCopy, isMended } from "./decide-files.ts";
import type { MarkTarget } from "./decide-mark.ts";
import { byName, byTurn } from "./decide-order.ts";
import { blockedByFailure, isParkingWanted, isToPark } from "./decide-parked.ts";
import { blockedByManager, blockedByPod } from "./decide-pod.ts";
import { isDown, isMasterEligible, mayBeNext, type RuleGroup, refuseByRules } from "./decide-rules.ts";
import { phases } from "./decide-step.ts";
import type { TriggerDecision } from "./trigger/decide-trigger.ts";

export interface RestartSnapshot extends RuleGroup {
  readonly candidates: readonly Candidate[];
  /** All claims of the ledger. */
  readonly claims: readonly Claim[];
  /** What the restart that is under way waits for, as this process knows; undefined where it knows nothing. */
  readonly underWay: Blocked | undefined;
  /** Why a process that is parked no longer has not started; absent where there is none. */
  readonly unparking?: Blocked | undefined;
  /** When the last restart of the group has ended; absent: none has, as far as the ledger shows. */
  readonly lastRestartMs?: number | undefined;
  /** For how long the same pods have waited to restart together, in milliseconds; absent: 0. */
  readonly gatheredMs?: number;
  /** Members of the database that are no pods of the group; absent where no restart together is wanted, or it gives no answer. */
  readonly elsewhere?: readonly string[];
  /** A restart that is in no ledger and that the database still has a marker of; absent where it has none. */
  readonly leftOver?: LeftOver | undefined;
  /** Absent while a restart is under way. */
  readonly triggers?: TriggerDecision;
}

export type RestartTarget =
  | {
      readonly kind: "begin";
      readonly statefulSet: StatefulSet;
      readonly pod: Pod;
      readonly claim: NewClaim;
    }
  /** All of these pods stop, and start again together. */
  | { readonly kind: "begin-together"; readonly members: readonly Candidate[]; readonly claims: readonly NewClaim[] }
  /** The mounted files of a StatefulSet change, before one of its processes restarts. */
  | { readonly kind: "copy"; readonly statefulSet: StatefulSet; readonly sum: string; readonly copy: FilesCopy }
  /** These pods, which have no phase, get the one that stands on their StatefulSet. Then it is taken off there. */
  | { readonly kind: "fan-out"; readonly statefulSet: StatefulSet; readonly pods: readonly Pod[] }
  /** A phase, or an id, that stands on a pod without a restart. */
  | { readonly kind: "clear"; readonly statefulSet: StatefulSet; readonly pod: Pod }
  /** Sluice asks for the restart of these pods by itself. */
  | MarkTarget
  /** A marker that stands in the database without a restart. */
  | ({ readonly kind: "release" } & LeftOver);

const releasing = "a setting of the database that a restart has left is undone";

/** What is done for one pod: its restart, or what comes before it. */
type PodTarget = Extract<RestartTarget, { kind: "begin" | "copy" }>;

/** How soon to read a restart again that is under way, in milliseconds: no event reports what a process manager sees. */
export const restartRequeueMs = 1_000;
/** The same if the last step was over when the process manager answered: the next step waits for nothing. */
export const nextStepMs = 100;
const passing: ReadonlySet<string> = new Set([phases.restricting, phases.flushing]);
/** How soon to read a restart again that waits to begin, in milliseconds. */
const waitingRequeueMs = 5_000;
/** For so long after a restart the next one is read as often as one under way: a database mostly settles within a second. */
const settlingMs = 30_000;
/** How soon to read again whether files were mended, in milliseconds: no event reports a Secret. */
const filesRequeueMs = 10_000;

/**
 * One process at a time: the claim of a restart is its lock (rule R18). What a person wants now comes first. Of those that
 * restart in their turn only the first one counts: no other overtakes it.
 */
export function decide(snapshot: RestartSnapshot): Verdict<RestartTarget> {
  const { candidates, claims, underWay } = snapshot;
  // This comes before anything ends or begins: a pod that has a phase gets no second one for the same request.
  const wanted = snapshot.zones.filter(({ workload }) => workload.restart?.phaseOfAll && !workload.deleting);
  if (wanted.length > 0) return take(wanted.map(fanOut), "the phase of a StatefulSet is written to its pods");
  const open = claims.find(isOpenRestart);
  if (open !== undefined) {
    const { guard, message } = underWay ?? blockedBy(open);
    const isPassing = underWay === undefined && open.isKnown && passing.has(open.phase);
    return wait(guard, message, { zone: open.zone, requeueAfterMs: isPassing ? nextStepMs : restartRequeueMs });
  }
  const left = candidates.filter(({ pod }) => isLeftOver(pod));
  const cleared = left.map(({ zone, pod }): RestartTarget => ({ kind: "clear", statefulSet: zone.workload, pod }));
  if (cleared.length > 0) return take(cleared, "phases without a restart are taken off");
  const { leftOver } = snapshot;
  if (leftOver?.isConfirmed === true) return take([{ kind: "release", ...leftOver }], releasing);
  // This comes before any restart begins: a pod that restarted in between would be asked a second time.
  const { targets = [], blocked = snapshot.unparking } = snapshot.triggers ?? {};
  if (targets.length > 0) return take(targets, "a trigger has a new value, and pods get a phase");
  const next = decideNext(snapshot);
  const isIdle = next.kind === "take" && next.targets.length === 0;
  return blocked && isIdle ? wait(blocked.guard, blocked.message, { requeueAfterMs: waitingRequeueMs }) : next;
}

/** Which restart begins, where none is under way and nothing is to be undone. */
function decideNext(snapshot: RestartSnapshot): Verdict<RestartTarget> {
  const { candidates } = snapshot;
  const now = withPhase(candidates, "schedule").sort(byName);
  const single = withPhase(candidates, "failed").filter((one) => !hasFailedTogether(one));
  const mended = single.sort(byName).filter(hasNewFiles);
  const later = [...mended, ...inTurn(snapshot)];
  const differing = blockedByProducts(snapshot.zones);
  if (differing !== undefined && [...now, ...membersOf(candidates), ...later].length > 0)
    return wait(differing.guard, differing.message, { requeueAfterMs: waitingRequeueMs });
  const wanted = firstToBegin(now, (one) => beginNow(snapshot, one));
  if ("kind" in wanted) return wanted;
  const together = wanted.first === undefined ? beginTogether(snapshot) : undefined;
  if (together !== undefined) return together;
  const parking = firstToBegin(toPark(candidates), (one) => park(snapshot, one));
  if ("kind" in parking) return parking;
  let first = wanted.first ?? parking.first;
  const failed = mended.length > 0 ? undefined : blockedByFailed(candidates);
  const turn = firstToBegin(mayBeNext(snapshot, later), (one) => failed ?? beginInTurn(snapshot, one));
  if ("kind" in turn) return turn;
  first ??= turn.first;
  if (first === undefined) return take([], "no restart is wanted", { requeueAfterMs: nextReadMs(snapshot) });
  const { blocked, candidate } = first;
  const zone = candidate.zone.workload.name;
  return wait(blocked.guard, blocked.message, { zone, requeueAfterMs: nextTryMs(snapshot) });
}

const nextTryMs = ({ nowMs, lastRestartMs = 0 }: RestartSnapshot): number =>
  nowMs - lastRestartMs < settlingMs ? restartRequeueMs : waitingRequeueMs;

/** The first pod that may begin; else the first one that may not. */
function firstToBegin(
  candidates: readonly Candidate[],
  begin: (candidate: Candidate) => PodTarget | Blocked,
): Verdict<RestartTarget> | { readonly first: WaitingPod | undefined } {
  let first: WaitingPod | undefined;
  for (const candidate of candidates) {
    const found = begin(candidate);
    if ("kind" in found) return takeOne(found, candidate);
    first ??= { blocked: found, candidate };
  }
  return { first };
}

/** The pods whose processes are to be parked. One that has failed waits for a person. */
function toPark(candidates: readonly Candidate[]): Candidate[] {
  const isFailed = ({ restart }: Pod) => restart?.phase === "failed";
  return candidates.filter(({ pod }) => isToPark(pod) || (isFailed(pod) && isParkingWanted(pod))).sort(byName);
}

/** All pods that are to restart together, or why they wait. Undefined where there are none: then others have their turn. */
function beginTogether(snapshot: RestartSnapshot): Verdict<RestartTarget> | undefined {
  const members = membersOf(snapshot.candidates);
  const [leader] = members;
  if (leader === undefined) return undefined;
  const waitFor = ({ guard, message }: Blocked, { zone }: Candidate): Verdict<RestartTarget> =>
    wait(guard, message, { zone: zone.workload.name, requeueAfterMs: waitingRequeueMs });
  const blocked = blockedTogether({ ...snapshot, gatheredMs: snapshot.gatheredMs ?? 0 });
  if (blocked !== undefined) return waitFor(blocked, leader);
  for (const one of members) {
    const refusal = blockedByPod(one) ?? (one.files?.kind === "blocked" ? one.files.blocked : blockedByManager(one));
    if (refusal !== undefined) return waitFor(refusal, one);
  }
  const target: RestartTarget = { kind: "begin-together", members, claims: claimsTogether(members) };
  return take([target], `${members.length} pods are restarted together, in place`);
}

/** A pod that terminates gets no phase: the pod that replaces it starts a new process in any case. */
function fanOut({ workload: statefulSet, pods }: Zone): RestartTarget {
  const free = pods.filter(({ restart, terminating }) => restart?.text === undefined && !terminating);
  return { kind: "fan-out", statefulSet, pods: free };
}

/** A pod that waits for its restart, and why. */
interface WaitingPod {
  readonly blocked: Blocked;
  readonly candidate: Candidate;
}

/** When to read again what no event reports, although no restart is wanted. */
function nextReadMs({ candidates, leftOver }: RestartSnapshot): number | undefined {
  if (leftOver !== undefined) return confirmAfterMs;
  return candidates.some(({ files }) => files !== undefined) ? filesRequeueMs : undefined;
}

function takeOne(target: PodTarget, { pod }: Candidate): Verdict<RestartTarget> {
  const begins =
    target.kind === "begin" && target.claim.mode === "parked" ? "is parked in place" : "is restarted in place";
  const what = target.kind === "begin" ? begins : "gets other files before it is restarted in place";
  return take([target], `${pod.name} ${what}`, { zone: target.statefulSet.name });
}

function hasNewFiles({ pod, files, answer }: Candidate): boolean {
  return isMended(pod, files, answer);
}

/** No claim is open now, so that none has been written for the files that are mounted. */
function filesFirst({ zones }: ZonesNow, { zone, pod, files }: Candidate): PodTarget | Blocked | undefined {
  if (files === undefined) return undefined;
  if (files.kind === "blocked") return files.blocked;
  const alone = blockedByOthers(files, pod, zones);
  if (alone !== undefined || files.kind === "same") return alone;
  const { sum, copy } = files;
  return { kind: "copy", statefulSet: zone.workload, sum, copy };
}

function withPhase(candidates: readonly Candidate[], phase: RestartPhase): Candidate[] {
  return candidates.filter(({ pod }) => pod.restart?.phase === phase);
}

/** The phases that only the function writes, under a claim. */
export const shownPhases: ReadonlySet<RestartPhase> = new Set([
  "stop",
  "start",
  "stop-coordinated",
  "start-coordinated",
]);

/** True for a phase that a restart has left behind, or that a person has written while none is under way. */
function isLeftOver({ restart, terminating }: Pod): boolean {
  if (restart === undefined || terminating) return false;
  const { phase, text, id } = restart;
  return (
    (phase !== undefined && shownPhases.has(phase)) || phase === "cancel" || (text === undefined && id !== undefined)
  );
}

/** The pods that restart in their turn, the next one first. */
export function inTurn({ candidates, ...group }: RuleGroup & Pick<RestartSnapshot, "candidates">): Candidate[] {
  const { database } = group;
  const ordered = withPhase(candidates, "schedule-rolling").map((candidate) => {
    const { zone, pod } = candidate;
    const isEligible = database.kind === "known" && isMasterEligible({ zone, pod, facts: database.facts });
    return { ...candidate, isAvailable: !isDown({ group, zone, pod }), isMasterEligible: isEligible };
  });
  return ordered.sort(byTurn);
}

/** True for a pod whose process would restart now, as a person wants it. */
export function mayBeginNow(group: ZonesNow, candidate: Candidate): boolean {
  return candidate.pod.restart?.phase === "schedule" && "kind" in beginNow(group, candidate);
}

function beginNow(group: ZonesNow, candidate: Candidate): PodTarget | Blocked {
  const { zone, pod, answer } = candidate;
  const first = blockedByPod(candidate) ?? filesFirst(group, candidate) ?? blockedByManager(candidate);
  return first ?? beginOf(zone, pod, claimOf(zone.workload.name, pod, answer as ManagerStatus, "single"));
}

/** True for a pod that may be parked as far as it depends on the pod itself. */
export function mayPark(candidate: Candidate): boolean {
  return isToPark(candidate.pod) && (blockedByPod(candidate) ?? blockedByManager(candidate)) === undefined;
}

/** The files do not matter before its process starts again. */
function park(group: RuleGroup, candidate: Candidate): PodTarget | Blocked {
  if (!isToPark(candidate.pod)) return blockedByFailure(candidate.pod);
  return beginInTurn(group, { ...candidate, files: undefined }, "parked");
}

function beginInTurn(group: RuleGroup, candidate: Candidate, mode: BeginMode = "rolling"): PodTarget | Blocked {
  const { zone, pod, answer } = candidate;
  const status = answer !== undefined && "podUid" in answer ? answer : noStatus;
  const claim = claimOf(zone.workload.name, pod, status, mode);
  // The kubelet may bring the files while the rules keep the pod waiting.
  const first = blockedByPod(candidate) ?? filesFirst(group, candidate);
  return (
    first ?? refuseByRules({ group, zone, pod, claim }) ?? blockedByManager(candidate) ?? beginOf(zone, pod, claim)
  );
}

/** Stands for the report of a process manager where a claim is made only to see whether it fits into the ledger. */
const noStatus = { processId: undefined, mountedSum: undefined, lastEpoch: 0 };

function beginOf({ workload: statefulSet }: Zone<StatefulSet>, pod: Pod, claim: NewClaim): PodTarget {
  return { kind: "begin", statefulSet, pod, claim };
}

/** A process that has failed is down, and the file that broke it would break the next one. */
function blockedByFailed(candidates: readonly Candidate[]): Blocked | undefined {
  const [failed] = withPhase(candidates, "failed").sort(byName);
  if (failed === undefined) return undefined;
  const { name } = failed.pod;
  const message = `the restart of ${name} has failed, and no other pod of the group restarts in its turn: write schedule-rolling on ${name} to try again, or cancel to leave it`;
  return { guard: "restart-failed", message };
}
