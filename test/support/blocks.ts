/** Checks a function's changes to the blocks of a FoundationDBCluster, by the objects of the world (invariant B1). */
import type { StoredObject } from "../fake-cluster/objects.ts";
import type { ClusterObject } from "./foundationdb.ts";

export const checked = "B1";

export interface BlocksChange {
  readonly previous: ClusterObject;
  readonly current: ClusterObject;
  /** Ids that users have blocked themselves. */
  readonly usersOwn: ReadonlySet<string>;
  /** The volume claim of a process group; undefined if it is gone. */
  claimOf(id: string): StoredObject | undefined;
}

/** The process groups that are no longer blocked. */
export function liftedBy({ previous, current }: Pick<BlocksChange, "previous" | "current">): readonly string[] {
  const after = blockedIn(current);
  return blockedIn(previous).filter((id) => !after.includes(id));
}

/** The faults of a change, a message for each. `isKept`: whether our finalizer keeps a deleted volume claim. */
export function brokenBlocks(change: BlocksChange, isKept: (claim: StoredObject) => boolean): readonly string[] {
  const { previous, current, usersOwn, claimOf } = change;
  const [before, record] = [blockedIn(previous), recordIn(current)];
  const lifted = liftedBy(change).flatMap((id) => {
    const why = whyToKeep(id, current, claimOf(id), isKept);
    return [
      ...(usersOwn.has(id) ? [`the block of ${id} is lifted, and a user had set it`] : []),
      ...(why === undefined ? [] : [`the block of ${id} is lifted, though ${why}`]),
    ];
  });
  const unrecorded = blockedIn(current).filter((id) => !before.includes(id) && !Object.hasOwn(record, id));
  const taken = Object.keys(record).filter(
    (id) => usersOwn.has(id) && before.includes(id) && !Object.hasOwn(recordIn(previous), id),
  );
  return [
    ...lifted,
    ...unrecorded.map((id) => `${id} is blocked without a record`),
    ...taken.map((id) => `the record takes the user's block of ${id} for ours`),
  ];
}

function blockedIn({ spec }: ClusterObject): readonly string[] {
  return spec?.buggify?.blockRemoval ?? [];
}

function recordIn({ metadata }: ClusterObject): object {
  return JSON.parse(metadata.annotations?.["sluice.dev/held-process-groups"] ?? "{}") as object;
}

/** Why a block must stay; undefined if the volume is gone, or if the operator would not touch it. */
function whyToKeep(
  id: string,
  { spec, status }: ClusterObject,
  claim: StoredObject | undefined,
  isKept: (claim: StoredObject) => boolean,
): string | undefined {
  if (claim === undefined || isKept(claim)) return undefined;
  const group = status?.processGroups?.find(({ processGroupID }) => processGroupID === id);
  if (group?.removalTimestamp !== undefined) return "it is to be removed, and its volume is there";
  if (spec?.processGroupsToRemove?.includes(id)) return "it is listed, and its volume is there";
  const { finalizers = [] } = claim.metadata;
  return finalizers.includes("sluice.dev/volume-hold") ? "its volume is suspended" : undefined;
}
