/**
 * What users and accidents do to a pod or a StatefulSet. A deed of a StatefulSet draws a pod first as well, so that the histories
 * of seeds stay the same.
 */
import type { ObjectKey } from "../../functions/shared/kubernetes/cluster.ts";
import type { StoredPod } from "../fake-cluster/objects.ts";
import type { SeedRun } from "./seed.ts";

export interface Deed {
  /** Concerns neither a pod nor a StatefulSet. */
  readonly first?: () => void;
  /** True if it did something to the pod; otherwise a StatefulSet is drawn for the deed. */
  readonly pod?: (pod: StoredPod) => boolean;
  readonly set?: (set: ObjectKey) => void;
}

/** Knows the StatefulSets that may be drawn. */
export interface Members {
  members(): readonly ObjectKey[];
}

/** Makes a disturbance of a deed. */
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
