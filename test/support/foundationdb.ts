/**
 * A stand-in for FoundationDB's operator, which removes process groups as spec suspend-before-delete 2.2 and 2.3 describes.
 * The database behind it moves data for a while and knows which processes are excluded.
 */
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";

export interface GroupStatus {
  readonly processGroupID: string;
  readonly processClass?: string;
  readonly addresses?: readonly string[];
  readonly faultDomain?: string;
  readonly removalTimestamp?: string;
  readonly exclusionTimestamp?: string;
  readonly exclusionSkipped?: boolean;
  readonly processGroupConditions?: readonly { readonly type: string; readonly timestamp: number }[];
}

export interface ClusterObject {
  readonly metadata: Metadata;
  readonly spec?: {
    readonly processGroupsToRemove?: readonly string[] | null;
    readonly processGroupsToRemoveWithoutExclusion?: readonly string[] | null;
    readonly buggify?: { readonly blockRemoval?: readonly string[] | null };
    readonly automationOptions?: {
      readonly removalMode?: "All" | "Zone" | "ProcessGroup" | "None";
      readonly waitBetweenRemovalsSeconds?: number;
      readonly useLocalitiesForExclusion?: boolean;
    };
  };
  readonly status?: { readonly processGroups?: readonly GroupStatus[] };
}

/** Objects that the operator also reads, and what the database reports. */
export interface Seen {
  readonly pods: readonly { readonly metadata: Metadata }[];
  readonly claims: readonly { readonly metadata: Metadata }[];
  readonly nowMs: number;
  /** Time that the database takes to move the data of a process, in milliseconds. */
  readonly drainMs: number;
  /** The fault domain of a process by the database. */
  readonly faultDomainOf?: (id: string) => string | undefined;
}

export interface Operated {
  readonly processGroups: readonly GroupStatus[];
  /** Ids whose pods or volume claims are created or deleted. */
  readonly madePods: readonly string[];
  readonly madeClaims: readonly string[];
  readonly deleted: readonly string[];
  /** Ids that were removed completely, and that the database includes again. */
  readonly included: readonly string[];
}

export const labels = {
  cluster: "foundationdb.org/fdb-cluster-name",
  id: "foundationdb.org/fdb-process-group-id",
} as const;
const terminating = "ResourcesTerminating";
const bucketOfTerminating = "foundationdb.org/terminating";

const idOf = ({ metadata }: { readonly metadata: Metadata }) => metadata.labels?.[labels.id] ?? "";
const isMarked = ({ removalTimestamp }: GroupStatus) => removalTimestamp !== undefined;
const isExcluded = ({ exclusionTimestamp, exclusionSkipped }: GroupStatus) =>
  exclusionTimestamp !== undefined || exclusionSkipped === true;
const terminatingSince = ({ processGroupConditions = [] }: GroupStatus) =>
  processGroupConditions.find(({ type }) => type === terminating)?.timestamp;

/** Reconciles once. */
export function operate({ spec = {}, status }: ClusterObject, seen: Seen): Operated {
  const before = [...(status?.processGroups ?? []), ...adopted(status?.processGroups ?? [], seen)];
  const marked = before.map((group) => withCondition(excluded(mark(group, spec, seen.nowMs), seen), seen));
  const chosen = choose(marked, spec, seen.nowMs);
  const there = new Set([...seen.pods, ...seen.claims].map(idOf));
  const gone = chosen.filter((id) => !there.has(id));
  const standing = marked.filter(({ processGroupID: id }) => !gone.includes(id));
  const wanted = standing
    .filter((group) => !(isMarked(group) && isExcluded(group)))
    .map((group) => group.processGroupID);
  const podIds = new Set(seen.pods.map(idOf));
  const claimIds = new Set(seen.claims.map(idOf));
  return {
    processGroups: standing,
    madePods: wanted.filter((id) => !podIds.has(id)),
    madeClaims: wanted.filter((id) => !claimIds.has(id)),
    deleted: chosen.filter((id) => there.has(id)),
    included: gone,
  };
}

