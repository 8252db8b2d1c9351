/** Decides the next step of a restart of many processes, by what GETs and their process managers show. Pure. */

import type { KnownClaim } from "../../shared/ledger/claim.ts";
import type { Blocked } from "../../shared/ledger/claim-kinds.ts";
import { finishAfterMs } from "../../shared/ledger/reservation.ts";
import { isAvailable, type Pod } from "../../shared/workloads/pods.ts";
import type { Answered } from "../database/exchange.ts";
import {
  drainMs,
  isRefused,
  isTrue,
  longestMs,
  longestRestrictionMs,
  mostAttempts,
  type StepView,
  stoppingMs,
  unconfirmed,
} from "../decide-step.ts";
import {
  type AnsweringMember,
  blockedByFilesOf,
  type ConflictingPod,
  conflictingPodIn,
  isAnew,
  isAnswering,
  isBack,
  isCalled,
  isShown,
  isTakenOff,
  lacksFiles,
  notBack,
  type Outsiders,
  sumOf,
  type TogetherMember,
} from "./decide-member.ts";
import { callIn, togetherPhases } from "./phases.ts";

export interface TogetherView extends Pick<StepView, "nowMs" | "knownMs"> {
  /** All claims of the restart, at least one. */
  readonly claims: readonly KnownClaim[];
  readonly members: readonly TogetherMember[];
  /** A member that is wanted, and that no pod stands for. */
  readonly missing: string | undefined;
  /** A member's pod that stands without its StatefulSet, so that nothing can be called; absent: there is none. */
  readonly orphan?: string | undefined;
  readonly isAnchored: boolean;
  /** Pods that run, and that are not in the restart; absent where they do not matter now. */
  readonly outsiders?: readonly Outsiders[];
  /** Whether the database has the marker of the restart; absent where no database is named. */
  readonly restriction?: Answered<boolean>;
}

export type TogetherStep =
  | ({ readonly kind: "wait" } & Blocked)
  /** Anchors and phases that do not show the restart yet are written. */
  | { readonly kind: "show"; readonly pods: readonly Pod[] }
  /** The files of these StatefulSets change. */
  | { readonly kind: "copy"; readonly members: readonly TogetherMember[] }
  /**
   * All claims are written anew by one write, without the pods that are out, and then all process managers are called. `kill`:
   * the pods whose processes must end before they can start.
   */
  | {
      readonly kind: "move";
      readonly phase: string;
      readonly epoch: number;
      readonly out?: ReadonlySet<string>;
      readonly kill?: ReadonlySet<string>;
      /** The pod that the restart is withdrawn for. */
      readonly conflicting?: ConflictingPod;
    }
  /** What the restart has changed in the database is undone. */
  | { readonly kind: "release" }
  /** The claims go, and then the phases; these pods have failed. */
  | { readonly kind: "end"; readonly failed: ReadonlySet<string>; readonly message: string };

const waitFor = (guard: string, message: string): TogetherStep => ({ kind: "wait", guard, message });

const overdue = "not all have come back within an hour";

const end = (message: string, failed: readonly string[] = []): TogetherStep => ({
  ...{ kind: "end", failed: new Set(failed), message },
});

/** These members show that their restart has failed. */
function fail(members: readonly TogetherMember[], why: string): TogetherStep {
  const names = members.map(({ pod }) => pod.name);
  return end(`${names.join(", ")}: ${why}`, names);
}

/** Each member shows it. */
function failAll(claims: readonly KnownClaim[], message: string): TogetherStep {
  return end(
    message,
    claims.flatMap(({ processes = {} }) => Object.keys(processes)),
  );
}

const downStates: ReadonlySet<string> = new Set(["stopped", "killed"]);

