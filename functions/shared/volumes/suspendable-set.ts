/** The fields of a StatefulSet whose volumes may be suspended, and which volume claims belong to it. */

import type { Malformed } from "../annotations/entry.ts";
import { hasLeader, parseScaling } from "../annotations/parse-scaling.ts";
import * as keys from "../annotations/suspension.ts";
import { type Fields, fieldsOf } from "../base/fields.ts";
import type { StatefulSetObject } from "../kubernetes/cluster.ts";
import { writtenByOthers } from "../workloads/managed-fields.ts";
import { parseOrdinal, statefulSetOfPod } from "../workloads/pods.ts";
import { type DrainQuestion, parseDrainQuestion } from "./drain-question.ts";
import { type AnnotationValue, readValue, valueIn } from "./pvc.ts";

/** The removal policy in its annotations. */
export interface SuspensionPolicy {
  readonly duration: AnnotationValue<number>;
  readonly mode: keys.RemovalMode;
  /** Time between two removals, in milliseconds; undefined if an annotation about it is malformed: nothing is removed. */
  readonly waitMs: number | undefined;
  /** Why `mode` is None where the owner's own settings say so, for people; absent where an annotation does. */
  readonly frozenBecause?: string;
  readonly isOnHold: boolean;
  readonly isRetained: boolean;
  /** What is asked besides the word of a person. */
  readonly drain: AnnotationValue<DrainQuestion>;
  readonly malformed: readonly Malformed[];
}

/** A StatefulSet, or a zone of another owner. */
export interface SuspendableSet {
  /** Of what is no StatefulSet: KIND.GROUP/NAME of what makes the pods. Undefined for a StatefulSet. */
  readonly owner: string | undefined;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** What gives its pods their names in DNS; empty where they have none. */
  readonly serviceName: string;
  readonly start: number;
  readonly replicas: number;
  /**
   * Time at which another client than Sluice last wrote its size, in milliseconds since the epoch: the pod of a suspended
   * volume may have been there since. Undefined if no other client has, or if a LIST has read it, without its managed fields.
   */
  readonly resizedMs?: number | undefined;
  readonly isDeleting: boolean;
  /** Another object says its size. */
  readonly followsLeader: boolean;
  /** The webhook of its own size claims what leaves, and tells the pods. */
  readonly preparesDownscale: boolean;
  /** The names of its volume claim templates. */
  readonly templates: readonly string[];
  /** Its controller deletes the volume claims of pods that leave. */
  readonly deletesWhenScaled: boolean;
  readonly policy: SuspensionPolicy;
}

export function parseSuspendableSet({ metadata, spec }: StatefulSetObject): SuspendableSet {
  const scaling = parseScaling(metadata);
  const isDeleting = metadata.deletionTimestamp !== undefined;
  return {
    owner: undefined,
    namespace: metadata.namespace ?? "",
    name: metadata.name,
    uid: metadata.uid,
    resourceVersion: metadata.resourceVersion,
    serviceName: spec?.serviceName ?? "",
    start: Math.max(0, parseOrdinal(String(spec?.ordinals?.start ?? 0))),
    replicas: isDeleting ? 0 : (spec?.replicas ?? 1),
    resizedMs: writtenByOthers(metadata, isSize),
    isDeleting,
    followsLeader: scaling !== undefined && hasLeader(scaling),
    preparesDownscale: scaling?.preparesDownscale === true,
    templates: (spec?.volumeClaimTemplates ?? []).flatMap((template) => template.metadata?.name ?? []),
    deletesWhenScaled: spec?.persistentVolumeClaimRetentionPolicy?.whenScaled === "Delete",
    policy: parsePolicy(metadata),
  };
}

/** Some fields of `spec`, or all of it: its size, or which ordinals those are. */
function isSize(fields: Fields): boolean {
  const spec = fieldsOf(fields["f:spec"]);
  return spec !== undefined && (spec["f:replicas"] !== undefined || spec["f:ordinals"] !== undefined);
}

function parsePolicy(metadata: StatefulSetObject["metadata"]): SuspensionPolicy {
  const malformed: Malformed[] = [];
  const mode = readValue(keys.removalMode, metadata, malformed);
  const wait = readValue(keys.waitBetweenRemovals, metadata, malformed);
  const hold = readValue(keys.hold, metadata, malformed);
  const retained = readValue(keys.retainVolume, metadata, malformed);
  return {
    duration: readValue(keys.suspendDuration, metadata, malformed),
    mode: mode.kind === "malformed" ? "None" : (valueIn(mode) ?? "Zone"),
    waitMs: wait.kind === "absent" ? keys.usualWaitMs : valueIn(wait),
    isOnHold: hold.kind === "malformed" || valueIn(hold) === true,
    isRetained: retained.kind === "malformed" || valueIn(retained) === true,
    drain: parseDrainQuestion(metadata, malformed),
    malformed,
  };
}

/**
 * The ordinal of the pod that a volume claim is made for by a StatefulSet, which calls it TEMPLATE-STATEFULSET-ORDINAL; undefined
 * where its name says another's.
 */
export function ordinalOfPvc({ name, templates }: SuspendableSet, claim: string): number | undefined {
  for (const template of templates) {
    const prefix = `${template}-${name}-`;
    const ordinal = claim.startsWith(prefix) ? parseOrdinal(claim.slice(prefix.length)) : -1;
    if (ordinal >= 0 && claim === `${prefix}${ordinal}`) return ordinal;
  }
  return undefined;
}

/** The StatefulSets that may have made a volume claim of that name, by its name alone: the longest first. */
export function setNamesIn(claim: string): readonly string[] {
  const stem = statefulSetOfPod(claim);
  if (stem === undefined) return [];
  const parts = stem.split("-");
  return parts.slice(1).map((_, index) => parts.slice(index + 1).join("-"));
}
