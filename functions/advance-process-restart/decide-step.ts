/** Decides the next step of a restart that is under way, by what GETs and the process manager show. Pure. */

import type { RestartPhase } from "../shared/annotations/restart.ts";
import type { KnownClaim } from "../shared/ledger/claim.ts";
import { type Blocked, type ClaimedObjects, kinds, parkedPhase } from "../shared/ledger/claim-kinds.ts";
import { finishAfterMs } from "../shared/ledger/reservation.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import type { ManagerStatus, StatusAnswer, Verb } from "./calls.ts";
import type { Answered } from "./database/exchange.ts";
import { hasNone } from "./decide-files.ts";
import { isFreeAgain, isParkingWanted, isResting, isUnparked, restOf, sumToStart } from "./decide-parked.ts";

/**
 * The phases of a claim. The first two are of a process whose database is named, and `parked` is of one that stays down. A
 * withdrawn restart ends when its process runs, whether it was stopped or not.
 */
export const phases = {
  restricting: "restricting",
  flushing: "flushing",
  stopping: "stopping",
  killing: "killing",
  parked: parkedPhase,
  starting: "starting",
  withdrawing: "withdrawing",
} as const;

/** What the pod shows, and what its process manager is asked, in each phase of the claim, or will be in the next one. */
const verbs: Readonly<Record<string, Verb>> = {
  restricting: "stop",
  flushing: "stop",
  stopping: "stop",
  killing: "kill",
  parked: "stop",
  starting: "start",
  withdrawing: "start",
};

export function verbOf({ phase }: Pick<KnownClaim, "phase">): Verb {
  return verbs[phase] ?? "start";
}

export function shownPhase(claim: Pick<KnownClaim, "phase">): RestartPhase {
  return verbOf(claim) === "start" ? "start" : "stop";
}

/** More failed starts than these are not waited for. */
export const mostAttempts = 3;
/** A restart that has not ended after so long has failed, in milliseconds. */
export const longestMs = 3_600_000;
/** The same for a restart whose database does not let it begin. */
export const longestRestrictionMs = 900_000;
/** How long a process manager waits by default until clients have left, in milliseconds; the grace period begins after it. */
export const drainMs = 5_000;

/** The guard of a restart whose database has not given the expected answer. */
export const databaseUnknown = "database-unknown";

export interface StepView {
  readonly claim: KnownClaim;
  readonly where: ClaimedObjects;
  /** Undefined where no pod of the claim stands, so that no process manager was asked. */
  readonly answer: StatusAnswer | undefined;
  readonly nowMs: number;
  /** For how long the claim has stood as it is for sure, in milliseconds; absent: for as long as its stamp says. */
  readonly knownMs?: number;
  /** Whether the database has the marker of the restart; absent where that is not asked. */
  readonly restriction?: Answered<boolean>;
  /** Whether the node of the pod is a member of the database; absent where that is not asked. */
  readonly membership?: Answered<boolean>;
  /** What the restart waited for before; absent where this process does not know. */
  readonly before?: Blocked | undefined;
}

export type Step =
  | ({ readonly kind: "wait" } & Blocked)
  /** The claim goes, and then the phase. `shown`: the phase that the pod keeps. */
  | { readonly kind: "end"; readonly shown: "failed" | undefined; readonly message: string }
  /** What the restart has changed in the database is undone, and its claim stands. */
  | { readonly kind: "release" }
  /** The pod shows an earlier phase than the claim. */
  | { readonly kind: "show" }
  /** The process is down, and stays so: the claim says it, and no process manager is called. */
  | { readonly kind: "park" }
  /** The claim is written anew, and then the process manager is called. */
  | { readonly kind: "call"; readonly changes: Partial<Pick<KnownClaim, "phase" | "epoch" | "sum" | "sinceMs">> };

/** The pod of a claim of one process: that of its uid, and no later one of its name. */
export function podOfClaim({ uids = {} }: KnownClaim, { pods }: Pick<ClaimedObjects, "pods">): Pod | undefined {
  return [...pods.values()].find(({ name, uid }) => uids[name] === uid);
}

export function decideStep(view: StepView): Step {
  const { claim, where, answer, nowMs } = view;
  const pod = podOfClaim(claim, where);
  // What it has changed in the database is undone before its claim goes.
  if (kinds[claim.kind].isSettled({ ...claim, hold: false }, where, nowMs))
    return { kind: "end", shown: undefined, message: "it is back" };
  if (isFreeAgain(claim, pod, nowMs)) return { kind: "release" };
  if (pod === undefined)
    return waitFor("pod-missing", `${claim.zone}: the pod of the restart is gone, and no other one is ready`);
  if (isResting(claim, pod)) return stepAtRest(claim, pod);
  if (answer === undefined || "silence" in answer || answer.podUid !== pod.uid) return silent(view, pod);
  if (claim.phase === phases.withdrawing && isWithdrawn(view, pod, answer))
    return { kind: "end", shown: undefined, message: "the restart is withdrawn" };
  const isTakenBack = claim.mode === "parked" ? isUnparked(claim, pod, answer) : isCancelled(pod);
  if (isTakenBack && verbOf(claim) !== "start")
    return { kind: "call", changes: { phase: phases.withdrawing, epoch: nextEpoch(claim, answer) } };
  if (isBehind(claim, pod) && !isTakenBack) return { kind: "show" };
  return (steps[claim.phase] ?? stepOfStart)(view, pod, answer);
}

