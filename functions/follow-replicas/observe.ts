/** What is read of a group whose StatefulSets follow or mirror: the wanted sizes, and what the mirrored objects say. */
import { type MirroredScale, readMirroredScale } from "../shared/group/mirrored-scale.ts";
import { type SizeHeld, wantedReplicas } from "../shared/group/wanted-replicas.ts";
import type { Cluster } from "../shared/kubernetes/cluster.ts";
import { isLed } from "../shared/objects/scaling/scaling.ts";
import type { StatefulSet } from "../shared/objects/statefulsets.ts";
import type { Led } from "./decide.ts";

export const name = "follow-replicas";

/** The scales that the StatefulSets of a group mirror, by StatefulSet uid. */
export type Scales = ReadonlyMap<string, MirroredScale | SizeHeld>;

/** Whether somebody else than its users says its size. */
export function isFollowing({ scaling, deleting }: StatefulSet): boolean {
  return scaling !== undefined && !deleting && isLed(scaling);
}

/** Throws ClusterError where asking again can help. */
export async function readScales(cluster: Cluster, members: readonly StatefulSet[]): Promise<Scales> {
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
export function findLed(members: readonly StatefulSet[], scales: Scales, nowMs: number): Led[] {
  const led = members.flatMap((statefulSet): Led[] => {
    const wanted = wantedReplicas({ statefulSet, members, mirrored: saidBy(scales.get(statefulSet.uid)), nowMs });
    return wanted === undefined ? [] : [{ statefulSet, wanted }];
  });
  return led.sort((one, other) => (one.statefulSet.name < other.statefulSet.name ? -1 : 1));
}

function saidBy(scale: MirroredScale | SizeHeld | undefined): number | SizeHeld | undefined {
  return scale !== undefined && "replicas" in scale ? scale.replicas : scale;
}
