/** The fields of a PersistentVolumeClaim with a volume that may be suspended, parsed once at the border. */

import { type Annotation, type Malformed, read } from "../annotations/entry.ts";
import * as keys from "../annotations/suspension.ts";
import { type Fields, fieldsOf } from "../base/fields.ts";
import { parseTime } from "../clock/durations.ts";
import type { Metadata, PvcObject } from "../kubernetes/cluster.ts";
import { writtenByOthers } from "../workloads/managed-fields.ts";

/** The value of an annotation: absent, malformed, or a value. */
export type AnnotationValue<T> =
  | { readonly kind: "absent" }
  | { readonly kind: "malformed"; readonly message: string }
  | { readonly kind: "value"; readonly value: T };

/** The owner and the removal policy of a volume claim whose owner is no StatefulSet. */
export interface PvcOwnerFields {
  readonly owner: AnnotationValue<keys.WorkloadOwner>;
  /** Undefined where neither an annotation nor a label of the volume claim says it. */
  readonly zone: string | undefined;
  /** Reason why an annotation about the zone is malformed; undefined if none is. */
  readonly unreadableZone: string | undefined;
  /** The annotation says it, and not only a label. */
  readonly isZoneWritten: boolean;
  readonly zoneLabel: string | undefined;
  readonly selector: AnnotationValue<ReadonlyMap<string, string>>;
  readonly mode: AnnotationValue<keys.RemovalMode>;
  /** In milliseconds. */
  readonly wait: AnnotationValue<number>;
}

export interface Pvc {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** Time of its creation, in milliseconds since the epoch; NaN if the API server has written none. */
  readonly createdMs: number;
  /** It is being deleted, and cannot be had back under its uid. */
  readonly isTerminating: boolean;
  /** When that began, in milliseconds since the epoch. */
  readonly deletedMs: number | undefined;
  /** A finalizer of ours holds it: that of a suspension, or once it is being deleted that of its protection. */
  readonly hasOurFinalizer: boolean;
  /** Our finalizer is on it that has nothing to do with a suspension. */
  readonly isProtected: boolean;
  readonly finalizers: readonly string[];
  /** A pod owns it: the garbage collector takes it with that pod. */
  readonly isOwnedByPod: boolean;
  /** Its own; where it says nothing, that of its StatefulSet counts. In milliseconds. */
  readonly duration: AnnotationValue<number>;
  readonly request: AnnotationValue<boolean>;
  /** Time since which its data is not needed, in milliseconds since the epoch; undefined if no annotation says so. */
  readonly drainedMs: number | undefined;
  readonly recover: AnnotationValue<true>;
  /** Another function has to read a wish first, and to give up the removal that it holds back. */
  readonly isRemovalHeld: boolean;
  readonly isOnHold: boolean;
  readonly isRetained: boolean | undefined;
  readonly state: AnnotationValue<keys.SuspensionState>;
  /** It says `Removing` though no claim of the ledger holds that; present only where it was looked up. */
  readonly isMarkFalse?: true;
  readonly ownerUid: string | undefined;
  readonly podUid: string | undefined;
  /** The names of all volume claims of its pod, where another owner than a StatefulSet has several of them. */
  readonly together: readonly string[];
  /** When the newest pod was made that was seen with it, in milliseconds since the epoch; undefined where none was seen. */
  readonly podCreatedMs: number | undefined;
  /** Since when the time runs, in milliseconds since the epoch; undefined where nothing that parses says so. */
  readonly suspendedMs: number | undefined;
  /** How long it is kept, as its StatefulSet said last; in milliseconds. */
  readonly keptForMs: number | undefined;
  readonly message: keys.SuspensionMessage | undefined;
  /** The id of the claim in the ledger under which it is removed. */
  readonly removalClaim: string | undefined;
  /** The name of its PersistentVolume; undefined for one that is not bound. */
  readonly volumeName: string | undefined;
  readonly bytes: number | undefined;
  /**
   * What the API server's own witness says, the condition `Unused` (beta in Kubernetes 1.37): since when no pod uses it, in
   * milliseconds since the epoch. Undefined where the API server has no such witness.
   */
  readonly unused: { readonly sinceMs: number | undefined } | undefined;
  /** Undefined where it says nothing of an owner: a StatefulSet made it. */
  readonly owned: PvcOwnerFields | undefined;
  readonly malformed: readonly Malformed[];
}