/** Each step is decided by all members, so that none starts before all are down. */
export function decideTogether(view: TogetherView): TogetherStep {
  const { claims, members, isAnchored, orphan, nowMs } = view;
  const { phase, stampMs } = first(claims);
  const answering = members.filter(isAnswering);
  const silent = members.filter((one) => !isAnswering(one));
  const isBefore = callIn(phase) !== "start";
  const leaving = isBefore ? leave(view, answering, silent) : undefined;
  if (leaving !== undefined) return leaving;
  const behind = members.filter((one) => !isShown(one));
  if (behind.length > 0 || !isAnchored) return { kind: "show", pods: behind.map(({ pod }) => pod) };
  const again = callAgain(view, answering);
  if (again !== undefined) return again;
  if (orphan !== undefined)
    return waitFor("manager-silent", `the StatefulSet of ${orphan} is gone: make that again, or delete the pod`);
  // The hour is counted from its last call on, because a silent process manager may still get that.
  const [mute] = silent;
  if (mute !== undefined && !isBefore && nowMs - stampMs >= longestMs) return fail(notBack(members), overdue);
  if (mute !== undefined) return waitForSilent(mute, isBefore);
  return (steps[phase] ?? stepOfStart)(view, answering);
}

type TogetherDecider = (view: TogetherView, answering: readonly AnsweringMember[]) => TogetherStep;

const steps: Readonly<Record<string, TogetherDecider>> = {
  [togetherPhases.preparing]: stepOfFiles,
  [togetherPhases.restricting]: stepOfRestriction,
  [togetherPhases.flushing]: ({ claims }) => move(claims, togetherPhases.stopping),
  [togetherPhases.stopping]: stepOfStop,
  [togetherPhases.killing]: stepOfStop,
  [togetherPhases.withdrawing]: stepOfWithdrawal,
};

export function first(claims: readonly KnownClaim[]): KnownClaim {
  const [claim] = claims;
  if (claim === undefined) throw new Error("a restart without a claim");
  return claim;
}

function move(claims: readonly KnownClaim[], phase: string, epoch = first(claims).epoch ?? 1): TogetherStep {
  return { kind: "move", phase, epoch };
}

/** Higher than any that a process manager has seen. */
function nextEpoch(claims: readonly KnownClaim[], answering: readonly AnsweringMember[]): number {
  return Math.max(...claims.map(({ epoch = 0 }) => epoch), ...answering.map(({ answer }) => answer.lastEpoch)) + 1;
}

/** Before the barrier: a person withdraws the restart, or takes out a pod that does not answer; or a pod was made anew. */
function leave(
  { claims }: TogetherView,
  answering: readonly AnsweringMember[],
  silent: readonly TogetherMember[],
): TogetherStep | undefined {
  const isCancelled = ({ pod }: TogetherMember) => pod.restart?.phase === "cancel";
  const epoch = nextEpoch(claims, answering);
  if (answering.some(isTakenOff) || [...answering, ...silent].some(isCancelled))
    return move(claims, togetherPhases.withdrawing, epoch);
  const out = new Set(silent.filter(isTakenOff).map(({ pod }) => pod.name));
  const { phase } = first(claims);
  if (out.size > 0) return { kind: "move", phase, epoch, out };
  // Its server would refuse the stop, and after a kill also the start: so the files of now serve for all.
  if (phase !== togetherPhases.preparing && answering.some(lacksFiles))
    return move(claims, togetherPhases.preparing, epoch);
  // A new pod shows the restart before the claim names it: otherwise its missing phase would withdraw the restart.
  return answering.some((one) => isAnew(one) && isShown(one)) ? move(claims, phase, epoch) : undefined;
}

function waitForSilent({ pod, answer }: TogetherMember, isBefore: boolean): TogetherStep {
  const why = "silence" in answer ? answer.silence : "another pod answers by its name";
  const rest = isBefore ? "; nothing starts before: take its phase off, and it is out of the restart" : "";
  return waitFor("manager-silent", `the server of ${pod.name} reports nothing: ${why}${rest}`);
}

