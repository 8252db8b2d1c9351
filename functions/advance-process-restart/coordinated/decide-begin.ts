/** Decides whether all pods that wait for it restart together now, and under which claims. Pure. */

import { restartId } from "../../shared/annotations/restart.ts";
import type { Zone } from "../../shared/groups/zones.ts";
import type { Claim } from "../../shared/ledger/claim.ts";
import { type Blocked, describeClaim } from "../../shared/ledger/claim-kinds.ts";
import type { StatefulSet } from "../../shared/workloads/statefulsets.ts";
import type { ManagerStatus } from "../calls.ts";
import type { Candidate } from "../candidate.ts";
import type { NewClaim } from "../claims.ts";
import { isMended } from "../decide-files.ts";
import { byName } from "../decide-order.ts";
import { togetherPhases } from "./phases.ts";

/** The phase is written to one pod after the other: this long after the last one the members are fixed, in milliseconds. */
export const gatheringMs = 10_000;

/** The ids of restarts of many pods begin so, and a pod that has failed in one keeps its id. */
const idBeginning = "coordinated-";

export interface Together {
  readonly zones: readonly Zone<StatefulSet>[];
  readonly candidates: readonly Candidate[];
  readonly claims: readonly Claim[];
  /** For how long the same pods have waited, in milliseconds. */
  readonly gatheredMs: number;
}

/** True for a pod that has failed in a restart of many: it starts again only with the others. */
export function hasFailedTogether({ pod }: Pick<Candidate, "pod">): boolean {
  return pod.restart?.phase === "failed" && pod.restart.id?.startsWith(idBeginning) === true;
}

/** The pods that restart together: those that are asked to, and those that have failed together, once their file is mended. */
export function membersOf(candidates: readonly Candidate[]): Candidate[] {
  const asked = candidates.filter(({ pod }) => pod.restart?.phase === "schedule-coordinated");
  const failed = candidates.filter(hasFailedTogether);
  const isAgain = asked.length > 0 || failed.some(({ pod, files, answer }) => isMended(pod, files, answer));
  return isAgain ? [...asked, ...failed].sort(byName) : [];
}

/** What keeps the whole restart from beginning, besides its pods. */
export function blockedTogether({ zones, claims, gatheredMs }: Together): Blocked | undefined {
  const unmanaged = zones.find(({ workload }) => workload.restart?.manager === undefined && !workload.deleting);
  if (unmanaged !== undefined) {
    const message = `${unmanaged.workload.name} names no process manager, and its processes would run while all others are down`;
    return { guard: "restart-manager-missing", message };
  }
  if (gatheredMs < gatheringMs) {
    const message = "pods may still join the restart: it begins 10 s after the last one";
    return { guard: "restart-gathering", message };
  }
  const [claim] = claims;
  if (claim !== undefined) return { guard: "restart-beside-others", message: describeClaim(claim) };
  const zone = zones.find(({ reserved }) => reserved.size > 0);
  if (zone === undefined) return undefined;
  const message = `a pod of ${zone.workload.name} is reserved, and all processes stop only while nothing else goes on`;
  return { guard: "restart-beside-others", message };
}

/** One claim for each StatefulSet. They share one id and one epoch, which is higher than all that was seen. */
export function claimsTogether(members: readonly Candidate[]): NewClaim[] {
  const statusOf = ({ answer }: Candidate) => answer as ManagerStatus;
  const epoch = Math.max(...members.map((one) => statusOf(one).lastEpoch)) + 1;
  const stem = `${idBeginning}${members[0]?.pod.uid}-${epoch}`;
  const byZone = Object.groupBy(members, ({ zone }) => zone.workload.name);
  return Object.entries(byZone).map(([zone, some = []]): NewClaim => {
    const ordinals = some.map(({ pod }) => pod.ordinal).sort((one, other) => one - other);
    return {
      ...{ id: `${stem}/${zone}`, kind: "process", zone, mode: "coordinated", phase: togetherPhases.preparing, epoch },
      ...{ members: ordinals.map((ordinal) => ({ first: ordinal, last: ordinal })), terms: "announced" },
      uids: Object.fromEntries(some.map(({ pod }) => [pod.name, pod.uid])),
      processes: Object.fromEntries(some.map((one) => [one.pod.name, statusOf(one).processId ?? ""])),
      anchor: { resource: "statefulsets", name: zone, annotation: restartId.key },
    };
  });
}