export function parsePvc(object: PvcObject): Pvc {
  const { metadata, spec, status } = object;
  const malformed: Malformed[] = [];
  const annotation = <T>(entry: Annotation<T>): AnnotationValue<T> => readValue(entry, metadata, malformed);
  const value = <T>(entry: Annotation<T>): T | undefined => valueIn(annotation(entry));
  const deletedMs = Date.parse(metadata.deletionTimestamp ?? "");
  const hold = annotation(keys.hold);
  const retained = annotation(keys.retainVolume);
  const suspendedMs = value(keys.suspendedAt);
  return {
    namespace: metadata.namespace ?? "",
    name: metadata.name,
    uid: metadata.uid,
    resourceVersion: metadata.resourceVersion,
    createdMs: Date.parse(metadata.creationTimestamp ?? ""),
    isTerminating: metadata.deletionTimestamp !== undefined,
    deletedMs: Number.isNaN(deletedMs) ? undefined : deletedMs,
    hasOurFinalizer: hasOurFinalizer(metadata),
    isProtected: metadata.finalizers?.includes(keys.volumeProtection) ?? false,
    finalizers: metadata.finalizers ?? [],
    isOwnedByPod: metadata.ownerReferences?.some(({ kind }) => kind === "Pod") ?? false,
    duration: annotation(keys.suspendDuration),
    request: annotation(keys.suspendRequest),
    drainedMs: value(keys.drainedAt),
    recover: annotation(keys.recover),
    isRemovalHeld: value(keys.removalHeld) === true,
    // A malformed value counts as a hold.
    isOnHold: hold.kind === "malformed" || valueIn(hold) === true,
    isRetained: retained.kind === "malformed" ? true : valueIn(retained),
    state: annotation(keys.suspendState),
    ownerUid: value(keys.suspendOwnerUid),
    podUid: value(keys.suspendPodUid),
    together: (value(keys.suspendTogether) ?? "").split(",").filter((name) => name !== ""),
    podCreatedMs: value(keys.suspendPodCreated),
    suspendedMs: suspendedMs === undefined ? undefined : Math.max(suspendedMs, writtenByOthers(metadata, isStamp) ?? 0),
    keptForMs: value(keys.suspendKeptFor),
    message: read(keys.suspendMessage, metadata),
    removalClaim: value(keys.removalClaim),
    volumeName: spec?.volumeName || undefined,
    bytes: parseQuantity(status?.capacity?.storage ?? ""),
    unused: witnessOf(object),
    owned: ownerFieldsOf(metadata, malformed),
    malformed,
  };
}

function ownerFieldsOf(metadata: Metadata, malformed: Malformed[]): PvcOwnerFields | undefined {
  const owner = readValue(keys.volumeOwner, metadata, malformed);
  if (owner.kind === "absent") return undefined;
  const written = readValue(keys.volumeZone, metadata, malformed);
  const label = readValue(keys.zoneLabel, metadata, malformed);
  const zoneLabel = valueIn(label);
  const unreadable = [written, label].find(({ kind }) => kind === "malformed");
  return {
    owner,
    zone: valueIn(written) ?? labelled(metadata.labels, zoneLabel),
    unreadableZone: unreadable?.kind === "malformed" ? unreadable.message : undefined,
    isZoneWritten: written.kind === "value",
    zoneLabel,
    selector: readValue(keys.podSelector, metadata, malformed),
    mode: readValue(keys.removalMode, metadata, malformed),
    wait: readValue(keys.waitBetweenRemovals, metadata, malformed),
  };
}

/** The value of a label; undefined if there is none of that key, or if it is empty. */
export function labelled(labels: Metadata["labels"], key: string | undefined): string | undefined {
  return key === undefined ? undefined : labels?.[key] || undefined;
}

/** The value of an entry on an object; a malformed one is added to `malformed`. */
export function readValue<T>(entry: Annotation<T>, metadata: Metadata, malformed: Malformed[]): AnnotationValue<T> {
  const wrong: Malformed[] = [];
  const value = read(entry, metadata, wrong);
  if (value !== undefined) return { kind: "value", value };
  const [first] = wrong;
  if (first === undefined) return { kind: "absent" };
  malformed.push(first);
  return { kind: "malformed", message: first.message };
}

/** The value of an annotation; undefined without one. */
export function valueIn<T>(one: AnnotationValue<T>): T | undefined {
  return one.kind === "value" ? one.value : undefined;
}

/** True for a volume claim that concerns some function: an annotation asks for something, or a function has begun it. */
export function isSuspensionAsked({ metadata }: PvcObject): boolean {
  const { annotations = {} } = metadata;
  return (
    hasOurFinalizer(metadata) ||
    [...keys.pvcEntries, ...keys.stateEntries].some(({ key }) => annotations[key] !== undefined)
  );
}

/** A volume claim that is only protected is as any other until a client deletes it. */
function hasOurFinalizer({ finalizers = [], deletionTimestamp }: Metadata): boolean {
  const isKept = deletionTimestamp !== undefined && finalizers.includes(keys.volumeProtection);
  return isKept || finalizers.includes(keys.volumeHold);
}

/** The time from which a suspension counts: what is written by hand never makes a suspension older. */
function isStamp(fields: Fields): boolean {
  const written = fieldsOf(fieldsOf(fields["f:metadata"])?.["f:annotations"]);
  return written?.[`f:${keys.suspendedAt.key}`] !== undefined;
}

function witnessOf({ status }: PvcObject): Pvc["unused"] {
  const condition = status?.conditions?.find(({ type }) => type === "Unused");
  if (condition === undefined) return undefined;
  const sinceMs = condition.status === "True" ? parseTime(condition.lastTransitionTime ?? "") : undefined;
  return { sinceMs };
}

/** By power of 1000, and by power of 1024. */
const decimalUnits = ["", "k", "M", "G", "T", "P", "E"];
const binaryUnits = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

function factorOf(unit: string): number | undefined {
  if (decimalUnits.includes(unit)) return 1000 ** decimalUnits.indexOf(unit);
  return binaryUnits.includes(unit) ? 1024 ** binaryUnits.indexOf(unit) : undefined;
}

/** A quantity of bytes as Kubernetes writes them; undefined for what is none. */
function parseQuantity(text: string): number | undefined {
  const [, number, unit = ""] = /^(\d+(?:\.\d+)?)([a-zA-Z]*)$/.exec(text) ?? [];
  const factor = factorOf(unit);
  return number === undefined || factor === undefined ? undefined : Math.ceil(Number(number) * factor);
}
