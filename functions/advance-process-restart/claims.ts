/** Claims of restarts: which one blocks the others of its group, and what a new one says. Pure. */

import { restartId } from "../shared/annotations/restart.ts";
import type { Claim, ClaimContent, KnownClaim } from "../shared/ledger/claim.ts";
import { parkedPhase } from "../shared/ledger/claim-kinds.ts";
import type { ProcessMode } from "../shared/ledger/process-claim.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import type { ManagerStatus } from "./calls.ts";

export type NewClaim = Omit<ClaimContent, "by" | "stampMs">;

/** True for a process that is stopped until its user wants it again, once nothing of that is left in the database. */
export function isAtRest(claim: Claim): claim is KnownClaim {
  return claim.isKnown && claim.mode === "parked" && claim.phase === parkedPhase && claim.hold !== true;
}

/**
 * True for a restart that blocks the others of its group (rule R18). A parked process does not, but until allocation is free
 * again it does: the database has room for one marker.
 */
export function isOpenRestart(claim: Claim): boolean {
  return claim.kind === "process" && !isAtRest(claim);
}

/** True for a pod whose process is parked under one of these claims: its phase and its id belong to that. */
export function isParkedBy(claims: readonly Claim[], { name, uid }: Pick<Pod, "name" | "uid">): boolean {
  return claims.some((claim) => isAtRest(claim) && claim.uids?.[name] === uid);
}

/** How a restart of one process begins: a person wants it now, or it is its turn, or its process is to be parked. */
export type BeginMode = Extract<ProcessMode, "single" | "rolling" | "parked">;

/**
 * The claim of a restart. The budget does not limit what a person wants now (`announced`, rule R17). Its epoch is higher than all
 * that the process manager has seen, so that its id is new as well.
 */
export function claimOf(
  zone: string,
  pod: Pod,
  { processId = "", mountedSum, lastEpoch }: Pick<ManagerStatus, "processId" | "mountedSum" | "lastEpoch">,
  mode: BeginMode,
): NewClaim {
  const epoch = lastEpoch + 1;
  return {
    ...{ id: `restart-${pod.uid}-${epoch}`, kind: "process", zone, mode, phase: "stopping", epoch },
    ...{ members: [{ first: pod.ordinal, last: pod.ordinal }], uids: { [pod.name]: pod.uid } },
    ...{ processes: { [pod.name]: processId }, terms: mode === "single" ? "announced" : "asked" },
    ...(mountedSum === undefined ? {} : { sum: mountedSum }),
    anchor: { resource: "pods", name: pod.name, annotation: restartId.key },
  };
}