/** Calls that have not arrived are sent again when their first sender must have given up. */
function callAgain(view: TogetherView, answering: readonly AnsweringMember[]): TogetherStep | undefined {
  const { claims, nowMs } = view;
  const { phase, epoch = 1, stampMs } = first(claims);
  const uncalled = answering.filter((one) => !isCalled(one));
  const [one] = uncalled;
  if (callIn(phase) === undefined || one === undefined) return undefined;
  // No start is accepted while a process ends.
  if (phase === togetherPhases.withdrawing && uncalled.every(({ answer }) => answer.state === "stopping"))
    return endStopping(view, uncalled, nextEpoch(claims, answering));
  if (nowMs - stampMs < finishAfterMs)
    return waitFor("restart-calling", `the server of ${one.pod.name} has not confirmed ${callIn(phase)} yet`);
  if (callIn(phase) === "start" && uncalled.some(({ claim, answer }) => isRefused(claim, answer, nowMs)))
    return fail(notBack(answering), unconfirmed);
  const isStale = uncalled.some(({ answer }) => answer.lastEpoch >= epoch);
  return move(claims, phase, isStale ? nextEpoch(claims, answering) : epoch);
}

/** Processes that still stop although their restart is withdrawn, and that are killed as those of any other restart. */
function endStopping(view: TogetherView, stopping: readonly AnsweringMember[], epoch: number): TogetherStep {
  const claim = first(view.claims);
  const names = stopping.map(({ pod }) => pod.name);
  if (stoppingMs(claim, view) < graceOf(stopping) + drainMs)
    return waitFor("restart-stopping", `${names.join(", ")} still stops, and starts again when that has ended`);
  return { kind: "move", phase: claim.phase, epoch, kill: new Set(names) };
}

const graceOf = (members: readonly AnsweringMember[]): number =>
  Math.max(...members.map(({ statefulSet }) => statefulSet.graceMs));

/** No pod comes or goes now, so that none starts with the new files before the others. */
function stepOfFiles(view: TogetherView, answering: readonly AnsweringMember[]): TogetherStep {
  const { claims, restriction, outsiders = [] } = view;
  const blocked = blockedByFilesOf(answering, outsiders);
  // Before any copy: a pod that is made anew meanwhile must not start with new files alone.
  if (blocked !== undefined) return waitForFiles(view, answering, blocked);
  // A person took it out while its process manager was silent.
  const conflicting = conflictingPodIn(outsiders);
  const epoch = nextEpoch(claims, answering);
  if (conflicting !== undefined) return { kind: "move", phase: togetherPhases.withdrawing, epoch, conflicting };
  const differing = answering.filter(({ files }) => files?.kind === "differs");
  if (differing.length > 0) return { kind: "copy", members: differing };
  for (const { pod, files, answer, claim } of answering) {
    const sum = files?.kind === "same" ? files.sum : sumOf(claim, answering);
    if (sum === answer.mountedSum) continue;
    const sums = `expected are those of the sum ${sum ?? "none"}, and mounted are those of ${answer.mountedSum ?? "none"}`;
    return waitFor("config-coming", `the kubelet brings files to ${pod.name}: ${sums}`);
  }
  return move(claims, restriction === undefined ? togetherPhases.stopping : togetherPhases.restricting);
}

/** A quarter of an hour: after that the others of the group wait no longer, unless new files are mounted already. */
function waitForFiles(
  { claims, nowMs }: TogetherView,
  answering: readonly AnsweringMember[],
  blocked: Blocked,
): TogetherStep {
  const { stampMs, sinceMs = stampMs } = first(claims);
  const isUntouched = answering.every(
    ({ files, answer }) => answer.state === "started" && (files?.kind !== "same" || files.sum === answer.runningSum),
  );
  if (nowMs - sinceMs < longestRestrictionMs || !isUntouched) return { kind: "wait", ...blocked };
  return failAll(claims, `${blocked.message}; nothing was stopped`);
}