function stepAtRest(claim: KnownClaim, pod: Pod): Step {
  return isBehind(claim, pod) ? { kind: "show" } : { kind: "wait", ...restOf(pod) };
}

function isCancelled({ restart }: Pod): boolean {
  return restart?.phase === undefined || restart.phase === "cancel";
}

function isBehind(claim: KnownClaim, { restart }: Pod): boolean {
  return restart?.phase !== shownPhase(claim) || restart.id !== claim.id;
}

type Decider = (view: StepView, pod: Pod, answer: ManagerStatus) => Step;

const steps: Readonly<Record<string, Decider>> = {
  [phases.restricting]: stepOfRestriction,
  // A flush only saves time, so that an interrupted one is not begun again.
  [phases.flushing]: () => ({ kind: "call", changes: { phase: phases.stopping } }),
  [phases.stopping]: stepOfStop,
  [phases.killing]: stepOfStop,
  [phases.parked]: stepOfUnparking,
};

const waitFor = (guard: string, message: string): Step => ({ kind: "wait", guard, message });

/** The hour of a start counts from its last call, which a silent process manager may still get. */
function silent({ claim, answer, nowMs }: StepView, pod: Pod): Step {
  const why = answer !== undefined && "silence" in answer ? answer.silence : "another pod answers by its name";
  const message = `the server of ${pod.name} reports nothing: ${why}`;
  if (verbOf(claim) !== "start" || nowMs - claim.stampMs < longestMs) return waitFor("manager-silent", message);
  return { kind: "end", shown: "failed", message: `${pod.name} is not back: an hour after its start ${message}` };
}

/**
 * A call of the restart's last epoch was answered, so that no earlier one has an effect any more. A process that was stopped
 * before must also be a member again.
 */
function isWithdrawn({ claim, membership }: StepView, pod: Pod, answer: ManagerStatus): boolean {
  if (!isOurs(claim, answer) || answer.state !== "started") return false;
  return claim.processes?.[pod.name] === answer.processId || isTrue(membership);
}

/** True where the database says so, and where it is not asked. */
export const isTrue = (answered: Answered<boolean> = { value: true }): boolean => "value" in answered && answered.value;

/** Each step has a higher epoch than any that the process manager has seen. */
function nextEpoch({ epoch = 0 }: KnownClaim, { lastEpoch }: ManagerStatus): number {
  return Math.max(epoch, lastEpoch) + 1;
}

/** True once the process manager has the call of the claim. */
function isOurs({ id, epoch }: KnownClaim, { lastEpoch, restartId }: ManagerStatus): boolean {
  return lastEpoch === epoch && restartId === id;
}

export const unconfirmed =
  "its server has confirmed no start for more than an hour: write schedule on it to start it with the mounted files";

/** A start without files is refused each time. Any other one may still arrive, and has another hour for that. */
export function isRefused(claim: KnownClaim, answer: ManagerStatus, nowMs: number): boolean {
  const { sum, stampMs, sinceMs = stampMs } = claim;
  return nowMs - sinceMs >= (hasNone(sum, answer) ? longestMs : 2 * longestMs);
}

/**
 * A call that has not arrived: it is sent again when its first sender must have given up, and with an epoch that is accepted.
 * Undefined if it has arrived.
 */
function sendAgain({ claim, nowMs }: StepView, pod: Pod, answer: ManagerStatus): Step | undefined {
  if (isOurs(claim, answer)) return undefined;
  if (nowMs - claim.stampMs < finishAfterMs)
    return waitFor("restart-calling", `the server of ${pod.name} has not confirmed ${verbOf(claim)} yet`);
  if (verbOf(claim) === "start" && isRefused(claim, answer, nowMs))
    return { kind: "end", shown: "failed", message: `${pod.name} is not back: ${unconfirmed}` };
  // No start is accepted while the process ends, and only a stop that takes too long is followed by a kill.
  if (claim.phase === phases.withdrawing && answer.state === "stopping")
    return { kind: "call", changes: { phase: phases.stopping, epoch: nextEpoch(claim, answer) } };
  const { epoch: last = 0 } = claim;
  const isStale = answer.lastEpoch >= last;
  // Nothing is stopped yet. The call names the present files, because the earlier ones may be gone when it arrives.
  const sum = sumOfNow(claim, answer);
  // Under one epoch a late call would stop the process for other files than the claim says, and no start could follow.
  const epoch = isStale || sum !== claim.sum ? nextEpoch(claim, answer) : last;
  return { kind: "call", changes: { epoch, ...(sum === undefined ? {} : { sum }) } };
}

