/** The claims of a restart of many processes. Pure. */

import { restartId } from "../../shared/annotations/restart.ts";
import type { ManagerStatus } from "../calls.ts";
import type { Candidate } from "../candidate.ts";
import type { NewClaim } from "../claims.ts";
import { togetherPhases } from "./phases.ts";

/** The ids of restarts of many pods begin so, and a pod that has failed in one keeps its id. */
export const idBeginning = "coordinated-";

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
