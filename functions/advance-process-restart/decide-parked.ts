/** Decides what becomes of a process that a person parks. Pure. */

import { parking } from "../shared/annotations/parking.ts";
import type { KnownClaim } from "../shared/ledger/claim.ts";
import { type Blocked, parkedPhase } from "../shared/ledger/claim-kinds.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import type { ManagerStatus } from "./calls.ts";

/** Allocation is free again this long after the process was parked, in milliseconds: it may be away for days. */
export const freeAgainMs = 60_000;

/** The guard of a parked process, which nothing waits for. */
export const restartParked = "restart-parked";

/** True while its user wants the process of a pod parked. */
export function isParkingWanted({ stop }: Pick<Pod, "stop">): boolean {
  return stop !== undefined && parking.parse(stop) === true;
}

/** True for a pod that is to be parked and that is in no phase: a restart that was asked for before comes first. */
export function isToPark(pod: Pod): boolean {
  return isParkingWanted(pod) && pod.restart === undefined && !pod.terminating;
}

/** True where a restart may be withdrawn before its process is stopped. Once the runner has the command, it stops first. */
export function isUnparked(
  { phase }: Pick<KnownClaim, "phase">,
  pod: Pod,
  { lastCommand = "" }: ManagerStatus,
): boolean {
  const isCommanded =
    (phase === "stopping" || phase === "killing") && (lastCommand === "stop" || lastCommand === "kill");
  return phase !== parkedPhase && !isParkingWanted(pod) && !isCommanded;
}

/**
 * True once the database must not wait for the process any longer. `pod`: undefined where it is gone, so that no step of its
 * process follows.
 */
export function isFreeAgain({ mode, hold, phase, stampMs }: KnownClaim, pod: Pod | undefined, nowMs: number): boolean {
  const isDown = pod === undefined || (phase === parkedPhase && isParkingWanted(pod));
  return mode === "parked" && hold === true && isDown && nowMs - stampMs >= freeAgainMs;
}

/** True for a process that is parked, and that its user still wants so: its process manager need not answer. */
export function isResting({ mode, phase }: KnownClaim, pod: Pod): boolean {
  return mode === "parked" && phase === parkedPhase && isParkingWanted(pod);
}

export function restOf({ name }: Pod): Blocked {
  return {
    guard: restartParked,
    message: `${name} is parked: it starts again when ${parking.key} is taken off`,
  };
}

/**
 * The files with which a parked process starts: those of now, because they may have changed for days. `before`: those that the
 * claim names already; they serve for as long as a process manager may have them, because a late call may start with them.
 */
export function sumToStart(
  { mountedSum, triedSum, runningSum }: ManagerStatus,
  before?: string | undefined,
): string | undefined {
  if (before !== undefined && (before === triedSum || before === runningSum)) return before;
  return mountedSum ?? before;
}

/** A pod that has failed is not parked: its phase keeps the others from the files that broke it. */
export function blockedByFailure({ name }: Pod): Blocked {
  const message = `the restart of ${name} has failed, and ${name} is not parked before that is mended: write cancel on it to park it`;
  return { guard: "restart-failed", message };
}
