/** Claims of restarts: which one blocks the others of its group, and what a new one says. Pure. */

import { restartId } from "../shared/annotations/restart.ts";
import type { Claim, ClaimContent } from "../shared/ledger/claim.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import type { ManagerStatus } from "./calls.ts";

export type NewClaim = Omit<ClaimContent, "by" | "stampMs">;

/** True for a restart that blocks the others of its group (rule R18). One of a parked process does not. */
export function isOpenRestart(claim: Claim): boolean {
  return claim.kind === "process" && !(claim.isKnown && claim.mode === "parked");
}

/**
 * The claim of a restart that a person wants now (`announced`, rule R17). Its epoch is higher than all that the process manager
 * has seen, so that its id is new as well.
 */
export function claimOf(zone: string, pod: Pod, { processId = "", mountedSum, lastEpoch }: ManagerStatus): NewClaim {
  const epoch = lastEpoch + 1;
  return {
    ...{ id: `restart-${pod.uid}-${epoch}`, kind: "process", zone, mode: "single", phase: "stopping", epoch },
    ...{ members: [{ first: pod.ordinal, last: pod.ordinal }], uids: { [pod.name]: pod.uid } },
    ...{ processes: { [pod.name]: processId }, terms: "announced" },
    ...(mountedSum === undefined ? {} : { sum: mountedSum }),
    anchor: { resource: "pods", name: pod.name, annotation: restartId.key },
  };
}
