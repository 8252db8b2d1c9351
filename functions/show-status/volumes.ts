/** The suspended volumes of all served namespaces, by one LIST for each. */
import type { StatusContext } from "../shared/contract/definition.ts";
import { listSuspendedVolumes, type SuspendedVolume } from "../shared/suspension/suspended-volumes.ts";
import type { Omissions } from "./omissions.ts";
import { createScopedLists } from "./scoped-lists.ts";

/** Each GET asks for the volumes, so that nothing is listed while no GET comes. */
const listLimits = { everyMs: 10_000, waitMs: 1_000, earlyMs: 100 };

export interface VolumeLists {
  /** Resolves when the volumes are at most ten seconds old, or within a second. */
  refresh(): Promise<void>;
  /** By namespace and name; undefined if they could not be listed, or if no function for them is served. */
  all(): readonly SuspendedVolume[] | undefined;
}

export function createVolumeLists(context: StatusContext, omissions: Omissions): VolumeLists {
  if (context.suspendsVolumes !== true) return { refresh: async () => undefined, all: () => undefined };
  const lists = createScopedLists<readonly SuspendedVolume[]>(context, omissions, {
    part: "suspended volumes",
    limits: listLimits,
    list: (namespace) => listSuspendedVolumes(context.cluster, namespace),
  });
  return {
    refresh: lists.refresh,
    all() {
      const all = lists.all();
      const path = ({ namespace, name }: SuspendedVolume) => `${namespace}/${name}`;
      return all.length === 0 ? undefined : all.flat().sort((one, other) => (path(one) < path(other) ? -1 : 1));
    },
  };
}