function sumOfNow(claim: KnownClaim, answer: ManagerStatus): string | undefined {
  if (claim.phase === phases.stopping) return answer.mountedSum ?? claim.sum;
  const isUnparking = claim.mode === "parked" && claim.phase === phases.starting;
  return isUnparking ? sumToStart(answer, claim.sum) : claim.sum;
}

/** The start begins now: for how long the process was parked does not matter to it. */
function stepOfUnparking({ claim, nowMs }: StepView, _pod: Pod, answer: ManagerStatus): Step {
  const sum = sumToStart(answer) ?? claim.sum;
  const epoch = nextEpoch(claim, answer);
  const changes = { phase: phases.starting, epoch, sinceMs: nowMs };
  return { kind: "call", changes: sum === undefined ? changes : { ...changes, sum } };
}

/** The process does not run in these. A runner that is away may still have one. */
const restingStates: ReadonlySet<string> = new Set(["waiting", "startFailed", "failed", "stopped", "killed"]);

/** Nothing is stopped before the database has the marker. Each attempt is one write of the claim, and then one request. */
function stepOfRestriction(view: StepView, pod: Pod, answer: ManagerStatus): Step {
  const { claim, nowMs, restriction, before } = view;
  const answered = restriction ?? { unknown: "no StatefulSet of the group names its database" };
  if (isTrue(answered)) return { kind: "call", changes: { phase: phases.flushing } };
  // A node that does not run is no member, so that its database, of which no node knows a master, loses nothing by the stop.
  const isLost = "unknown" in answered && answered.isLost === true && restingStates.has(answer.state);
  if (isLost && nowMs - claim.stampMs >= finishAfterMs) return { kind: "call", changes: { phase: phases.flushing } };
  const why = "unknown" in answered ? answered.unknown : "it does not have the marker of the restart yet";
  const blocked = { guard: databaseUnknown, message: `allocation is not restricted for ${pod.name}: ${why}` };
  if (nowMs - (claim.sinceMs ?? claim.stampMs) >= longestRestrictionMs)
    return { kind: "end", shown: "failed", message: `${blocked.message}; nothing was stopped` };
  if ("unknown" in answered) return { kind: "wait", ...blocked };
  const isFirst = claim.sinceMs === undefined;
  if (isFirst || nowMs - claim.stampMs >= finishAfterMs)
    return { kind: "call", changes: { phase: phases.restricting } };
  return { kind: "wait", ...(before?.guard === databaseUnknown ? before : blocked) };
}

/** For how long a process has been asked to stop. Its grace period stays whole when the API server's clock is set meanwhile. */
export function stoppingMs(
  { stampMs }: Pick<KnownClaim, "stampMs">,
  { nowMs, knownMs = Number.POSITIVE_INFINITY }: Pick<StepView, "nowMs" | "knownMs">,
): number {
  return Math.min(nowMs - stampMs, knownMs);
}

function stepOfStop(view: StepView, pod: Pod, answer: ManagerStatus): Step {
  const { claim, where } = view;
  const again = sendAgain(view, pod, answer);
  if (again !== undefined) return again;
  const isDown = answer.state === "stopped" || answer.state === "killed";
  if (isDown && claim.mode === "parked" && isParkingWanted(pod)) return { kind: "park" };
  if (isDown) return { kind: "call", changes: { phase: phases.starting, epoch: nextEpoch(claim, answer) } };
  const graceMs = where.statefulSet?.graceMs ?? 0;
  const isLate = stoppingMs(claim, view) >= graceMs + drainMs;
  if (claim.phase === phases.stopping && isLate && answer.lastCommand === "stop")
    return { kind: "call", changes: { phase: phases.killing, epoch: nextEpoch(claim, answer) } };
  return waitFor("restart-stopping", `${pod.name} stops in place: ${answer.state}`);
}

function stepOfStart(view: StepView, pod: Pod, answer: ManagerStatus): Step {
  const { claim, nowMs, membership } = view;
  const again = sendAgain(view, pod, answer);
  if (again !== undefined) return again;
  const hasFailed = answer.state !== "started" && answer.attempts >= mostAttempts;
  if (hasFailed || nowMs - (claim.sinceMs ?? claim.stampMs) >= longestMs) {
    const why = hasFailed ? `${answer.attempts} starts have failed` : "it has not come back within an hour";
    return { kind: "end", shown: "failed", message: `${pod.name} is not back: ${why}` };
  }
  if (membership !== undefined && "unknown" in membership)
    return waitFor(databaseUnknown, `whether the node of ${pod.name} is a member is unknown: ${membership.unknown}`);
  if (membership?.value === false)
    return waitFor("restart-joining", `${pod.name} runs, and its node is no member of the database yet`);
  // A pod may be ready only once all its shards have their copies, which are allocated to no node before that.
  if (membership !== undefined && claim.hold === true) return { kind: "release" };
  return waitFor("restart-starting", `${pod.name} starts in place: ${answer.state}, attempt ${answer.attempts}`);
}
