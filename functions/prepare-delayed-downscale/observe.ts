/** What is read of StatefulSets whose downscales have a delay: how many replicas there are to be, and which pods there are. */

import type { PodEndpoint } from "../shared/annotations/parse-scaling.ts";
import type { Cluster } from "../shared/kubernetes/cluster.ts";
import { type Claim, namesOrdinal } from "../shared/ledger/claim.ts";
import type { Blocked } from "../shared/ledger/claim-kinds.ts";
import { followerSizes, readScales } from "../shared/scaling/follower-sizes.ts";
import type { SizeBlocked } from "../shared/scaling/wanted-replicas.ts";
import { type Pod, parsePod } from "../shared/workloads/pods.ts";
import type { StatefulSet } from "../shared/workloads/statefulsets.ts";
import type { DelayedSet, PrepareAnswer } from "./decide-leaving.ts";

export const name = "prepare-delayed-downscale";

/** A StatefulSet as this function needs it before it tells the pods anything. */
export type Unasked =
  | (Omit<DelayedSet, "answers"> & { readonly endpoint: PodEndpoint })
  | { readonly statefulSet: StatefulSet; readonly blocked: Blocked };

/** True if this function makes the StatefulSet smaller, because its downscales have a delay; false while it is being deleted. */
export function isDelayed({ scaling, deleting }: StatefulSet): boolean {
  return scaling?.delay !== undefined && !deleting;
}

/** Throws ClusterError where asking again can help. */
export async function observeSet(
  cluster: Cluster,
  statefulSet: StatefulSet,
  members: readonly StatefulSet[],
  claims: readonly Claim[],
): Promise<Unasked | undefined> {
  const { scaling, serviceName, name: zone } = statefulSet;
  const delay = scaling?.delay;
  if (delay === undefined) return undefined;
  const block = (blocked: Blocked): Unasked => ({ statefulSet, blocked });
  const { delayMs, endpoint } = delay;
  if (delayMs === undefined || endpoint === undefined) {
    const why = scaling?.malformed.map(({ message }) => message).join(" ");
    return block({ guard: "delay-malformed", message: `${zone} keeps its size: ${why}` });
  }
  const wantedSize = await readWanted(cluster, statefulSet, members);
  if (wantedSize === undefined) return undefined;
  const postponed = typeof wantedSize === "number" ? undefined : wantedSize;
  const wanted = sizeOf(wantedSize);
  if (wanted === undefined) return postponed && { statefulSet, blocked: postponed };
  if (serviceName === "") {
    const message = `${zone} has no serviceName, so that its pods cannot be called`;
    return block({ guard: "service-missing", message });
  }
  const own = claims.filter((claim) => claim.zone === zone);
  const isClaimed = (ordinal: number) => own.some((claim) => namesOrdinal(claim, ordinal));
  return { statefulSet, delayMs, endpoint, wanted, postponed, isClaimed, pods: await listOwn(cluster, statefulSet) };
}

/** The pods that a StatefulSet owns, by ordinal: as they are now. Throws ClusterError. */
export async function listOwn(
  cluster: Pick<Cluster, "list">,
  { namespace, uid, matchLabels }: StatefulSet,
): Promise<ReadonlyMap<number, Pod>> {
  const labels = Object.entries(matchLabels).map(([label, value]) => `${label}=${value}`);
  const { items } = await cluster.list("pods", { namespace, labelSelector: labels.join(",") });
  const own = items.map(parsePod).filter(({ ownerUid }) => ownerUid === uid);
  return new Map(own.map((pod) => [pod.ordinal, pod]));
}

/**
 * How many replicas there are to be, among the other members of its group; why the size stays; or undefined where only users
 * say the size. Throws ClusterError where asking again can help.
 */
export async function readWanted(
  cluster: Cluster,
  statefulSet: StatefulSet,
  members: readonly StatefulSet[],
): Promise<number | SizeBlocked | undefined> {
  const scales = await readScales(cluster, [statefulSet]);
  const all = [statefulSet, ...members.filter(({ uid }) => uid !== statefulSet.uid)];
  return followerSizes(all, scales, cluster.serverTimeMs()).find((one) => one.statefulSet === statefulSet)?.wanted;
}

/** Wanted size in replicas, also if it is wanted only later; undefined if it is not known. */
export function sizeOf(wanted: number | SizeBlocked | undefined): number | undefined {
  return typeof wanted === "number" ? wanted : wanted?.later;
}

/** What pods have said to this process, by uid. Losing it costs a call to each. */
export type PodAnswers = Map<string, SentInstruction>;

export interface SentInstruction {
  readonly instruction: "stay" | "leave";
  /** When it was asked, by the monotonic clock. */
  readonly atMs: number;
  /** Of one that leaves. */
  readonly answer?: PrepareAnswer;
}

/** What those that leave have said. */
export function answersOf(sent: PodAnswers): ReadonlyMap<string, PrepareAnswer> {
  const answers = [...sent].flatMap(([uid, { answer }]) => (answer === undefined ? [] : [[uid, answer] as const]));
  return new Map(answers);
}
