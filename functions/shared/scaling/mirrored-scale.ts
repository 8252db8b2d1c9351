/** What an object says of its size that a StatefulSet mirrors (spec rollout-operator 3.2). */

import type { Mirrored } from "../annotations/parse-scaling.ts";
import { type Cluster, hasCode, isRightMissing, lackOf, type Resource } from "../kubernetes/cluster.ts";
import type { SizeBlocked } from "./wanted-replicas.ts";

export interface MirroredScale {
  readonly resource: Resource;
  /** Wanted. */
  readonly replicas: number;
  /** Number of replicas in its status; undefined if the status has none. */
  readonly written: number | undefined;
}

/** Reads its scale, as discovery finds it; or says why Sluice cannot. Throws ClusterError where asking again can help. */
export async function readMirroredScale(
  cluster: Pick<Cluster, "get" | "resourceOf">,
  namespace: string,
  { group, kind, name }: Mirrored,
): Promise<MirroredScale | SizeBlocked> {
  const words = (why: string) => `it is to have the size of ${kind} ${name}: ${why}`;
  if (group === undefined)
    return { guard: "mirror-malformed", sentence: words("its API version has more than one slash") };
  try {
    const { resource, hasScale } = await cluster.resourceOf(group, kind);
    if (!hasScale) return { guard: "mirror-without-scale", sentence: words("that kind has no scale subresource") };
    const { spec, status } = await cluster.get(resource, { namespace, name }, { subresource: "scale" });
    return { resource, replicas: spec?.replicas ?? 0, written: status?.replicas };
  } catch (error) {
    if (hasCode(error, 404)) return { guard: "mirror-missing", sentence: words(error.message) };
    if (isRightMissing(error)) return { guard: "mirror-forbidden", sentence: words(lackOf(error)) };
    throw error;
  }
}