function stepOfRestriction({ claims, nowMs, restriction = { value: true } }: TogetherView): TogetherStep {
  const { stampMs, sinceMs = stampMs } = first(claims);
  if (isTrue(restriction)) return move(claims, togetherPhases.flushing);
  const why = "unknown" in restriction ? restriction.unknown : "it does not have the marker yet";
  const message = `allocation is not restricted: ${why}`;
  // A database without a master may be restarted for just that, and allocates nothing. One that refuses is waited for.
  if ("unknown" in restriction && restriction.isLost === true && nowMs - stampMs >= finishAfterMs)
    return move(claims, togetherPhases.flushing);
  if (nowMs - sinceMs >= longestRestrictionMs) return failAll(claims, `${message}; nothing was stopped`);
  if (nowMs - stampMs >= finishAfterMs) return move(claims, togetherPhases.restricting);
  return waitFor("database-unknown", message);
}

function stepOfStop(view: TogetherView, answering: readonly AnsweringMember[]): TogetherStep {
  const { claims } = view;
  const { phase } = first(claims);
  const running = answering.filter(({ answer }) => !downStates.has(answer.state));
  const [one] = running;
  if (one === undefined) return move(claims, togetherPhases.starting, nextEpoch(claims, answering));
  const isLate = stoppingMs(first(claims), view) >= graceOf(running) + drainMs;
  if (phase === togetherPhases.stopping && isLate && running.every(({ answer }) => answer.lastCommand === "stop"))
    return move(claims, togetherPhases.killing, nextEpoch(claims, answering));
  const beginning = `${running.length} of ${answering.length} processes are not down, and none starts before`;
  return waitFor("restart-stopping", `${beginning}: ${one.pod.name} is ${one.answer.state}`);
}

function stepOfStart(view: TogetherView, answering: readonly AnsweringMember[]): TogetherStep {
  const { claims, missing, nowMs } = view;
  const { stampMs, sinceMs = stampMs, hold } = first(claims);
  const away = notBack(answering);
  const failed = away.filter(({ answer }) => answer.state !== "started" && answer.attempts >= mostAttempts);
  const isOver = failed.length > 0 && answering.every((one) => one.answer.state === "started" || failed.includes(one));
  if (isOver || nowMs - sinceMs >= longestMs)
    return fail(away, isOver ? `${mostAttempts} starts have failed` : overdue);
  if (missing !== undefined) return waitFor("pod-missing", `${missing} is gone, and no other one is ready`);
  const [one] = away;
  if (one !== undefined) return waitForStart(one);
  if (answering.length === 0) return end("no pod of it is left");
  // A pod may be ready only once all its shards have their copies, which are allocated to no node before that.
  if (hold === true) return { kind: "release" };
  const unready = answering.find(({ pod, statefulSet }) => !isAvailable(pod, statefulSet.minReadySeconds, nowMs));
  if (unready !== undefined) return waitForStart(unready);
  return end("all are back");
}

function waitForStart({ pod, answer, membership }: AnsweringMember): TogetherStep {
  if (membership !== undefined && "unknown" in membership)
    return waitFor("database-unknown", `whether the node of ${pod.name} is a member is unknown: ${membership.unknown}`);
  if (membership?.value === false)
    return waitFor("restart-joining", `${pod.name} runs, and its node is no member of the database yet`);
  return waitFor("restart-starting", `${pod.name} starts in place: ${answer.state}, attempt ${answer.attempts}`);
}

/** No process is left down. All have the call of the last epoch, so that no earlier one has an effect any more. */
function stepOfWithdrawal(view: TogetherView, answering: readonly AnsweringMember[]): TogetherStep {
  if (answering.every(isBack)) return end("the restart is withdrawn");
  // It was killed, because it did not stop: now it can start.
  const isKilled = answering.some(({ answer }) => downStates.has(answer.state) && answer.lastCommand !== "start");
  if (isKilled) return move(view.claims, togetherPhases.withdrawing, nextEpoch(view.claims, answering));
  return stepOfStart(view, answering);
}
