/** Decides whether all pods that wait for it restart together now, and under which claims. Pure. */

import { restartManager, restartUnchecked } from "../../shared/annotations/restart.ts";
import type { Zone } from "../../shared/groups/zones.ts";
import type { Claim } from "../../shared/ledger/claim.ts";
import { type Blocked, describeClaim } from "../../shared/ledger/claim-kinds.ts";
import type { StatefulSet } from "../../shared/workloads/statefulsets.ts";
import type { Candidate } from "../candidate.ts";
import { isMended } from "../decide-files.ts";
import { byName } from "../decide-order.ts";
import { isOver } from "../decide-pod.ts";
import { idBeginning } from "./claims.ts";

/** The phase is written to one pod after the other: this long after the last one the members are fixed, in milliseconds. */
export const gatheringMs = 10_000;

export interface Together {
  readonly zones: readonly Zone<StatefulSet>[];
  readonly candidates: readonly Candidate[];
  readonly claims: readonly Claim[];
  /** For how long the same pods have waited, in milliseconds. */
  readonly gatheredMs: number;
  /** Members of the database that are no pods of the group; absent where none is named, or it gives no answer. */
  readonly elsewhere?: readonly string[];
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
export function blockedTogether({ zones, claims, gatheredMs, elsewhere }: Together): Blocked | undefined {
  const unmanaged = zones.find(({ workload }) => workload.restart?.manager === undefined && !workload.deleting);
  if (unmanaged !== undefined) {
    const message = `${unmanaged.workload.name} has no ${restartManager.key}, and its pods would run while all others are down`;
    return { guard: "restart-manager-missing", message };
  }
  const foreign = blockedByElsewhere(zones, elsewhere);
  if (foreign !== undefined) return foreign;
  if (gatheredMs < gatheringMs) {
    const message = "pods may still join the restart: it begins 10 s after the last one";
    return { guard: "restart-gathering", message };
  }
  const [claim] = claims;
  if (claim !== undefined) return { guard: "restart-beside-others", message: describeClaim(claim) };
  const zone = zones.find(({ reserved, pods }) =>
    [...reserved].some(
      ([ordinal, one]) =>
        !isOver(
          one,
          pods.find((pod) => pod.ordinal === ordinal),
        ),
    ),
  );
  if (zone === undefined) return undefined;
  const message = `a pod of ${zone.workload.name} is reserved, and all stop only while nothing else goes on`;
  return { guard: "restart-beside-others", message };
}

/** Such a node would run while all others are down, and might not join those that start with other settings. */
function blockedByElsewhere(
  zones: readonly Zone<StatefulSet>[],
  elsewhere: readonly string[] = [],
): Blocked | undefined {
  const guard = "members-elsewhere";
  const checked = zones.find(({ workload: { restart, deleting } }) => !deleting && !restart?.unchecked.has(guard));
  if (elsewhere.length === 0 || checked === undefined) return undefined;
  const others = elsewhere.length === 1 ? "" : ` and ${elsewhere.length - 1} more`;
  const what = `${elsewhere[0]}${others} would run while all others are down, because no pod of the group has this node`;
  return {
    guard,
    message: `${what}: stop it, or write ${guard} into ${restartUnchecked.key} of ${checked.workload.name}`,
  };
}
