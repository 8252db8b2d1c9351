/** What is wanted of the StatefulSets of a group that follow or mirror, with what the mirrored objects say. */

import { hasLeader } from "../annotations/parse-scaling.ts";
import type { Cluster } from "../kubernetes/cluster.ts";
import type { StatefulSet } from "../workloads/statefulsets.ts";
import { type MirroredScale, readMirroredScale } from "./mirrored-scale.ts";
import { type SizeBlocked, wantedReplicas } from "./wanted-replicas.ts";

/** A StatefulSet that follows or mirrors, and how many replicas it is to have, or why it keeps those that it has. */
export interface FollowerSize {
  readonly statefulSet: StatefulSet;
  readonly wanted: number | SizeBlocked;
}

/** The scales that the StatefulSets of a group mirror, by StatefulSet uid. */
export type Scales = ReadonlyMap<string, MirroredScale | SizeBlocked>;

/** True if a leader or a mirrored object says its size, and not its users. */
export function isFollowing({ scaling, deleting }: StatefulSet): boolean {
  return scaling !== undefined && !deleting && hasLeader(scaling);
}

/** Throws ClusterError where asking again can help. */
export async function readScales(
  cluster: Pick<Cluster, "get" | "resourceOf">,
  members: readonly StatefulSet[],
): Promise<Scales> {
  const read = members.filter(isFollowing).map(async ({ uid, name: zone, namespace, scaling }) => {
    const { mirrored, leader } = scaling ?? {};
    if (mirrored === undefined || leader !== undefined) return [];
    const scale = await readMirroredScale(cluster, namespace, mirrored);
    return [
      [uid, "guard" in scale ? { ...scale, sentence: `${zone} keeps its size: ${scale.sentence}` } : scale],
    ] as const;
  });
  return new Map((await Promise.all(read)).flat());
}

/** The wanted size of each that follows or mirrors, by name. */
export function followerSizes(members: readonly StatefulSet[], scales: Scales, nowMs: number): FollowerSize[] {
  const led = members.flatMap((statefulSet): FollowerSize[] => {
    const wanted = wantedReplicas({ statefulSet, members, mirrored: saidBy(scales.get(statefulSet.uid)), nowMs });
    return wanted === undefined ? [] : [{ statefulSet, wanted }];
  });
  return led.sort((one, other) => (one.statefulSet.name < other.statefulSet.name ? -1 : 1));
}

function saidBy(scale: MirroredScale | SizeBlocked | undefined): number | SizeBlocked | undefined {
  return scale !== undefined && "replicas" in scale ? scale.replicas : scale;
}
