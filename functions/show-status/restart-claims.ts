/** Claims of processes that restart, and what the status says of restarts that no claim is about. */
import { rolloutGroup } from "../shared/annotations/table.ts";
import type { Claim, KnownClaim } from "../shared/ledger/claim.ts";
import { parkedPhase } from "../shared/ledger/claim-kinds.ts";

export function isOfProcess(claim: Claim): claim is KnownClaim {
  return claim.isKnown && claim.kind === "process";
}

/** True for a process that stays stopped until its user wants it again. */
export function isParked({ mode, phase }: Pick<KnownClaim, "mode" | "phase">): boolean {
  return mode === "parked" && phase === parkedPhase;
}

const { key: label } = rolloutGroup;

export const notBegun = "no function has written yet why the restart does not begin";
export const neverBeginsTodo = `give the StatefulSet a ${label}, or take the annotation off its pods`;

export function neverBegins(zone: string): string {
  return `${zone} has no ${label}, and no function begins the restart of a process in a StatefulSet without one`;
}

export function hasFailed(zone: string, pods: string): string {
  return `the restart of the process of ${zone}: ${pods} has failed, and a person must end that`;
}
