/** Claims of restarts: which one blocks the others of its group, and what a new one says. Pure. */

import { restartId } from "../shared/annotations/restart.ts";
import type { Claim, ClaimContent } from "../shared/ledger/claim.ts";
import type { ProcessMode } from "../shared/ledger/process-claim.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import type { ManagerStatus } from "./calls.ts";

export type NewClaim = Omit<ClaimContent, "by" | "stampMs">;

/** True for a restart that blocks the others of its group (rule R18). One of a parked process does not. */
export function isOpenRestart(claim: Claim): boolean {
  return claim.kind === "process" && !(claim.isKnown && claim.mode === "parked");
}

/** How a restart of one process begins: a person wants it now, or it is its turn. */
export type BeginMode = Extract<ProcessMode, "single" | "rolling">;

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
