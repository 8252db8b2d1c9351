/** The parsed fields of a FoundationDBCluster, its volume claims and its pods (spec suspend-before-delete 2.1). */

import { type HeldGroups, heldGroups, protectVolumes } from "../shared/annotations/foundationdb.ts";
import {
  protectedVolume,
  removalMode,
  suspendDuration,
  waitBetweenRemovals,
} from "../shared/annotations/suspension.ts";
import { read } from "../shared/annotations/table.ts";
import { fieldsOf } from "../shared/base/fields.ts";
import { parseTime } from "../shared/clock/durations.ts";
import type { OtherObject, PodObject, PvcObject } from "../shared/kubernetes/cluster.ts";
import { type Marks, parseMarks } from "../shared/volumes/foundationdb-marks.ts";
import { parseVolumeUser, type VolumeUser } from "../shared/volumes/members.ts";
import { type AnnotationValue, type Pvc, parsePvc, readValue } from "../shared/volumes/pvc.ts";
import { parseOwnerRemovalPolicy } from "../shared/volumes/removal-policy.ts";

/** What FoundationDB's operator reports about one process group. */
export interface ProcessGroup {
  readonly id: string;
  /** It is to go. */
  readonly isMarked: boolean;
  /** Since when its data is elsewhere, in milliseconds since the epoch; undefined where the operator does not say so. */
  readonly excludedMs: number | undefined;
  /** True where it is taken for excluded though the database has not moved its data. */
  readonly isExclusionSkipped: boolean;
  /** The operator has seen that its pod goes. */
  readonly isTerminating: boolean;
  /** Undefined where the operator does not know it. */
  readonly faultDomain: string | undefined;
  readonly addresses: readonly string[];
}

export interface FoundationCluster {
  readonly name: string;
  readonly uid: string;
  readonly isDeleting: boolean;
  /** How long a volume is kept after its pod has gone, in milliseconds; absent: nothing of it is held back. */
  readonly duration: AnnotationValue<number>;
  /** What its volume claims are to say of how volumes go, by key; null where it says nothing. */
  readonly policy: Readonly<Record<string, string | null>>;
  /** What Sluice cannot read of its own settings about removals, and what to do, for people. */
  readonly unreadable: string | undefined;
  /** How its volume claims and pods are found. */
  readonly marks: Marks;
  readonly toRemove: readonly string[];
  readonly toRemoveUnexcluded: readonly string[];
  readonly blocked: readonly string[];
  readonly heldGroups: AnnotationValue<HeldGroups>;
  /** Its volume claims are to have our finalizer all their lives. */
  readonly protects: AnnotationValue<boolean>;
  /** False: processes are excluded by their addresses, which other ones may get later. */
  readonly usesLocalities: boolean;
  readonly groups: ReadonlyMap<string, ProcessGroup>;
}

/** A volume claim of a process group. */
export interface ProcessGroupPvc extends Pvc {
  readonly group: string;
  readonly annotations: Readonly<Record<string, string>>;
  /** Of whatever the garbage collector takes it with. */
  readonly ownerUids: readonly string[];
  /** It has the label of those that we protect. */
  readonly isLabelled: boolean;
}

/** A pod of a process group. */
export interface GroupPod extends VolumeUser {
  readonly group: string;
}

export function parseProcessGroupPvc(object: PvcObject, group: string): ProcessGroupPvc {
  const { annotations = {}, ownerReferences = [] } = object.metadata;
  return {
    ...parsePvc(object),
    group,
    annotations,
    ownerUids: ownerReferences.map(({ uid }) => uid),
    isLabelled: read(protectedVolume, object.metadata) === true,
  };
}

export function parseGroupPod(object: PodObject, group: string): GroupPod {
  return { ...parseVolumeUser(object), group };
}

/** The condition of a process group whose pod goes. */
export const terminatingCondition = "ResourcesTerminating";

export function parseFoundationCluster(object: OtherObject): FoundationCluster {
  const { metadata, spec, status } = object;
  const { processGroupsToRemove, processGroupsToRemoveWithoutExclusion, buggify, automationOptions } =
    fieldsOf(spec) ?? {};
  const policies = [suspendDuration, removalMode, waitBetweenRemovals];
  return {
    name: metadata.name,
    uid: metadata.uid,
    isDeleting: metadata.deletionTimestamp !== undefined,
    duration: readValue(suspendDuration, metadata, []),
    policy: Object.fromEntries(policies.map(({ key }) => [key, metadata.annotations?.[key] ?? null])),
    unreadable: parseOwnerRemovalPolicy(object).unreadable,
    marks: parseMarks(object),
    toRemove: textsOf(processGroupsToRemove),
    toRemoveUnexcluded: textsOf(processGroupsToRemoveWithoutExclusion),
    blocked: textsOf(fieldsOf(buggify)?.blockRemoval),
    heldGroups: readValue(heldGroups, metadata, []),
    protects: readValue(protectVolumes, metadata, []),
    usesLocalities: fieldsOf(automationOptions)?.useLocalitiesForExclusion !== false,
    groups: new Map(groupsIn(status).map((group) => [group.id, group])),
  };
}

/** Every process group of a status as the API server has it. */
export function rawGroups(status: unknown): readonly unknown[] {
  const groups = fieldsOf(status)?.processGroups;
  return Array.isArray(groups) ? groups : [];
}

export function idOf(group: unknown): string | undefined {
  const id = fieldsOf(group)?.processGroupID;
  return typeof id === "string" ? id : undefined;
}

function groupsIn(status: unknown): readonly ProcessGroup[] {
  return rawGroups(status).flatMap((raw): ProcessGroup[] => {
    const id = idOf(raw);
    const { removalTimestamp, exclusionTimestamp, exclusionSkipped, faultDomain, addresses, processGroupConditions } =
      fieldsOf(raw) ?? {};
    if (id === undefined) return [];
    const conditions = Array.isArray(processGroupConditions) ? processGroupConditions : [];
    return [
      {
        id,
        isMarked: typeof removalTimestamp === "string",
        excludedMs: typeof exclusionTimestamp === "string" ? parseTime(exclusionTimestamp) : undefined,
        isExclusionSkipped: exclusionSkipped === true,
        isTerminating: conditions.some((one) => fieldsOf(one)?.type === terminatingCondition),
        faultDomain: typeof faultDomain === "string" && faultDomain !== "" ? faultDomain : undefined,
        addresses: textsOf(addresses),
      },
    ];
  });
}

function textsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
}
