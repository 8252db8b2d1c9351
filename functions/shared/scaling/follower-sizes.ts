/** The wanted sizes of the StatefulSets of a group that follow or mirror, with the sizes of the mirrored objects. */

import { hasLeader, type Mirrored } from "../annotations/parse-scaling.ts";
import { mirrorApiVersion } from "../annotations/scaling.ts";
import {
  type Cluster,
  hasCode,
  isRightMissing,
  KindNotServedError,
  lackOf,
  type Resource,
} from "../kubernetes/cluster.ts";
import type { StatefulSet } from "../workloads/statefulsets.ts";
import { type SizeBlocked, wantedReplicas } from "./wanted-replicas.ts";

/** A StatefulSet that follows or mirrors, and its wanted number of replicas, or why it keeps its own. */
export interface FollowerSize {
  readonly statefulSet: StatefulSet;
  readonly wanted: number | SizeBlocked;
}

/** The size of a mirrored object (spec rollout-operator 3.2). */
export interface MirroredScale {
  readonly resource: Resource;
  /** Wanted. */
  readonly replicas: number;
  /** Number of replicas in its status; undefined if the status has none. */
  readonly written: number | undefined;
}

/** The scales that the StatefulSets of a group mirror, by StatefulSet uid. */
export type Scales = ReadonlyMap<string, MirroredScale | SizeBlocked>;

const whatToWrite = `write the API version of that kind into ${mirrorApiVersion.key}, such as rollout-operator.grafana.com/v1`;

/** True if a leader or a mirrored object sets its size, and not its users. */
export function isFollowing({ scaling, deleting }: StatefulSet): boolean {
  return scaling !== undefined && !deleting && hasLeader(scaling);
}

/** Throws ClusterError if a later try can help. */
export async function readScales(
  cluster: Pick<Cluster, "get" | "resourceOf">,
  members: readonly StatefulSet[],
): Promise<Scales> {
  const read = members.filter(isFollowing).map(async (statefulSet) => {
    const { mirrored, leader } = statefulSet.scaling ?? {};
    if (mirrored === undefined || leader !== undefined) return [];
    return [[statefulSet.uid, await readMirroredScale(cluster, statefulSet, mirrored)] as const];
  });
  return new Map((await Promise.all(read)).flat());
}

/** Reads its scale, as discovery finds it; or says why Sluice cannot. Throws ClusterError if a later try can help. */
async function readMirroredScale(
  cluster: Pick<Cluster, "get" | "resourceOf">,
  { namespace, name: zone }: StatefulSet,
  { group, isGroupAssumed, kind, name }: Mirrored,
): Promise<MirroredScale | SizeBlocked> {
  const describe = (why: string) => `${zone} keeps its size: it is to have the size of ${kind} ${name}: ${why}`;
  if (group === undefined)
    return { guard: "mirror-malformed", message: describe("its API version has more than one slash") };
  try {
    const { resource, hasScale } = await cluster.resourceOf(group, kind);
    if (!hasScale) return { guard: "mirror-without-scale", message: describe("that kind has no scale subresource") };
    const { spec, status } = await cluster.get(resource, { namespace, name }, { subresource: "scale" });
    return { resource, replicas: spec?.replicas ?? 0, written: status?.replicas };
  } catch (error) {
    if (error instanceof KindNotServedError && isGroupAssumed)
      return { guard: "mirror-missing", message: describe(`${error.message}, or ${whatToWrite}`) };
    if (hasCode(error, 404)) return { guard: "mirror-missing", message: describe(error.message) };
    if (isRightMissing(error)) return { guard: "mirror-forbidden", message: describe(lackOf(error)) };
    throw error;
  }
}

/** The wanted size of each StatefulSet that follows or mirrors, by name. */
export function followerSizes(members: readonly StatefulSet[], scales: Scales, nowMs: number): FollowerSize[] {
  const sizes = members.flatMap((statefulSet): FollowerSize[] => {
    const wanted = wantedReplicas({ statefulSet, members, mirrored: mirroredSize(scales.get(statefulSet.uid)), nowMs });
    return wanted === undefined ? [] : [{ statefulSet, wanted }];
  });
  return sizes.sort((one, other) => (one.statefulSet.name < other.statefulSet.name ? -1 : 1));
}

function mirroredSize(scale: MirroredScale | SizeBlocked | undefined): number | SizeBlocked | undefined {
  return scale !== undefined && "replicas" in scale ? scale.replicas : scale;
}
