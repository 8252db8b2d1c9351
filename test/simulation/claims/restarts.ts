/**
 * Claims of restarts: half of them as an earlier version made them, by ready times, and half by the processes that pods run. Of
 * the latter, half are back before a probe fails.
 */
import type { Cluster } from "../../../functions/shared/kubernetes/cluster.ts";
import type { ClaimContent, KnownClaim } from "../../../functions/shared/ledger/claim.ts";
import type { ClaimedObjects } from "../../../functions/shared/ledger/claim-kinds.ts";
import { type Pod, parsePod } from "../../../functions/shared/workloads/pods.ts";
import type { Apps } from "./apps.ts";

/** No draw, so that all else in a seed stays as it was. */
const numberOf = (id: string): number => Number(id.split("-").at(-1));
const namesProcesses = (id: string): boolean => numberOf(id) % 2 === 0;

/** True if the process of that claim is back before a probe fails. */
export const isQuick = (id: string): boolean => numberOf(id) % 4 === 0;

/**
 * What a claim says of the pod before its restart; undefined if it must not be made. With a `cluster` a GET reads the pod,
 * because a view may be from before the pod last became ready (rule R21). An unready pod would become ready without a restart.
 */
export async function beforeRestart(
  id: string,
  pod: Pod,
  cluster: Cluster | undefined,
  apps: Apps,
): Promise<Pick<ClaimContent, "readyMs" | "processes" | "epoch"> | undefined> {
  const { uid, readySinceMs } = cluster === undefined ? pod : parsePod(await cluster.get("pods", pod));
  if (uid !== pod.uid || readySinceMs === undefined) return undefined;
  if (!namesProcesses(id)) return { readyMs: { [pod.name]: readySinceMs } };
  const process = apps.processOf(uid);
  return process === undefined ? undefined : { processes: { [pod.name]: process }, epoch: 1 };
}

/** What the process managers of the pods of a claim report now. */
export function reportedBy(apps: Apps, { pods }: ClaimedObjects): ClaimedObjects["processes"] & object {
  const running = [...pods.values()].flatMap(({ ordinal, uid }) => {
    const processId = apps.processOf(uid);
    return processId === undefined ? [] : [[ordinal, { podUid: uid, processId, isMember: true }] as const];
  });
  return new Map(running);
}

/** True if a pod of the claim is as it was when the claim was made: nothing has restarted it. */
export function isAsBefore(own: KnownClaim, { pods, processes }: ClaimedObjects): boolean {
  return [...pods.values()].some(({ uid, name, ordinal, readySinceMs }) => {
    if (uid !== own.uids?.[name]) return false;
    if (own.processes === undefined) return readySinceMs === own.readyMs?.[name];
    return processes?.get(ordinal)?.processId === own.processes[name];
  });
}