/** 2.2, 6: an object with an id that the status lacks makes a process group again. */
function adopted(known: readonly GroupStatus[], { pods, claims, faultDomainOf }: Seen): readonly GroupStatus[] {
  const there = [...pods, ...claims].filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  const ids = new Set(there.map(idOf).filter((id) => known.every(({ processGroupID }) => processGroupID !== id)));
  return [...ids].map((processGroupID) => {
    const faultDomain = faultDomainOf?.(processGroupID);
    return { processGroupID, ...(faultDomain === undefined ? {} : { faultDomain }), processGroupConditions: [] };
  });
}

/** 2.2, 1: marks the group for removal by the lists of the spec. */
function mark(group: GroupStatus, spec: NonNullable<ClusterObject["spec"]>, nowMs: number): GroupStatus {
  const now = new Date(nowMs).toISOString().replace(/\.\d+/, "");
  const { processGroupID: id } = group;
  if (spec.processGroupsToRemoveWithoutExclusion?.includes(id)) {
    const since = { removalTimestamp: now, exclusionTimestamp: now };
    return { ...since, ...group, exclusionSkipped: true };
  }
  return spec.processGroupsToRemove?.includes(id) ? { removalTimestamp: now, ...group } : group;
}

/**
 * 2.2, 2, and 2.3, 6: excludes the group once the database has moved its data. An old exclusion timestamp counts, as it does
 * in the operator.
 */
function excluded(group: GroupStatus, { nowMs, drainMs }: Seen): GroupStatus {
  if (!isMarked(group) || isExcluded(group)) return group;
  if (nowMs - Date.parse(group.removalTimestamp ?? "") < drainMs) return group;
  return {
    ...group,
    exclusionTimestamp: new Date(Math.floor(nowMs / 1000) * 1000).toISOString().replace(".000Z", "Z"),
  };
}

/** 2.2, 5: adds the condition when the pod is missing or terminating. */
function withCondition(group: GroupStatus, { pods, nowMs }: Seen): GroupStatus {
  if (!isMarked(group) || !isExcluded(group) || terminatingSince(group) !== undefined) return group;
  const pod = pods.find((one) => idOf(one) === group.processGroupID);
  if (pod !== undefined && pod.metadata.deletionTimestamp === undefined) return group;
  const condition = { type: terminating, timestamp: Math.floor(nowMs / 1000) };
  return { ...group, processGroupConditions: [...(group.processGroupConditions ?? []), condition] };
}

/** 2.3, 8 to 13: ids whose pod and volume claim are deleted now. Terminating ones are deleted in every mode. */
function choose(groups: readonly GroupStatus[], spec: NonNullable<ClusterObject["spec"]>, nowMs: number): string[] {
  const blocked = spec.buggify?.blockRemoval ?? [];
  const selected = groups.filter(
    (group) => isMarked(group) && isExcluded(group) && !blocked.includes(group.processGroupID),
  );
  const { removalMode = "Zone", waitBetweenRemovalsSeconds = -1 } = spec.automationOptions ?? {};
  const waitSeconds = waitBetweenRemovalsSeconds < 0 ? 60 : waitBetweenRemovalsSeconds;
  const last = Math.max(...selected.map((group) => terminatingSince(group) ?? Number.NEGATIVE_INFINITY));
  if (selected.length === 0 || (removalMode !== "All" && last > nowMs / 1000 - waitSeconds)) return [];
  const buckets = Map.groupBy(selected, (group) =>
    terminatingSince(group) === undefined ? group.faultDomain || "foundationdb.org/unknown" : bucketOfTerminating,
  );
  const going = buckets.get(bucketOfTerminating) ?? [];
  buckets.delete(bucketOfTerminating);
  const zones = [...buckets.values()].sort((one, other) => other.length - one.length);
  const picked = { All: zones.flat(), Zone: zones[0] ?? [], ProcessGroup: zones.flat().slice(0, 1), None: [] };
  // An unknown mode is an error, and nothing is deleted.
  if (!Object.hasOwn(picked, removalMode)) return [];
  return [...new Set([...picked[removalMode], ...going].map((group) => group.processGroupID))];
}

/** True if the drain was stated before the last pod that was seen on the volume. */
export function isDrainOlder(annotations: Readonly<Record<string, string>>): boolean {
  return (
    Date.parse(annotations["sluice.dev/drained-at"] ?? "") <
    Date.parse(annotations["sluice.dev/suspend-pod-created"] ?? "")
  );
}
