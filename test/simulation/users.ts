/** What users and ending do to a pod or a StatefulSet: one of each is drawn, whatever is done, so that seeds stay as they are. */
import type { ObjectKey } from "../../functions/shared/kubernetes/cluster.ts";
import type { StoredPod } from "../fake-cluster/objects.ts";
import type { SeedRun } from "./seed.ts";

export interface Deed {
  /** What is about neither. */
  readonly first?: () => void;
  /** False where it was nothing for this pod. */
  readonly pod?: (pod: StoredPod) => boolean;
  readonly set?: (set: ObjectKey) => void;
}

/** Who knows the StatefulSets that may be drawn. */
export interface Members {
  members(): readonly ObjectKey[];
}

/** Makes a disturbance of what is done. */
export function drawn({ world, draw, namespace }: SeedRun, workloads: Members, deed: Deed): () => void {
  return () => {
    deed.first?.();
    const sets = workloads.members();
    const { items: pods } = world.store.list("pods", { namespace });
    const pod = pods.length > 0 ? draw.pick(pods) : undefined;
    if (pod !== undefined && deed.pod?.(pod) === true) return;
    const set = sets.length > 0 ? draw.pick(sets) : undefined;
    if (set !== undefined) deed.set?.(set);
  };
}
